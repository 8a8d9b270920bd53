//! A TCP proxy in this process that can be made to fail, for subjects with a server.
//!
//! Each direction of each connection is a reader and a writer with a queue between them, so that a delay shifts what
//! is sent and does not throttle it. What is held back waits in the queue and is sent at the heal; a cut or a reset
//! ends every connection, and newcomers too until the heal.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How many pieces may be under way in one direction of one connection.
const UNDER_WAY: usize = 4_096;
/// The largest piece.
const PIECE: usize = 16 * 1_024;

/// A way to a server that can be made to fail. Dropping it ends every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    carried: Arc<AtomicU64>,
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

/// What it is like on the way at the moment.
#[derive(Clone, Debug, Default)]
struct Weather {
    there: Direction,
    back: Direction,
    /// Each cut ends the connections that began before it.
    cuts: u64,
    /// Connections are ended at once, and how.
    ended: Option<Ending>,
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
    /// When there is no free port.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (weather, carried) = (watch::Sender::new(Weather::default()), Arc::new(AtomicU64::new(0)));
        let (seen, counted) = (weather.clone(), carried.clone());
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, seen.subscribe(), counted.clone()));
            }
        });
        Ok(Self { address, weather, carried, listening })
    }

    /// Where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many bytes have been carried, both ways.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    /// Nothing gets through that way before the heal, and nothing is lost.
    pub fn hold(&self, way: Way) {
        self.weather.send_modify(|weather| weather.direction_mut(way).is_held = true);
    }

    /// Everything that way takes so much longer.
    pub fn delay(&self, way: Way, delay: Duration) {
        self.weather.send_modify(|weather| weather.direction_mut(way).delay = delay);
    }

    /// Every connection is closed, and so is each new one, until the heal.
    pub fn cut(&self) {
        self.end(Ending::Closed);
    }

    /// Every connection is reset, and so is each new one, until the heal.
    pub fn reset(&self) {
        self.end(Ending::Reset);
    }

    /// Everything gets through again. Connections that were ended stay so.
    pub fn heal(&self) {
        self.weather.send_modify(|weather| *weather = Weather { cuts: weather.cuts, ..Weather::default() });
    }

    fn end(&self, ending: Ending) {
        self.weather.send_modify(|weather| {
            weather.cuts += 1;
            weather.ended = Some(ending);
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut();
    }
}

impl Weather {
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

/// Carries one connection until both sides have ended it, or the weather does.
async fn carry(
    mut client: TcpStream,
    server: SocketAddr,
    mut weather: watch::Receiver<Weather>,
    carried: Arc<AtomicU64>,
) {
    let (born, ended) = {
        let now = weather.borrow();
        (now.cuts, now.ended)
    };
    if let Some(ending) = ended {
        return end(client, ending);
    }
    let Ok(mut server) = TcpStream::connect(server).await else {
        return end(client, Ending::Reset); // as the server itself would refuse it
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true)); // what is late is late by order
    let ending = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let there = pump(from_client, to_server, Way::There, weather.clone(), &carried);
        let back = pump(from_server, to_client, Way::Back, weather.clone(), &carried);
        tokio::select! {
            cut = weather.wait_for(|weather| weather.cuts > born) => cut.ok().and_then(|now| now.ended),
            _ = async { tokio::join!(there, back) } => None,
        }
    };
    end(server, ending.unwrap_or(Ending::Closed));
    end(client, ending.unwrap_or(Ending::Closed));
}

/// One direction of one connection, until its source ends; that end is passed on.
async fn pump(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    way: Way,
    weather: watch::Receiver<Weather>,
    carried: &AtomicU64,
) {
    let (pieces, queue) = mpsc::channel(UNDER_WAY);
    tokio::join!(read(from, pieces), write(queue, to, way, weather, carried));
}

async fn read(mut from: impl AsyncRead + Unpin, pieces: mpsc::Sender<(Instant, Vec<u8>)>) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if pieces.send((Instant::now(), piece[..length].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn write(
    mut queue: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut to: impl AsyncWrite + Unpin,
    way: Way,
    mut weather: watch::Receiver<Weather>,
    carried: &AtomicU64,
) {
    while let Some((read_at, piece)) = queue.recv().await {
        let delay = weather.borrow().direction(way).delay;
        tokio::time::sleep_until(read_at + delay).await;
        if weather.wait_for(|weather| !weather.direction(way).is_held).await.is_err() {
            return;
        }
        carried.fetch_add(piece.len() as u64, Ordering::Relaxed);
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await; // the other side may have gone
}

fn end(stream: TcpStream, ending: Ending) {
    if ending == Ending::Reset {
        let _ = stream.set_zero_linger(); // without it the end is an orderly one, which is an end all the same
    }
    drop(stream);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(10);

    /// A server that says everything again, and the proxy to it.
    async fn echo() -> Proxy {
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
        Proxy::to(server).await.unwrap()
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
