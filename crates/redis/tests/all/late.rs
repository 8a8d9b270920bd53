//! A join that arrives over a connection that was given up, long after its repetition was granted.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidelock_redis::{Options, State, Store};

use crate::site;
use crate::site::alone::Alone;
use crate::site::until;

const TTL: Duration = Duration::from_secs(2);

/// A request, and the server's end of its connection.
type Request = (TcpStream, Vec<u8>);

/// A proxy that, once armed, holds up the first request about `m` and everything after it on the same connection.
#[derive(Clone, Default)]
struct HeldUp {
    is_armed: Arc<AtomicBool>,
    request: Arc<Mutex<Option<Request>>>,
}

impl HeldUp {
    /// The URL of the proxy to that server.
    fn way(&self, server: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let held_up = self.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let up = TcpStream::connect(&server).unwrap();
                let (mut from_up, mut to_client) = (up.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from_up, &mut to_client); // until either end closes
                    let _ = to_client.shutdown(Shutdown::Both);
                });
                let held_up = held_up.clone();
                std::thread::spawn(move || held_up.pass(client, up));
            }
        });
        url
    }

    fn pass(&self, mut client: TcpStream, mut up: TcpStream) {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            let some = &bytes[..count];
            if some.windows(3).any(|three| three == b"{m}") && self.is_armed.swap(false, Ordering::SeqCst) {
                let request = (up.try_clone().unwrap(), some.to_vec());
                *self.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
                while client.read(&mut bytes).is_ok_and(|count| count > 0) {}
                return;
            }
            if up.write_all(some).is_err() {
                break;
            }
        }
        let _ = up.shutdown(Shutdown::Both);
    }

    fn arrives(&self) {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (mut up, bytes) = request.expect("one is held up");
        up.write_all(&bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_the_server_forgot_is_lost_at_the_next_renewal_though_it_stands_in_line_anew() {
    let mut alone = Alone::new().await;
    let url = site::url();
    let server = url.trim_start_matches("redis://").trim_end_matches('/').to_owned();
    let held_up = HeldUp::default();
    let connect = async |url: &str| Store::open(url).unwrap().connect(Options::new().ttl(TTL)).await.unwrap();
    let (a, b) = (connect(&held_up.way(server)).await, connect(&url).await);
    a.mutex("warm").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();

    held_up.is_armed.store(true, Ordering::SeqCst);
    let old = a.mutex("m").unwrap().lock().await.unwrap(); // granted by the repetition of its join
    alone.ask("FLUSHALL");
    let new = b.mutex("m").unwrap().try_lock().await.unwrap().expect("it is forgotten");
    held_up.arrives();
    until("the server has the old claim anew", async || {
        (b.inspect("m").await.unwrap().claims.len() == 2).then_some(())
    })
    .await;
    until("its guard is lost", async || (old.state() == State::Lost).then_some(())).await;
    until("and nothing of it stands in line", async || {
        (b.inspect("m").await.unwrap().claims.len() == 1).then_some(())
    })
    .await;
    assert_eq!(new.state(), State::Held);
    new.release().await.unwrap().confirmed().unwrap();
    drop(old);
    a.close().await.unwrap(); // the next test has the server alone
    b.close().await.unwrap();
}
