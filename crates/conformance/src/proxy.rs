//! A TCP proxy in this process that can be made to fail, for subjects with a server.
//!
//! Each direction of each connection is a reader and a writer with a queue between them, so a delay shifts the data
//! and does not throttle it. Held-back data waits in the queue and is sent at the heal. A cut or a reset ends every
//! connection, and until the heal every new one too. A connection may also be cut after a number of pieces, just after
//! a request. A half-open connection carries nothing any more, not even after the heal. A connection is recognized as
//! a push connection by a mark that the client sends on it. Where servers tell clients each other's addresses, the
//! proxy replaces these by the addresses of proxies.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::Retelling;

/// How many pieces may be queued in one direction of one connection.
const UNDER_WAY: usize = 4_096;
/// How long to go on reading from a server after its client was cut off.
const HEARD_OUT: Duration = Duration::from_millis(200);
/// The largest piece, in bytes.
const PIECE: usize = 16 * 1_024;

/// A route to a server that can be made to fail. Dropping it ends every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    faults: watch::Sender<NetworkFaults>,
    carried: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
    retelling: Arc<OnceLock<Retelling>>,
    listening: JoinHandle<()>,
}

/// A direction, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    There,
    /// From the server.
    Back,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::There => "on the way there",
            Self::Back => "on the way back",
        })
    }
}

/// The current faults of the network.
#[derive(Clone, Debug, Default)]
struct NetworkFaults {
    there: Direction,
    back: Direction,
    /// Increases with each fault that ends or silences the connections of that moment.
    age: u64,
    /// Connections that began before this age are ended; if there is an ending, new ones too.
    cut: (u64, Option<Ending>),
    /// The same for push connections only.
    push_cut: (u64, Option<Ending>),
    /// Connections that began before this age carry nothing.
    half_open: u64,
    /// Connections that began before this age carry nothing until the heal.
    stranded: u64,
    /// Each time this many pieces have gone to the server, the connection of the last one is ended; 0 is never.
    cut_after: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    is_held: bool,
    delay: Duration,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// As if the other side had closed it.
    Closed,
    /// As if the other side did not know it.
    Reset,
}

impl Proxy {
    /// A proxy to that server, on a free port of this machine.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        Self::knowing(server, None).await
    }

    /// The same. A connection on which a client sends `mark`, in upper or lower case, is a push connection.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn knowing(server: SocketAddr, mark: Option<&'static str>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (faults, carried) = (watch::Sender::new(NetworkFaults::default()), Arc::new(AtomicU64::new(0)));
        let (asked, retelling) = (Arc::new(AtomicU64::new(0)), Arc::new(OnceLock::new()));
        let first = Connection {
            faults: faults.subscribe(),
            born: 0,
            mark,
            is_push: watch::Sender::new(false),
            is_doomed: watch::Sender::new(false),
            carried: carried.clone(),
            asked: asked.clone(),
            retelling: retelling.clone(),
        };
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(first.another().carry(client, server));
            }
        });
        Ok(Self { address, faults, carried, asked, retelling, listening })
    }

    /// From now on clients receive other words than the server's. Call this once, before any client connects.
    pub fn retell(&self, retelling: Retelling) {
        let _ = self.retelling.set(retelling); // only the first call counts
    }

    /// The address that clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many bytes have been carried, in both directions.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Holds everything back in that direction until the heal. Nothing is lost.
    pub fn hold(&self, way: Way) {
        self.faults.send_modify(|faults| faults.direction_mut(way).is_held = true);
    }

    /// Delays everything in that direction by this much.
    pub fn delay(&self, way: Way, delay: Duration) {
        self.faults.send_modify(|faults| faults.direction_mut(way).delay = delay);
    }

    /// Closes every connection, and each new one until the heal.
    pub fn cut(&self) {
        self.end(Ending::Closed);
    }

    /// Resets every connection, and each new one until the heal.
    pub fn reset(&self) {
        self.end(Ending::Reset);
    }

    /// Closes every push connection, and each new one until the heal.
    pub fn cut_push(&self) {
        self.faults.send_modify(|faults| faults.push_cut = (faults.next_age(), Some(Ending::Closed)));
    }

    /// Makes the existing connections carry nothing any more, without telling either side. New connections work.
    pub fn break_quietly(&self) {
        self.faults.send_modify(|faults| faults.half_open = faults.next_age());
    }

    /// Holds back data sent on the existing connections, even if they are given up; at the heal it arrives. New
    /// connections work.
    pub fn strand(&self) {
        self.faults.send_modify(|faults| faults.stranded = faults.next_age());
    }

    /// Until the heal, each time this many pieces have gone to the server, resets the connection that carried the last
    /// one: the request arrives, its reply does not. New connections work.
    pub fn cut_after(&self, pieces: u64) {
        self.asked.store(0, Ordering::Relaxed);
        self.faults.send_modify(|faults| faults.cut_after = pieces);
    }

    /// Lets everything through again. Ended connections stay ended.
    pub fn heal(&self) {
        self.faults.send_modify(|faults| {
            (faults.there, faults.back) = Default::default();
            (faults.cut.1, faults.push_cut.1) = (None, None);
            (faults.stranded, faults.cut_after) = (0, 0);
        });
    }

    fn end(&self, ending: Ending) {
        self.faults.send_modify(|faults| faults.cut = (faults.next_age(), Some(ending)));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut();
    }
}

