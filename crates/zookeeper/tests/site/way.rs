//! A proxy to the server that a test can cut, hush, deafen, mute or hold up, or that shortens the session timeout a client
//! asks for.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::host;

/// Dropping it ends every connection through it.
pub(crate) struct Way {
    address: SocketAddr,
    state: Arc<State>,
    _keeping: JoinSet<()>,
}

#[derive(Default)]
struct State {
    /// How often a client asked to resume a session.
    returns: AtomicUsize,
    /// How often the server replied to that.
    answered: AtomicUsize,
    /// Changes when all connections are cut.
    cuts: watch::Sender<u64>,
    /// The longest timeout that sessions may ask for. After the reply to a resumed session nothing passes any more.
    hushed_at: watch::Sender<Option<Duration>>,
    /// Changes when the current connections fall silent.
    silences: watch::Sender<u64>,
    is_held_up: watch::Sender<bool>,
    is_mute: watch::Sender<bool>,
    is_closed: AtomicBool,
    is_deaf: AtomicBool,
    /// Whether the connection of the next new session is cut as soon as it asks for one.
    is_offer_cut: AtomicBool,
}

impl Way {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(State::default()));
        let mut keeping = JoinSet::new();
        keeping.spawn(keep(listener, state.clone()));
        Self { address, state, _keeping: keeping }
    }

    pub(crate) fn url(&self) -> String {
        format!("zookeeper://{}", self.address)
    }

    pub(crate) fn returns(&self) -> usize {
        self.state.returns.load(Ordering::Acquire)
    }

    pub(crate) fn answered(&self) -> usize {
        self.state.answered.load(Ordering::Acquire)
    }

    /// Cuts every connection. New ones may be made.
    pub(crate) fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Makes the current connections carry nothing any more, without closing them. New ones may be made.
    pub(crate) fn silence(&self) {
        self.state.silences.send_modify(|silences| *silences += 1);
    }

    /// Holds up what clients send, or lets it pass.
    pub(crate) fn hold_up(&self, is_held_up: bool) {
        self.state.is_held_up.send_replace(is_held_up);
    }

    /// Holds up what the server says, or lets it pass. What clients send arrives, and their sessions stay alive even
    /// when they have closed their connections: as with a server that stands still, and gives each session its whole
    /// time again when it goes on.
    pub(crate) fn mute(&self, is_mute: bool) {
        self.state.is_mute.send_replace(is_mute);
    }

    /// Cuts every connection, and lets none through until `reopen`.
    pub(crate) fn close(&self) {
        self.state.is_closed.store(true, Ordering::Release);
        self.cut();
    }

    pub(crate) fn reopen(&self) {
        self.state.is_closed.store(false, Ordering::Release);
    }

    /// The server still reports its state, but does nothing else, like a follower that has lost its leader without
    /// noticing.
    pub(crate) fn deafen(&self) {
        self.state.is_deaf.store(true, Ordering::Release);
        self.cut();
    }

    /// Cuts every connection, and also the next one that asks for a new session.
    pub(crate) fn cut_with_the_next_offer(&self) {
        self.state.is_offer_cut.store(true, Ordering::Release);
        self.cut();
    }

    /// Sessions get at most this timeout. The first resumed session gets its reply and nothing more, and no new
    /// connection is carried.
    pub(crate) fn shorten_and_hush(&self, timeout: Duration) {
        self.state.hushed_at.send_replace(Some(timeout));
    }
}

async fn keep(listener: TcpListener, state: Arc<State>) {
    let mut carried = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let state = state.clone();
        carried.spawn(async move {
            if state.is_closed.load(Ordering::Acquire) {
                return;
            }
            let mut cuts = state.cuts.subscribe();
            let Ok(server) = TcpStream::connect(host()).await else { return };
            tokio::select! {
                _ = cuts.changed() => {}
                _ = carry(client, server, &state) => {}
            }
        });
    }
}

async fn carry(client: TcpStream, server: TcpStream, state: &State) -> io::Result<()> {
    let mut silences = state.silences.subscribe();
    let (mut client_says, mut to_client) = client.into_split();
    let (mut server_says, mut to_server) = server.into_split();
    let mut first = frame(&mut client_says).await?;
    if TEXTS.contains(&first.as_slice()) {
        to_server.write_all(&first).await?;
        return state.pass_back(&mut server_says, &mut to_client).await;
    }
    if state.is_deaf.load(Ordering::Acquire) {
        return std::future::pending().await;
    }
    // After the length, the protocol's version and the last seen transaction come the timeout and the session.
    let shortened = *state.hushed_at.borrow();
    if let Some(timeout) = shortened {
        let asked = i32::from_be_bytes(first[16..20].try_into().unwrap());
        let timeout = i32::try_from(timeout.as_millis()).unwrap().min(asked);
        first[16..20].copy_from_slice(&timeout.to_be_bytes());
    }
    let is_return = first[20..28] != [0; 8];
    if !is_return && state.is_offer_cut.swap(false, Ordering::AcqRel) {
        return Ok(());
    }
    state.returns.fetch_add(usize::from(is_return), Ordering::AcqRel);
    passes(&state.is_held_up).await;
    to_server.write_all(&first).await?;
    let answer = frame(&mut server_says).await?;
    passes(&state.is_mute).await;
    to_client.write_all(&answer).await?;
    state.answered.fetch_add(usize::from(is_return), Ordering::AcqRel);
    if is_return && shortened.is_some() {
        state.is_closed.store(true, Ordering::Release);
        return std::future::pending().await;
    }
    tokio::select! {
        done = state.pass_on(&mut client_says, &mut to_server) => {
            done?;
            state.keep_alive(&mut to_server).await
        }
        done = state.pass_back(&mut server_says, &mut to_client) => done,
        _ = silences.changed() => std::future::pending().await,
    }
}

impl State {
    async fn pass_on(&self, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> io::Result<()> {
        pass(from, to, &self.is_held_up).await
    }

    async fn pass_back(&self, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> io::Result<()> {
        pass(from, to, &self.is_mute).await
    }

    async fn keep_alive(&self, to: &mut OwnedWriteHalf) -> io::Result<()> {
        const PING: [u8; 12] = [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11];
        while *self.is_mute.borrow() {
            to.write_all(&PING).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

/// Carries everything, but nothing while `is_stopped`.
async fn pass(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    is_stopped: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut said = [0; 4_096];
    loop {
        let length = from.read(&mut said).await?;
        passes(is_stopped).await;
        match said[..length] {
            [] => return Ok(()),
            ref said => to.write_all(said).await?,
        }
    }
}

async fn passes(is_stopped: &watch::Sender<bool>) {
    is_stopped.subscribe().wait_for(|is_stopped| !is_stopped).await.unwrap();
}

/// How a request begins that asks which server this is, and in which state.
const TEXTS: [&[u8]; 2] = [b"srvr", b"GET "];

/// A length and as many bytes; or the beginning of such a text.
async fn frame(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut read = vec![0; 4];
    from.read_exact(&mut read).await?;
    if !TEXTS.contains(&read.as_slice()) {
        let length = u32::from_be_bytes(read[..4].try_into().unwrap());
        read.resize(4 + usize::try_from(length).unwrap(), 0);
        from.read_exact(&mut read[4..]).await?;
    }
    Ok(read)
}
