//! The connections from a client to its servers. A test can silence or end them one by one.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidelock_redis::Store;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// All connections that a store has made.
#[derive(Clone, Default)]
pub(crate) struct Wires(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    wires: Vec<Arc<Mutex<State>>>,
    /// The number of connection attempts.
    tries: usize,
    /// The addresses of those attempts.
    addresses: BTreeSet<String>,
    /// The addresses that refuse connections.
    dead: BTreeSet<String>,
    /// A longer request cuts its connection.
    longest: Arc<AtomicUsize>,
    lag: Arc<Mutex<Duration>>,
    /// How many bytes each connection passes on per second.
    width: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    address: String,
    fault: Option<Fault>,
    waiting: Vec<Waker>,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Written bytes are lost, and nothing is received any more: a firewall has forgotten the connection.
    Silent,
    /// Written bytes arrive, but nothing is received.
    Mute,
    /// The connection is reset.
    Cut,
}

impl Wires {
    /// The store at this URL, over these connections.
    pub(crate) fn store(&self, url: &str) -> Store {
        let wires = self.clone();
        let connect = move |host: String, port: u16| {
            let wires = wires.clone();
            async move {
                let address = format!("{host}:{port}");
                if wires.is_dead(&address) {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Ok(wires.add(TcpStream::connect((host, port)).await?, address))
            }
        };
        Store::open(url).unwrap().connector(connect).unwrap()
    }

    /// How many connections have been made.
    pub(crate) fn made(&self) -> usize {
        self.0.lock().unwrap().wires.len()
    }

    /// How many connections stand.
    pub(crate) fn stand(&self) -> usize {
        self.0.lock().unwrap().wires.iter().filter(|state| !state.lock().unwrap().has_ended).count()
    }

    /// The number of connection attempts.
    pub(crate) fn tries(&self) -> usize {
        self.0.lock().unwrap().tries
    }

    /// The addresses of those attempts: `HOST:PORT`.
    pub(crate) fn addresses(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().addresses.clone()
    }

    /// Breaks every connection that exists now, but none that is made later.
    pub(crate) fn befall(&self, fault: Fault) {
        self.befall_from(0, fault);
    }

    /// Breaks all connections except the first `first` ones.
    pub(crate) fn befall_from(&self, first: usize, fault: Fault) {
        self.0.lock().unwrap().wires[first..].iter().for_each(|state| state.lock().unwrap().befall(fault));
    }

    /// From now on nothing is received sooner than this after a write.
    pub(crate) fn lag(&self, round_trip: Duration) {
        *self.0.lock().unwrap().lag.lock().unwrap() = round_trip;
    }

    /// From now on each connection passes on at most so many bytes per second.
    pub(crate) fn narrow(&self, bytes: usize) {
        self.0.lock().unwrap().width.store(bytes, Ordering::Relaxed);
    }

    /// From now on a request of more bytes cuts its connection.
    pub(crate) fn cut_at_requests_longer_than(&self, bytes: usize) {
        self.0.lock().unwrap().longest.store(bytes, Ordering::Relaxed);
    }

    /// The server at this address is dead for this client, until `revive`.
    pub(crate) fn kill(&self, address: &str) {
        let mut all = self.0.lock().unwrap();
        all.dead.insert(address.to_owned());
        for state in &all.wires {
            let mut state = state.lock().unwrap();
            if state.address == address {
                state.befall(Fault::Cut);
            }
        }
    }

    pub(crate) fn revive(&self, address: &str) {
        self.0.lock().unwrap().dead.remove(address);
    }

    fn is_dead(&self, address: &str) -> bool {
        let mut all = self.0.lock().unwrap();
        all.tries += 1;
        all.addresses.insert(address.to_owned());
        all.dead.contains(address)
    }

    fn add(&self, stream: TcpStream, address: String) -> Wire {
        let state = Arc::new(Mutex::new(State { address, ..State::default() }));
        stream.set_nodelay(true).unwrap();
        let mut all = self.0.lock().unwrap();
        all.wires.push(state.clone());
        Wire {
            stream,
            state,
            longest: all.longest.clone(),
            lag: all.lag.clone(),
            rest: None,
            width: all.width.clone(),
            passing: None,
        }
    }
}

impl State {
    fn befall(&mut self, fault: Fault) {
        self.fault = Some(fault);
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// One connection.
pub(crate) struct Wire {
    stream: TcpStream,
    state: Arc<Mutex<State>>,
    /// No limit while it is zero.
    longest: Arc<AtomicUsize>,
    lag: Arc<Mutex<Duration>>,
    /// Nothing is received until this ends.
    rest: Option<Pin<Box<Sleep>>>,
    /// No limit while it is zero.
    width: Arc<AtomicUsize>,
    /// Nothing more is passed on until this ends.
    passing: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    /// Its fault, if any. Wakes the calling task when a fault comes.
    fn fault(&self, cx: &Context<'_>) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        state.fault
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.state.lock().unwrap().has_ended = true;
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(rest) = &mut self.rest {
            std::task::ready!(rest.as_mut().poll(cx));
            self.rest = None;
        }
        match self.fault(cx) {
            None => Pin::new(&mut self.stream).poll_read(cx, buffer),
            Some(Fault::Silent | Fault::Mute) => Poll::Pending,
            Some(Fault::Cut) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let lag = *self.lag.lock().unwrap();
        if !lag.is_zero() && self.rest.is_none() {
            self.rest = Some(Box::pin(tokio::time::sleep(lag)));
        }
        let longest = self.longest.load(Ordering::Relaxed);
        if longest > 0 && bytes.len() > longest {
            self.state.lock().unwrap().befall(Fault::Cut);
        }
        let width = self.width.load(Ordering::Relaxed);
        if let Some(passing) = &mut self.passing {
            std::task::ready!(passing.as_mut().poll(cx));
            self.passing = None;
        }
        match self.fault(cx) {
            None | Some(Fault::Mute) if width > 0 => {
                let written = std::task::ready!(
                    Pin::new(&mut self.stream).poll_write(cx, &bytes[..bytes.len().min(2_048)])
                )?;
                let takes = Duration::from_secs(1).mul_f64(written as f64 / width as f64);
                self.passing = Some(Box::pin(tokio::time::sleep(takes)));
                Poll::Ready(Ok(written))
            }
            None | Some(Fault::Mute) => Pin::new(&mut self.stream).poll_write(cx, bytes),
            Some(Fault::Silent) => Poll::Ready(Ok(bytes.len())),
            Some(Fault::Cut) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