impl NetworkFaults {
    /// A new age: every connection so far began before it.
    fn next_age(&mut self) -> u64 {
        self.age += 1;
        self.age
    }

    fn carries(&self, born: u64, way: Way) -> bool {
        !self.direction(way).is_held && self.half_open.max(self.stranded) <= born
    }

    /// How a connection of that age must end now, if at all.
    fn ends(&self, born: u64, is_push: bool) -> Option<Ending> {
        let by = |(age, ending): (u64, Option<Ending>)| match ending {
            None => (age > born).then_some(Ending::Closed),
            now => now,
        };
        by(self.cut).or_else(|| by(self.push_cut).filter(|_| is_push))
    }

    fn direction(&self, way: Way) -> Direction {
        match way {
            Way::There => self.there,
            Way::Back => self.back,
        }
    }

    fn direction_mut(&mut self, way: Way) -> &mut Direction {
        match way {
            Way::There => &mut self.there,
            Way::Back => &mut self.back,
        }
    }
}

/// One connection of a client to the server.
struct Connection {
    faults: watch::Receiver<NetworkFaults>,
    born: u64,
    mark: Option<&'static str>,
    /// Whether the mark was sent on it.
    is_push: watch::Sender<bool>,
    /// Whether it must end because of the pieces it carried.
    is_doomed: watch::Sender<bool>,
    carried: Arc<AtomicU64>,
    /// How many pieces have gone to the server since counting began.
    asked: Arc<AtomicU64>,
    retelling: Arc<OnceLock<Retelling>>,
}

impl Connection {
    /// A connection that begins now.
    fn another(&self) -> Self {
        let born = self.faults.borrow().age;
        Self {
            faults: self.faults.clone(),
            born,
            mark: self.mark,
            is_push: watch::Sender::new(false),
            is_doomed: watch::Sender::new(false),
            carried: self.carried.clone(),
            asked: self.asked.clone(),
            retelling: self.retelling.clone(),
        }
    }

