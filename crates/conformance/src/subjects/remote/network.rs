//! The network between one stage's clients and their servers: each client has its own proxies, one for each server.
//!
//! Servers that serve together tell clients each other's addresses, and tell every client the same ones. A fault of
//! one client must not reach another, so each proxy replaces these addresses by those of its own client's proxies.

use std::sync::{Arc, Mutex, PoisonError};

use tidelock_core::{Error, ErrorKind, Result};

use super::Site;
use super::address::{Address, Place};
use crate::{Act, Proxy, Retelling, Whom};

/// The proxies of every client.
#[derive(Debug, Default)]
pub(super) struct Network(Mutex<Vec<(String, Arc<Proxy>)>>);

impl Network {
    /// Makes a proxy to each server for the client of that label.
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

    /// Carries out a network act. Any other act is returned.
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

    /// Lets everything through again.
    pub(super) fn heal(&self) {
        self.of(&Whom::Everyone).iter().for_each(|proxy| proxy.heal());
    }

    fn of(&self, whom: &Whom) -> Vec<Arc<Proxy>> {
        let ways = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ways.iter().filter(|(label, _)| whom.is(label)).map(|(_, proxy)| proxy.clone()).collect()
    }
}

fn no_port(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "no free port for a proxy").because(error)
}
