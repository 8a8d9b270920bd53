//! A proxy that understands what passes: it can hold a request back, and answer in the server's place.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

/// What a server says when it does not carry a request out, or says that it does not: its code, and its text.
pub(crate) type Refusal = (&'static str, &'static str);

/// The database has no room. A server may say so although it has carried the request out.
pub(crate) const FULL: Refusal = ("8", "etcdserver: mvcc: database space exceeded");
/// This user may not do that.
pub(crate) const DENIED: Refusal = ("7", "etcdserver: permission denied");
/// The server has more to do than it can.
pub(crate) const BUSY: Refusal = ("8", "etcdserver: too many requests");
/// The request may be carried out later.
pub(crate) const SLOW: Refusal = ("14", "etcdserver: request timed out");

/// In this time what a test waits for must happen.
const SOON: Duration = Duration::from_secs(10);

/// What the proxy does, beside passing everything on.
#[derive(Default)]
struct Orders {
    /// Requests with this at the end of their path are not passed on, and get that answer.
    refused: Vec<(&'static str, Refusal)>,
    /// Requests with one of these at the end of their path are passed on so much later.
    delayed: (Vec<&'static str>, Duration),
    /// Requests with this at the end of their path that have these bytes in them wait for the test.
    stopped: Option<(&'static str, &'static [u8])>,
    /// Whoever is asked there says that there is no such lease.
    denies: Option<&'static str>,
    /// How many answers about a lease were replaced.
    denied: usize,
}

/// The proxy. It ends with its runtime.
pub(crate) struct Middleman {
    address: SocketAddr,
    orders: Arc<Mutex<Orders>>,
    stopped: mpsc::UnboundedReceiver<Stopped>,
}

/// A request that waits until the test says what becomes of it.
pub(crate) struct Stopped(oneshot::Sender<Verdict>, oneshot::Receiver<()>);

/// What becomes of a request, and its answer if it is another one than the server's.
struct Verdict {
    is_passed: bool,
    refusal: Option<Refusal>,
}

impl Stopped {
    /// Passes it on, and its answer back. Returns when the server has answered.
    pub(crate) async fn pass(self) {
        self.goes_on(None).await;
    }

    /// Answers it in the server's place.
    pub(crate) fn refuse(self, refusal: Refusal) {
        assert!(self.0.send(Verdict { is_passed: false, refusal: Some(refusal) }).is_ok());
    }

    /// Passes it on, and replaces its answer. Returns when the server has answered.
    pub(crate) async fn pass_but_say(self, refusal: Refusal) {
        self.goes_on(Some(refusal)).await;
    }

    async fn goes_on(self, refusal: Option<Refusal>) {
        let Self(verdict, answered) = self;
        assert!(verdict.send(Verdict { is_passed: true, refusal }).is_ok());
        tokio::time::timeout(SOON, answered).await.expect("the server answers").unwrap();
    }
}

impl Middleman {
    /// Before the server at this `HOST:PORT`.
    pub(crate) async fn before(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let orders = Arc::<Mutex<Orders>>::default();
        let (stops, stopped) = mpsc::unbounded_channel();
        let given = orders.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&server).await.unwrap();
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                tokio::spawn(pass_all(near, far, given.clone(), stops.clone()));
            }
        });
        Self { address, orders, stopped }
    }

    pub(crate) fn url(&self) -> String {
        format!("etcd://{}", self.address)
    }

    /// From now on requests to these get this answer, and nothing is done.
    pub(crate) fn refuses(&self, paths: &[&'static str], refusal: Refusal) {
        self.orders.lock().unwrap().refused = paths.iter().map(|path| (*path, refusal)).collect();
    }

    /// From now on requests to these are passed on so much later.
    pub(crate) fn delays(&self, paths: &[&'static str], by: Duration) {
        self.orders.lock().unwrap().delayed = (paths.to_vec(), by);
    }

    /// From now on requests to this that have these bytes in them wait for [`Middleman::stopped`].
    pub(crate) fn stops(&mut self, path: &'static str, mark: &'static [u8]) {
        self.orders.lock().unwrap().stopped = Some((path, mark));
    }

    pub(crate) async fn stopped(&mut self) -> Stopped {
        let stopped = tokio::time::timeout(SOON, self.stopped.recv()).await;
        stopped.expect("such a request comes").unwrap()
    }

    /// From now on answers to this say that there is no such lease.
    pub(crate) fn denies_leases(&self, path: &'static str) {
        self.orders.lock().unwrap().denies = Some(path);
    }

    pub(crate) fn denied(&self) -> usize {
        self.orders.lock().unwrap().denied
    }

    /// From now on everything passes.
    pub(crate) fn heals(&self) {
        let mut orders = self.orders.lock().unwrap();
        *orders = Orders { denied: orders.denied, ..Orders::default() };
    }
}

/// A request, and its stream.
type Asked = (Request<RecvStream>, SendResponse<Bytes>);

async fn pass_all(
    near: TcpStream,
    far: TcpStream,
    orders: Arc<Mutex<Orders>>,
    stops: mpsc::UnboundedSender<Stopped>,
) -> Result<(), h2::Error> {
    let (far, driving) = h2::client::handshake(far).await?;
    tokio::spawn(driving);
    let mut near = h2::server::handshake(near).await?;
    while let Some(asked) = near.accept().await {
        let (asked, far, orders, stops) = (asked?, far.clone(), orders.clone(), stops.clone());
        tokio::spawn(async move {
            match asked.0.uri().path() {
                path if path.ends_with("/Watch") || path.ends_with("/LeaseKeepAlive") => {
                    pass_stream(asked, far, orders).await
                }
                _ => pass_one(asked, far, orders, stops).await,
            }
        });
    }
    Ok(())
}

async fn pass_one(
    (request, mut back): Asked,
    far: SendRequest<Bytes>,
    orders: Arc<Mutex<Orders>>,
    stops: mpsc::UnboundedSender<Stopped>,
) -> Result<(), h2::Error> {
    let (head, body) = request.into_parts();
    let (asked, _) = all(body).await?;
    let path = head.uri.path().to_owned();
    let (refusal, is_stopped, delay) = {
        let orders = orders.lock().unwrap();
        let refusal = orders.refused.iter().find(|(end, _)| path.ends_with(end)).map(|(_, refusal)| *refusal);
        let has = |mark: &[u8]| asked.windows(mark.len()).any(|part| part == mark);
        let is_stopped = orders.stopped.is_some_and(|(end, mark)| path.ends_with(end) && has(mark));
        let (delayed, by) = &orders.delayed;
        (refusal, is_stopped, delayed.iter().any(|end| path.ends_with(end)).then_some(*by))
    };
    if let Some(refusal) = refusal {
        return refuse(&mut back, refusal);
    }
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    let mut told = None;
    let mut refusal = None;
    if is_stopped {
        let ((verdict, decided), (tells, answered)) = (oneshot::channel(), oneshot::channel());
        let _ = stops.send(Stopped(verdict, answered));
        let Ok(verdict) = decided.await else { return Ok(()) };
        if let Verdict { is_passed: false, refusal: Some(refusal) } = verdict {
            return refuse(&mut back, refusal);
        }
        (refusal, told) = (verdict.refusal, Some(tells));
    }
    let (answer, mut to) = far.ready().await?.send_request(Request::from_parts(head, ()), false)?;
    to.send_data(asked, true)?;
    let (head, body) = answer.await?.into_parts();
    let (data, trailers) = all(body).await?;
    if let Some(told) = told {
        let _ = told.send(()); // an error: the test has ended
    }
    if let Some(refusal) = refusal {
        return refuse(&mut back, refusal);
    }
    let data = changed(&orders, &path, data);
    let ends = trailers.is_none() && data.is_empty();
    let mut to = back.send_response(Response::from_parts(head, ()), ends)?;
    match trailers {
        Some(trailers) => {
            to.send_data(data, false)?;
            to.send_trailers(trailers)
        }
        None if ends => Ok(()),
        None => to.send_data(data, true),
    }
}

async fn pass_stream(
    (request, mut back): Asked,
    far: SendRequest<Bytes>,
    orders: Arc<Mutex<Orders>>,
) -> Result<(), h2::Error> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let (answer, to) = far.ready().await?.send_request(Request::from_parts(head, ()), false)?;
    tokio::spawn(pump(body, to, |data| data));
    let (head, body) = answer.await?.into_parts();
    let to = back.send_response(Response::from_parts(head, ()), false)?;
    pump(body, to, |data| changed(&orders, &path, data)).await
}

