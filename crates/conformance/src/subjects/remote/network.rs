//! The network between one stage's clients and their servers: proxies of its own for each client, one to each server.
//!
//! Servers that serve together tell clients of each other, and would all tell them the same; what is done to one client
//! is nobody else's. So each proxy tells its client of that client's proxies instead.

use std::sync::{Arc, Mutex, PoisonError};

use tidelock::{Error, ErrorKind, Result};

use super::Site;
use super::address::{Address, Place};
use crate::{Act, Proxy, Retelling, Whom};

/// Every client's own way.
#[derive(Debug, Default)]
pub(super) struct Network(Mutex<Vec<(String, Arc<Proxy>)>>);

impl Network {
    /// A way of its own to the servers, for the client of that label.
    pub(super) async fn way(&self, label: &str, server: &Address, site: &dyn Site) -> Result<Address> {
        let told = site.told().await?.into_iter().map(|(host, port)| Place { host, port });
        let mut proxies: Vec<(Place, Proxy)> = Vec::new();
        for place in server.places.iter().cloned().chain(told) {
            if proxies.iter().all(|(known, _)| *known != place) {
                let proxy = Proxy::knowing(place.resolve().await?, site.push_mark()).await;
                proxies.push((place, proxy.map_err(no_port)?));
            }
        }
        let spellings = |place: &Place| site.spellings(&place.host, place.port);
        let retold = proxies.iter().flat_map(|(place, proxy)| {
            spellings(place).into_iter().zip(spellings(&Place::at(proxy.address())))
        });
        let retelling = Retelling::new(retold);
        proxies.iter().for_each(|(_, proxy)| proxy.retell(retelling.clone()));
        let named = proxies.iter().take(server.places.len()).map(|(_, proxy)| proxy.address());
        let way = server.by(named);
        let proxies = proxies.into_iter().map(|(_, proxy)| (label.to_owned(), Arc::new(proxy)));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(proxies);
        Ok(way)
    }

    /// Does what is done on the network. Whatever is not is given back.
    pub(super) fn act(&self, act: Act) -> Option<Act> {
        match act {
            Act::Cut(whom) => self.of(&whom).iter().for_each(|proxy| proxy.cut()),
            Act::Reset(whom) => self.of(&whom).iter().for_each(|proxy| proxy.reset()),
            Act::CutAfter(whom, pieces) => self.of(&whom).iter().for_each(|proxy| proxy.cut_after(pieces)),
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

fn no_port(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "there is no port for a proxy").because(error)
}
