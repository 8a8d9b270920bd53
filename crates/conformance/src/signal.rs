//! A backend's signal as a value, so that a layer can look at all of them, or change some, in one function.

use std::fmt;
use std::sync::Arc;

use tidelock_core::backend::{Grant, Signals};
use tidelock_core::{ClaimId, Name};

/// One call of [`Signals`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal<'a> {
    Held(ClaimId, Grant),
    Stray(ClaimId),
    Gone(ClaimId),
    Look(&'a Name),
    LookEverywhere,
    Over,
}

/// Passes on to `to` what `change` makes of each signal; `None` is not passed on.
pub(crate) fn passing<C>(to: Arc<dyn Signals>, change: C) -> Arc<dyn Signals>
where
    C: for<'a> Fn(Signal<'a>) -> Option<Signal<'a>> + Send + Sync + 'static,
{
    Arc::new(Passing { to, change })
}

struct Passing<C> {
    to: Arc<dyn Signals>,
    change: C,
}

impl<C: for<'a> Fn(Signal<'a>) -> Option<Signal<'a>>> Passing<C> {
    fn pass(&self, signal: Signal<'_>) {
        match (self.change)(signal) {
            Some(Signal::Held(id, grant)) => self.to.held(id, grant),
            Some(Signal::Stray(id)) => self.to.stray(id),
            Some(Signal::Gone(id)) => self.to.gone(id),
            Some(Signal::Look(name)) => self.to.look(name),
            Some(Signal::LookEverywhere) => self.to.look_everywhere(),
            Some(Signal::Over) => self.to.over(),
            None => {}
        }
    }
}

impl<C> Signals for Passing<C>
where
    C: for<'a> Fn(Signal<'a>) -> Option<Signal<'a>> + Send + Sync + 'static,
{
    fn held(&self, id: ClaimId, grant: Grant) {
        self.pass(Signal::Held(id, grant));
    }

    fn stray(&self, id: ClaimId) {
        self.pass(Signal::Stray(id));
    }

    fn gone(&self, id: ClaimId) {
        self.pass(Signal::Gone(id));
    }

    fn look(&self, name: &Name) {
        self.pass(Signal::Look(name));
    }

    fn look_everywhere(&self) {
        self.pass(Signal::LookEverywhere);
    }

    fn over(&self) {
        self.pass(Signal::Over);
    }
}

impl<C> fmt::Debug for Passing<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Passing({:?})", self.to)
    }
}
