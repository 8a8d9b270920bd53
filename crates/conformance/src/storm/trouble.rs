//! What goes wrong in a round, and for how long.
//!
//! Troubles come one after the other, and each is healed before the next. Most are short: a lost reply breaks a lock
//! more often than a lost server.

use std::time::Duration;

use crate::{Ability, Act, Can, Dice, Mishap, Seat, Subject, Way, Whom};

/// A fault, and its heal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trouble {
    /// How long all is well before it.
    pub(super) pause: Duration,
    pub(super) fault: Fault,
    /// How long it lasts.
    pub(super) lasts: Duration,
}

/// What a fault can hit.
pub(super) struct Targets<'a> {
    pub(super) names: Vec<&'a str>,
    /// The labels of the clients of this process.
    pub(super) clients: Vec<&'a str>,
    /// How many clients are processes of their own.
    pub(super) processes: usize,
}

impl Targets<'_> {
    /// Whether the round has a single client.
    fn is_lonely(&self) -> bool {
        self.clients.len() == 1
    }

    fn name(&self, dice: &Dice) -> String {
        (*dice.pick(&self.names)).to_owned()
    }
}

/// The fault.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// An act on the server or the network.
    Act(Act),
    /// The process with that number is killed.
    Kill(usize),
    /// The process with that number is paused meanwhile.
    Stop(usize),
    /// This many claims of that name are evicted, held or waiting ones.
    Evict(String, usize),
}

impl Fault {
    /// The mishaps that it is for current holders, if it is more than a delay.
    pub(super) fn mishaps(&self) -> &'static [Mishap] {
        match self {
            Self::Act(Act::Restart | Act::Crash | Act::Stop | Act::KillHome(_)) => {
                &[Mishap::Restart, Mishap::FailOver]
            }
            Self::Act(Act::Pause | Act::PauseHome(_) | Act::FailOver) => &[Mishap::FailOver],
            _ => &[],
        }
    }

    /// Whether requests of that time may arrive at its end.
    pub(super) fn holds_requests_up(&self) -> bool {
        matches!(
            self,
            Self::Act(
                Act::Strand(_)
                    | Act::Stall(_, Way::There)
                    | Act::HoldRequests(_)
                    | Act::Delay(..)
                    | Act::Lag(_, Way::There, _)
            )
        )
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Act(act) => act.fmt(f),
            Self::Kill(number) => write!(f, "process {number} is killed"),
            Self::Stop(number) => write!(f, "process {number} is paused"),
            Self::Evict(name, count) => write!(f, "an operator evicts up to {count} claims of {name:?}"),
        }
    }
}

/// The troubles for a round of this length.
pub(super) fn draw(seed: u64, targets: &Targets<'_>, subject: &dyn Subject, lasts: Duration) -> Vec<Trouble> {
    let dice = Dice::new(seed, "troubles");
    let ttl = subject.ttl();
    let mut troubles = Vec::new();
    let mut passed = Duration::ZERO;
    // One sort of fault for a round, or all of them: some bugs need the same fault again and again.
    let season = dice.below(if targets.is_lonely() { 2 } else { 4 });
    let has_network = can(subject, &Fault::Act(Act::Cut(Whom::Everyone)));
    let season = if has_network { season } else { 2 };
    while passed < lasts {
        let fault = match season {
            0 => cut(targets, &dice),
            1 => any_of_the_network(targets, &dice),
            _ => any(targets, &dice),
        };
        let pause = part(&dice, ttl / 3);
        let length = if dice.one_in(4) { ttl / 2 + part(&dice, ttl * 2) } else { part(&dice, ttl / 2) };
        if can(subject, &fault) {
            passed += pause + length;
            troubles.push(Trouble { pause, fault, lasts: length });
        } else {
            passed += ttl / 20; // time passes even if no such fault is possible
        }
    }
    troubles
}

fn can(subject: &dyn Subject, fault: &Fault) -> bool {
    let needs = match fault {
        Fault::Act(act) => act.needs(),
        Fault::Kill(_) | Fault::Stop(_) => Some(Ability::Child),
        Fault::Evict(..) => None,
    };
    needs.is_none_or(|need| subject.can(need) == Can::Yes)
}

fn part(dice: &Dice, most: Duration) -> Duration {
    Duration::from_micros(dice.below(u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
}

/// Connections are cut just after a request.
fn cut(targets: &Targets<'_>, dice: &Dice) -> Fault {
    Fault::Act(Act::CutAfter(whom(targets, dice), 2 + dice.below(30)))
}

fn any_of_the_network(targets: &Targets<'_>, dice: &Dice) -> Fault {
    let (whom, way) = (whom(targets, dice), if dice.one_in(2) { Way::There } else { Way::Back });
    Fault::Act(match dice.below(10) {
        0 => Act::Cut(whom),
        1 => Act::Reset(whom),
        2 => Act::HalfOpen(whom),
        3 => Act::CutPush(whom),
        4 | 5 => Act::Stall(whom, way),
        6 => Act::Strand(whom),
        7 => Act::Lag(whom, way, Duration::from_millis(1 + dice.below(100))),
        _ => return cut(targets, dice),
    })
}

fn any(targets: &Targets<'_>, dice: &Dice) -> Fault {
    match dice.below(8) {
        0 | 1 => at_the_seam(targets, dice),
        2 | 3 => any_of_the_network(targets, dice),
        4 => cut(targets, dice),
        5 => Fault::Evict(targets.name(dice), 1 + index(dice, 3)),
        6 if targets.processes > 0 => {
            let number = index(dice, targets.processes);
            if dice.one_in(4) { Fault::Kill(number) } else { Fault::Stop(number) }
        }
        _ => at_the_server(targets, dice),
    }
}

fn at_the_seam(targets: &Targets<'_>, dice: &Dice) -> Fault {
    let whom = whom(targets, dice);
    Fault::Act(match dice.below(8) {
        0 => Act::Refuse(whom),
        1 | 2 => Act::LoseReplies(whom, 1 + index(dice, 20)),
        3 => Act::Delay(whom, Duration::from_millis(1 + dice.below(100))),
        4 => Act::HoldRequests(whom),
        5 => Act::HoldReplies(whom),
        6 => Act::DropSignals(whom),
        _ if whom == Whom::Everyone => Act::StallName(targets.name(dice)),
        _ => Act::EndSession(whom),
    })
}

fn at_the_server(targets: &Targets<'_>, dice: &Dice) -> Fault {
    let name = targets.name(dice);
    Fault::Act(match dice.below(12) {
        0 => Act::Restart,
        1 => Act::Crash,
        2 => Act::Stop,
        3..=5 => Act::Pause,
        6 => Act::FailOver,
        7 => Act::PauseHome(name),
        8 => Act::KillHome(name),
        9 => Act::MoveName(name),
        10 => Act::KillSeat(*dice.pick(&[Seat::Leader, Seat::Follower])),
        _ => Act::CutOff(*dice.pick(&[Seat::Leader, Seat::Follower])),
    })
}

fn whom(targets: &Targets<'_>, dice: &Dice) -> Whom {
    match dice.one_in(3) {
        true => Whom::Everyone,
        false => Whom::Client((*dice.pick(&targets.clients)).to_owned()),
    }
}

fn index(dice: &Dice, length: usize) -> usize {
    usize::try_from(dice.below(length as u64)).unwrap_or(0)
}