    /// Carries data until both sides have ended the connection, or a fault ends it.
    async fn carry(self, mut client: TcpStream, server: SocketAddr) {
        let at_once = self.faults.borrow().cut.1;
        if let Some(ending) = at_once {
            return end(client, ending);
        }
        let Ok(mut server) = TcpStream::connect(server).await else {
            return end(client, Ending::Reset); // as the server itself would refuse it
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true)); // delays must come from the trial alone
        let ending = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let there = self.pump(from_client, to_server, Way::There);
            let back = self.pump(from_server, to_client, Way::Back);
            let mut is_doomed = self.is_doomed.subscribe();
            tokio::select! {
                _ = is_doomed.wait_for(|is_doomed| *is_doomed) => None,
                ending = self.ended() => Some(ending),
                _ = async { tokio::join!(there, back) } => Some(Ending::Closed),
            }
        };
        end(client, ending.unwrap_or(Ending::Reset));
        match ending {
            Some(ending) => end(server, ending),
            None => hear_out(server).await,
        }
    }

    /// Waits until a fault ends it.
    async fn ended(&self) -> Ending {
        let (mut faults, mut is_push) = (self.faults.clone(), self.is_push.subscribe());
        loop {
            let is_push_now = *is_push.borrow_and_update();
            if let Some(ending) = faults.borrow_and_update().ends(self.born, is_push_now) {
                return ending;
            }
            tokio::select! {
                changed = faults.changed() => if changed.is_err() {
                    return Ending::Closed;
                },
                _ = is_push.changed() => {}
            }
        }
    }

    /// Carries one direction until its source ends, and passes that end on.
    async fn pump(&self, from: impl AsyncRead + Unpin, to: impl AsyncWrite + Unpin, way: Way) {
        let (pieces, queue) = mpsc::channel(UNDER_WAY);
        tokio::join!(self.read(from, pieces, way), self.write(queue, to, way));
    }

    async fn read(
        &self,
        mut from: impl AsyncRead + Unpin,
        pieces: mpsc::Sender<(Instant, Vec<u8>)>,
        way: Way,
    ) {
        let (mut piece, mut heard) = (vec![0; PIECE], Vec::new());
        while let Ok(length @ 1..) = from.read(&mut piece).await {
            if way == Way::There && self.mark.is_some_and(|mark| says(&piece[..length], mark)) {
                self.is_push.send_replace(true);
            }
            heard.extend_from_slice(&piece[..length]);
            let said = match self.retelling.get().filter(|_| way == Way::Back) {
                Some(retelling) => retelling.tell(&mut heard),
                None => std::mem::take(&mut heard),
            };
            if pieces.send((Instant::now(), said)).await.is_err() {
                return;
            }
        }
        let _ = pieces.send((Instant::now(), heard)).await; // the writer may have ended
    }

    async fn write(
        &self,
        mut queue: mpsc::Receiver<(Instant, Vec<u8>)>,
        mut to: impl AsyncWrite + Unpin,
        way: Way,
    ) {
        let mut faults = self.faults.clone();
        while let Some((read_at, piece)) = queue.recv().await {
            let delay = faults.borrow().direction(way).delay;
            tokio::time::sleep_until(read_at + delay).await;
            if faults.wait_for(|faults| faults.carries(self.born, way)).await.is_err() {
                return;
            }
            self.carried.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if to.write_all(&piece).await.is_err() {
                return;
            }
            let cut_after = faults.borrow().cut_after;
            if way == Way::There && cut_after > 0 {
                let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
                if asked.is_multiple_of(cut_after) {
                    self.is_doomed.send_replace(true);
                    return std::future::pending().await; // nothing gets through any more
                }
            }
        }
        if faults.wait_for(|faults| faults.carries(self.born, way)).await.is_ok() {
            let _ = to.shutdown().await; // the other side may be gone
        }
    }
}

fn says(piece: &[u8], mark: &str) -> bool {
    piece.windows(mark.len()).any(|window| window.eq_ignore_ascii_case(mark.as_bytes()))
}

/// A server may discard data that it has not read when the connection ends. So the connection is kept open, and read,
/// for a while.
async fn hear_out(mut server: TcpStream) {
    let mut said = [0; 1024];
    let listening = async { while let Ok(1..) = server.read(&mut said).await {} };
    let _ = tokio::time::timeout(HEARD_OUT, listening).await; // it has had enough time
}

