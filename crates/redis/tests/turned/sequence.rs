//! One sequence of operations, on its own names.

use redis::{Cmd, Value};
use tidelock_model::comparison::{Comparison, Wish};
use tidelock_model::{Dice, SessionId, Wishes};

use crate::answered;
use crate::asked::{Asker, Caller};
use crate::scripts::Scripts;

/// When every sequence begins, in µs: in the real future, so that no key expires by the server's own clock.
const BEGIN: u64 = 2_600_000_000_000_000;
/// Lifetimes in ms, some of them at the limit of the scripts' fast paths.
const TTLS: [u64; 9] = [1_000, 1_000, 3_000, 15_000, 15_000, 60_000, 900_000, 900_001, 24 * 3_600_000];

pub(crate) struct Sequence {
    seed: u64,
    steps: u64,
    asker: Asker,
    labels: Vec<String>,
    comparison: Comparison<'static, String>,
    asked: Option<Wish<String>>,
}

impl Sequence {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Dice::new(seed, "turned");
        let sessions: Vec<_> = (1..=4).map(|n| SessionId::from_bits(seed << 3 | n)).collect();
        let ttls = |session: &SessionId| (*session, *dice.pick(&TTLS) * 1_000);
        let ttls: Vec<_> = sessions.iter().map(ttls).collect();
        // With a long label there is hardly room for waiters in `one`, with a short one there is room for some.
        let label = |_| "é x".repeat(*dice.pick(&[0, 1, 5, 60]));
        let names = ["}", "a/b", "é {"]
            .map(|odd| tidelock_redis::backend::escape(&format!("{odd}{seed:x}"), |c| "{}".contains(c)));
        let names = names[..*dice.pick(&[1, 3])].to_vec();
        let wishes = Wishes::new(seed, names, Box::leak(Box::new(0))); // eight bytes
        Self {
            seed,
            steps: 30 + dice.below(150),
            asker: Asker { namespace: format!("turned {}", std::process::id()) },
            labels: sessions.iter().map(label).collect(),
            comparison: Comparison::new(wishes, &ttls, BEGIN + dice.below(1_000_000), true),
            asked: None,
        }
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.steps == 0
    }

    /// The variant of the scripts that this sequence uses.
    pub(crate) fn variant(&self) -> usize {
        [1, 0, 2, 2][(self.seed % 4) as usize]
    }

    pub(crate) fn ask(&mut self, scripts: &Scripts) -> Cmd {
        let (at, wish) = self.comparison.turn();
        let caller = |session: SessionId| Caller {
            millis: self.comparison.ttl(session) / 1_000,
            label: &self.labels[usize::try_from(session.get() & 7).unwrap() - 1],
        };
        let command = self.asker.command(scripts, &wish, at, caller);
        self.steps -= 1;
        self.asked = Some(wish);
        command
    }

    pub(crate) fn judge(&mut self, reply: &Value) -> Result<(), String> {
        let Some(wish) = self.asked.take() else { return Ok(()) };
        let verdict = match answered::answer(&wish, reply) {
            Some(answer) => self.comparison.judge(&wish, &answer),
            None => Err(format!("{wish:?} was answered {reply:?}")),
        };
        verdict.map_err(|wrong| {
            let log: Vec<_> = self.comparison.log().collect();
            format!(
                "{wrong}\nsequence TIDELOCK_TURNED_SEED={}:\n    {}\nthe last: {reply:?}",
                self.seed,
                log.join("\n    ")
            )
        })
    }
}
