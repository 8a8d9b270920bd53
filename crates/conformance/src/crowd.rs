//! A crowd: many tasks of several clients that take and give back at random, and write to the resources they hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::client::Client;
use crate::failure::{Outcome, ensure};
use crate::{Dice, Resource, Stage, Want};

/// The plan of a crowd.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    /// The names, each with the wants that tasks choose from; a name has one kind.
    pub(crate) names: Vec<(String, Vec<Want>)>,
    /// How many tasks each client has.
    pub(crate) tasks: usize,
    /// How often each task takes a name.
    pub(crate) rounds: usize,
    /// Whether tasks also try without waiting, and give up waiting.
    pub(crate) is_fickle: bool,
}

impl Crowd {
    /// Runs the crowd, and checks at the end that every name's counter equals the number of its exclusive holds.
    pub(crate) async fn play(self, stage: &Stage, clients: &[Client]) -> Outcome {
        let resource = |name: &str| Arc::new(Resource::new(stage.recorder(), name));
        let resources: BTreeMap<String, Arc<Resource>> =
            self.names.iter().map(|(name, _)| (name.clone(), resource(name))).collect();
        let resources = Arc::new(resources);
        let mut tasks = Vec::new();
        for client in clients {
            for _ in 0..self.tasks {
                let one = One {
                    crowd: self.clone(),
                    client: client.clone(),
                    dice: stage.dice().fork(),
                    resources: resources.clone(),
                };
                tasks.push(tokio::spawn(one.play()));
            }
        }
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for task in tasks {
            for (name, times) in stage.drive(task).await?? {
                *counted.entry(name).or_default() += times;
            }
        }
        for (name, times) in counted {
            let seen = resources[&name].counted();
            ensure!(
                seen == times,
                "{times} exclusive holders of {name:?} added one each, but the counter is {seen}"
            );
        }
        Ok(())
    }
}

/// One task of the crowd.
struct One {
    crowd: Crowd,
    client: Client,
    dice: Dice,
    resources: Arc<BTreeMap<String, Arc<Resource>>>,
}

impl One {
    async fn play(self) -> Outcome<BTreeMap<String, u64>> {
        let mut counted = BTreeMap::new();
        for _ in 0..self.crowd.rounds {
            let (name, wants) = self.dice.pick(&self.crowd.names);
            let want = *self.dice.pick(wants);
            if self.work(name, want).await? {
                *counted.entry(name.clone()).or_default() += 1;
            }
        }
        Ok(counted)
    }

    /// Takes the name, works, and gives it back. Returns whether it counted.
    async fn work(&self, name: &str, want: Want) -> Outcome<bool> {
        let held = match self.dice.below(4) {
            0 if self.crowd.is_fickle => self.client.try_take(name, want).await?,
            1 if self.crowd.is_fickle => {
                let mut waiting = Box::pin(self.client.take(name, want));
                let polls = self.dice.below(6);
                tokio::select! {
                    biased;
                    held = &mut waiting => Some(held?),
                    () = yields(polls) => None,
                }
            }
            _ => Some(self.client.take(name, want).await?),
        };
        let Some(hold) = held else {
            return Ok(false);
        };
        let counts = want.is_alone();
        if counts {
            let resource = &self.resources[name];
            ensure!(resource.write(&hold), "the fence of {name:?} refused a holder that still holds");
            resource.count(1 + self.dice.below(4)).await;
        } else {
            yields(1 + self.dice.below(4)).await;
        }
        match self.dice.one_in(2) {
            true => hold.release().await?,
            false => drop(hold),
        }
        Ok(counts)
    }
}

async fn yields(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}