fn end(stream: TcpStream, ending: Ending) {
    if ending == Ending::Reset {
        let _ = stream.set_zero_linger(); // if it fails, the connection ends in the orderly way, which is an end too
    }
    drop(stream);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(10);

    /// An echo server, and the proxy to it.
    async fn echo() -> Proxy {
        echo_knowing(None).await
    }

    async fn echo_knowing(mark: Option<&'static str>) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let server = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = client.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        Proxy::knowing(server, mark).await.unwrap()
    }

    async fn connect(proxy: &Proxy) -> TcpStream {
        TcpStream::connect(proxy.address()).await.unwrap()
    }

    async fn answer(stream: &mut TcpStream) -> io::Result<[u8; 4]> {
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.map(|_| answer)
    }

    #[tokio::test]
    async fn what_is_sent_comes_back_and_is_counted() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        stream.write_all(b"ping").await.unwrap();
        assert_eq!(&answer(&mut stream).await.unwrap(), b"ping");
        assert_eq!(proxy.carried(), 8);
    }

    #[tokio::test]
    async fn what_is_held_either_way_comes_at_the_heal() {
        for way in [Way::There, Way::Back] {
            let proxy = echo().await;
            let mut stream = connect(&proxy).await;
            proxy.hold(way);
            stream.write_all(b"ping").await.unwrap();
            assert!(tokio::time::timeout(SHORT, answer(&mut stream)).await.is_err(), "{way:?}");
            assert_eq!(proxy.carried(), if way == Way::There { 0 } else { 4 });
            proxy.heal();
            let late = tokio::time::timeout(LONG, answer(&mut stream)).await;
            assert_eq!(&late.unwrap().unwrap(), b"ping", "{way:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_is_cut_just_after_it_has_asked_and_new_ones_work() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        proxy.cut_after(2);
        stream.write_all(b"ping").await.unwrap();
        assert_eq!(&answer(&mut stream).await.unwrap(), b"ping");
        stream.write_all(b"ping").await.unwrap();
        assert!(tokio::time::timeout(LONG, answer(&mut stream)).await.unwrap().is_err());
        assert_eq!(proxy.carried(), 12, "the request has arrived, its reply has not");
        let mut again = connect(&proxy).await;
        again.write_all(b"ping").await.unwrap();
        assert_eq!(&answer(&mut again).await.unwrap(), b"ping");
        proxy.heal();
        again.write_all(b"ping").await.unwrap();
        assert_eq!(&answer(&mut again).await.unwrap(), b"ping");
    }

    #[tokio::test]
    async fn a_delay_shifts_and_does_not_throttle() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        proxy.delay(Way::There, SHORT);
        let began = Instant::now();
        for _ in 0..100 {
            stream.write_all(b"ping").await.unwrap();
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            assert_eq!(&answer(&mut stream).await.unwrap(), b"ping");
        }
        assert!(began.elapsed() >= SHORT && began.elapsed() < 50 * SHORT, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn what_is_half_open_stays_silent_and_new_connections_work() {
        let proxy = echo().await;
        let mut old = connect(&proxy).await;
        old.write_all(b"ping").await.unwrap();
        answer(&mut old).await.unwrap();
        proxy.break_quietly();
        proxy.heal();
        old.write_all(b"ping").await.unwrap();
        assert!(tokio::time::timeout(SHORT, answer(&mut old)).await.is_err());
        let mut new = connect(&proxy).await;
        new.write_all(b"pong").await.unwrap();
        assert_eq!(&answer(&mut new).await.unwrap(), b"pong");
    }

    #[tokio::test]
    async fn a_connection_for_pushes_is_known_by_what_is_said_and_cut_alone() {
        let proxy = echo_knowing(Some("hear")).await;
        let (mut plain, mut push) = (connect(&proxy).await, connect(&proxy).await);
        plain.write_all(b"ping").await.unwrap();
        push.write_all(b"HEAR").await.unwrap();
        answer(&mut plain).await.unwrap();
        answer(&mut push).await.unwrap();
        proxy.cut_push();
        assert!(answer(&mut push).await.is_err());
        let mut again = connect(&proxy).await;
        again.write_all(b"hear").await.unwrap();
        assert!(answer(&mut again).await.is_err(), "a new connection was let through");
        plain.write_all(b"ping").await.unwrap();
        assert_eq!(&answer(&mut plain).await.unwrap(), b"ping");
        proxy.heal();
        let mut again = connect(&proxy).await;
        again.write_all(b"hear").await.unwrap();
        assert_eq!(&answer(&mut again).await.unwrap(), b"hear");
    }

    #[tokio::test]
    async fn a_cut_and_a_reset_end_what_there_is_until_the_heal() {
        for ending in [Ending::Closed, Ending::Reset] {
            let proxy = echo().await;
            let mut stream = connect(&proxy).await;
            stream.write_all(b"ping").await.unwrap();
            answer(&mut stream).await.unwrap();
            proxy.end(ending);
            let kind = answer(&mut stream).await.unwrap_err().kind();
            let expected = match ending {
                Ending::Closed => io::ErrorKind::UnexpectedEof,
                Ending::Reset => io::ErrorKind::ConnectionReset,
            };
            assert_eq!(kind, expected);
            assert!(answer(&mut connect(&proxy).await).await.is_err(), "a new connection was let through");
            proxy.heal();
            let mut again = connect(&proxy).await;
            again.write_all(b"pong").await.unwrap();
            assert_eq!(&answer(&mut again).await.unwrap(), b"pong");
        }
    }
}