async fn pump(
    mut from: RecvStream,
    mut to: SendStream<Bytes>,
    change: impl Fn(Bytes) -> Bytes,
) -> Result<(), h2::Error> {
    while let Some(data) = from.data().await {
        let data = data?;
        from.flow_control().release_capacity(data.len())?;
        to.send_data(change(data), false)?;
    }
    match from.trailers().await? {
        Some(trailers) => to.send_trailers(trailers),
        None => to.send_data(Bytes::new(), true),
    }
}

/// All that a stream carries, and what comes behind it.
async fn all(mut from: RecvStream) -> Result<(Bytes, Option<HeaderMap>), h2::Error> {
    let mut all = BytesMut::new();
    while let Some(data) = from.data().await {
        let data = data?;
        from.flow_control().release_capacity(data.len())?;
        all.extend_from_slice(&data);
    }
    Ok((all.freeze(), from.trailers().await?))
}

fn refuse(back: &mut SendResponse<Bytes>, (code, text): Refusal) -> Result<(), h2::Error> {
    let says = Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", code)
        .header("grpc-message", text);
    back.send_response(says.body(()).unwrap(), true).map(drop)
}

/// An answer about a lease. If that is denied, it says that there is none: a time to live of -1.
fn changed(orders: &Mutex<Orders>, path: &str, data: Bytes) -> Bytes {
    let mut orders = orders.lock().unwrap();
    if data.is_empty() || !orders.denies.is_some_and(|denied| path.ends_with(denied)) {
        return data;
    }
    orders.denied += 1;
    // A message begins with its header and the lease's id; then comes the time to live.
    let (mut said, mut rest) = (Vec::new(), &data[5..]);
    while let [field @ (HEADER | ID), length, ..] = rest {
        let varint = rest[1..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let end = 1 + if *field == HEADER { usize::from(*length) + 1 } else { varint };
        said.extend_from_slice(&rest[..end]);
        rest = &rest[end..];
    }
    said.push(TTL);
    said.extend_from_slice(&[0xff; 9]);
    said.push(1);
    let mut message = vec![0];
    message.extend_from_slice(&u32::try_from(said.len()).unwrap().to_be_bytes());
    message.extend(said);
    message.into()
}

/// The fields of such a message, with their types.
const HEADER: u8 = 0x0a;
const ID: u8 = 0x10;
const TTL: u8 = 0x18;
