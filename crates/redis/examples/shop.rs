//! A shop over HTTP: axum's handlers, and a lock in Redis for each item, so any number of such processes can serve.
//!
//!     cargo run -p tidelock-redis --example shop -- redis://127.0.0.1 127.0.0.1:3000
//!     curl -X POST http://127.0.0.1:3000/buy/42
//!     curl http://127.0.0.1:3000/health
//!
//! Without an address it sends such requests to itself, and ends.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tidelock_redis::{ErrorKind, Fence, Locks, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// How long a customer waits for the item.
const PATIENCE: Duration = Duration::from_secs(2);
const STOCK: u32 = 3;

struct Shop {
    locks: Arc<dyn Locks>,
    stock: Stock,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "redis://127.0.0.1".into());
    let address = arguments.next();

    let locks = tidelock_redis::connect(&url).await?;
    let shop = Arc::new(Shop { locks: locks.clone(), stock: Stock::default() });
    let routes = Router::new().route("/buy/{item}", post(buy)).route("/health", get(health)).with_state(shop);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let here = listener.local_addr()?;
    println!("open at http://{here}");

    let (close, closing) = oneshot::channel::<()>();
    let visitors = tokio::spawn(async move {
        let visited = match address {
            Some(_) => tokio::signal::ctrl_c().await.map_err(Into::into),
            None => visit(here).await,
        };
        drop(close);
        visited
    });
    axum::serve(listener, routes).with_graceful_shutdown(async move { drop(closing.await) }).await?;
    // No request is left. What a request left behind, such as a lock on its way back, has ten seconds.
    locks.drain_within(Duration::from_secs(10)).await?;
    visitors.await?.map_err(|trouble: Box<dyn Error + Send + Sync>| trouble as Box<dyn Error>)
}

/// `POST /buy/{item}`
async fn buy(State(shop): State<Arc<Shop>>, Path(item): Path<u32>) -> Result<(StatusCode, String), Trouble> {
    let mutex = shop.locks.mutex(&format!("stock:{item}"))?;
    let Some(guard) = mutex.lock_within(PATIENCE).await? else {
        return Ok((StatusCode::SERVICE_UNAVAILABLE, "many want this; try again".into()));
    };
    let left = guard.run(shop.stock.read(item, guard.token())).await??;
    let Some(left) = left.checked_sub(1) else {
        return Ok((StatusCode::GONE, "sold out".into())); // the guard is dropped, and given back in the background
    };
    shop.stock.write(item, left, guard.token()).await?;
    // The sale is committed, and the fence has accepted it: no news of the lock can undo that. A store that is slow to
    // confirm the release is no error at all.
    if let Err(lost) = guard.release().await {
        eprintln!("item {item} was sold under a lock that was lost meanwhile: {lost}");
    }
    Ok((StatusCode::OK, format!("it is yours; {left} left")))
}

/// `GET /health`, for readiness: whether this process can serve requests now.
async fn health(State(shop): State<Arc<Shop>>) -> Result<&'static str, Trouble> {
    shop.locks.ping().await?;
    Ok("ready")
}

/// An error of a lock, as HTTP says it.
struct Trouble(tidelock_redis::Error);

impl From<tidelock_redis::Error> for Trouble {
    fn from(error: tidelock_redis::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        // The same request can succeed later, or in a process that is not about to end. Nothing was sold.
        let can_retry = self.0.can_retry() || matches!(self.0.kind(), ErrorKind::Lost | ErrorKind::Closed);
        let status =
            if can_retry { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR };
        (status, self.0.to_string()).into_response()
    }
}

/// Rows of a database: how many are left, and the newest token that was shown.
#[derive(Default)]
struct Stock(Mutex<HashMap<u32, Row>>);

struct Row {
    left: u32,
    fence: Fence,
}

impl Default for Row {
    fn default() -> Self {
        Self { left: STOCK, fence: Fence::new() }
    }
}

impl Stock {
    /// `UPDATE stock SET fence = :token WHERE id = :item AND fence <= :token`, then `SELECT n FROM stock WHERE …`
    async fn read(&self, item: u32, token: Token) -> tidelock_redis::Result<u32> {
        self.change(item, token, |_| {}).await
    }

    /// `UPDATE stock SET n = :left WHERE id = :item AND fence = :token`
    async fn write(&self, item: u32, left: u32, token: Token) -> tidelock_redis::Result<()> {
        self.change(item, token, |row| row.left = left).await.map(drop)
    }

    async fn change(
        &self,
        item: u32,
        token: Token,
        how: impl FnOnce(&mut Row),
    ) -> tidelock_redis::Result<u32> {
        tokio::task::yield_now().await; // as if a database were asked
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = rows.entry(item).or_default();
        row.fence.accept(token)?;
        how(row);
        Ok(row.left)
    }
}

/// Two more customers than there are pieces.
async fn visit(shop: SocketAddr) -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("GET /health: {}", ask(shop, "GET /health").await?);
    let mut customers = JoinSet::new();
    for _ in 0..STOCK + 2 {
        customers.spawn(async move { ask(shop, "POST /buy/42").await });
    }
    let mut sold = 0;
    while let Some(answer) = customers.join_next().await {
        let answer = answer??;
        println!("POST /buy/42: {answer}");
        sold += u32::from(answer.starts_with("200"));
    }
    assert_eq!(sold, STOCK, "every piece was sold once");
    Ok(())
}

/// The status and the body of the answer to a request.
async fn ask(shop: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(shop).await?;
    let head =
        format!("{request} HTTP/1.1\r\nHost: {shop}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    connection.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let status =
        answer.split("\r\n").next().and_then(|line| line.split_once(' ')).map_or("", |(_, status)| status);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(format!("{status}: {body}"))
}
