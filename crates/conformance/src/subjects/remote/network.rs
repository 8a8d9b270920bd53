//! The network between one stage's clients and their server: a proxy for each client.

use std::sync::{Arc, Mutex, PoisonError};

use tidelock::{Error, ErrorKind, Result};

use super::address::Address;
use crate::{Act, Proxy, Whom};

/// Every client's own way.
#[derive(Debug, Default)]
pub(super) struct Network(Mutex<Vec<(String, Arc<Proxy>)>>);

impl Network {
    /// A way of its own to the server, for the client of that label.
    pub(super) async fn way(
        &self,
        label: &str,
        server: &Address,
        mark: Option<&'static str>,
    ) -> Result<Address> {
        let none = |error| Error::new(ErrorKind::Unavailable, "there is no port for a proxy").because(error);
        let proxy = Proxy::knowing(server.resolve().await?, mark).await.map_err(none)?;
        let way = server.by(proxy.address());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((label.to_owned(), Arc::new(proxy)));
        Ok(way)
    }

    /// Does what is done on the network. Whatever is not is given back.
    pub(super) fn act(&self, act: Act) -> Option<Act> {
        match act {
            Act::Cut(whom) => self.of(&whom).iter().for_each(|proxy| proxy.cut()),
            Act::Reset(whom) => self.of(&whom).iter().for_each(|proxy| proxy.reset()),
            Act::HalfOpen(whom) => self.of(&whom).iter().for_each(|proxy| proxy.break_quietly()),
            Act::CutPush(whom) => self.of(&whom).iter().for_each(|proxy| proxy.cut_push()),
            Act::Stall(whom, way) => self.of(&whom).iter().for_each(|proxy| proxy.hold(way)),
            Act::Strand(whom) => self.of(&whom).iter().for_each(|proxy| proxy.strand()),
            Act::Lag(whom, way, by) => self.of(&whom).iter().for_each(|proxy| proxy.delay(way, by)),
            other => return Some(other),
        }
        None
    }

    /// Everything gets through again.
    pub(super) fn heal(&self) {
        self.of(&Whom::Everyone).iter().for_each(|proxy| proxy.heal());
    }

    fn of(&self, whom: &Whom) -> Vec<Arc<Proxy>> {
        let ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ways.iter().filter(|(label, _)| whom.is(label)).map(|(_, proxy)| proxy.clone()).collect()
    }
}
