//! The sentences about local lines: why a hold is passed on, and why it is not.

use crate::cohort::{MOST_PASSES, Reason, parts};
use crate::policy::Policy;
use crate::program::Op;
use crate::record::{Event, Kind};
use crate::run::Run;
use crate::settings::Work;

/// A task waits, and asks the store for nothing.
pub(super) fn behind(event: &Event, who: &str) -> String {
    let place = match event.a {
        0 => "next after the one that holds or stands in the store's line".to_owned(),
        ahead => format!("behind {ahead} more"),
    };
    format!("{who} waits in the local line of its process, {place}. It asks the store for nothing.")
}

impl Run {
    /// Why a task stands in the store's line now.
    pub(super) fn leads(&self, event: &Event, who: &str) -> String {
        const USED: u32 = Reason::Used as u32;
        const LINGERED: u32 = Reason::Lingered as u32;
        const INHERITS: u32 = Reason::Inherits as u32;
        let why = match event.a {
            USED => format!("The hold has been passed on {MOST_PASSES} times, as often as a token can tell"),
            LINGERED => format!("The linger of {} ms is over", self.settings().linger),
            INHERITS => {
                let other = self.client(event.b as u16);
                return format!("{other} waits no more, and leaves its place in the store's line to {who}.");
            }
            _ => "Its process has no hold to pass on".to_owned(),
        };
        format!("{why}: {who} stands in the store's line for its process, behind all others there.")
    }

    /// Why a hold is passed on: a task of the process waits, and neither the linger nor the token is used up.
    pub(super) fn pass(&self, event: &Event, who: &str) -> String {
        let is_own = event.b == u32::from(event.who);
        let to = if is_own { "the next one of it".to_owned() } else { self.client(event.b as u16) };
        format!(
            "{who} passes the hold on inside its process, to {to}, with token {}: pass {} of at most {MOST_PASSES}, \
             {} ms after the store's grant; the linger is {} ms.",
            event.a,
            parts(event.a).1,
            self.since_grant(event.a, event.at),
            self.settings().linger,
        )
    }

    /// Why a hold was not passed on, but given back to the store; nothing if it had been lost, or was never there.
    pub(super) fn given_back(&self, leave: &Event) -> String {
        let (settings, call) = (self.settings(), leave.cause);
        let is_read = settings.work == Work::Seats || settings.reads_only(leave.who);
        let is_news = |event: &Event| {
            let joins = event.kind == Kind::Call && event.a == Op::Join(0).code();
            event.who == leave.who && (joins || matches!(event.kind, Kind::Held | Kind::Leads | Kind::Lost))
        };
        let newest = self.newest(call, is_news).map(|news| self.record.events[news as usize]);
        let hold = newest.filter(|news| news.kind == Kind::Held);
        let (Some(hold), Policy::Cohort, false) = (hold, settings.policy, is_read) else {
            return String::new();
        };
        let since = self.since_grant(hold.a, self.record.events[call as usize].at);
        if parts(hold.a).1 == MOST_PASSES {
            format!(" Its hold has been passed on {MOST_PASSES} times, as often as a token can tell.")
        } else if since >= settings.linger {
            format!(
                " The store granted its hold {since} ms ago: the linger of {} ms is over.",
                settings.linger
            )
        } else {
            " Nobody else of its process waits, so it passes nothing on.".to_owned()
        }
    }

    /// When the hold began by a grant of the store of which this token is a pass.
    pub(super) fn grant_of(&self, token: u32, before: u32) -> Option<u32> {
        let first = token - parts(token).1;
        self.newest(before, |event| event.kind == Kind::Held && event.a == first)
    }

    fn since_grant(&self, token: u32, now: u32) -> u32 {
        let grant = self.grant_of(token, self.count_at(now));
        grant.map_or(0, |grant| now - self.record.events[grant as usize].at)
    }
}
