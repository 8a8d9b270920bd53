//! Wrong addresses for a client: a port without a listener, another kind of server, and a server that never answers.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a web server replies to a request that it does not understand.
const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A wrong address. A listener there answers until this is dropped.
#[derive(Debug)]
pub(super) struct Elsewhere {
    pub(super) address: SocketAddr,
    answering: Option<JoinHandle<()>>,
}

impl Elsewhere {
    /// An address without a listener.
    pub(super) async fn nobody() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?; // closed on return: the port stays free for a while
        Ok(Self { address: listener.local_addr()?, answering: None })
    }

    /// The address of a web server.
    pub(super) async fn stranger() -> io::Result<Self> {
        Self::answering(|mut client| async move {
            let mut asked = [0; 1024];
            let _ = client.read(&mut asked).await; // the answer does not depend on it
            let _ = client.write_all(ANSWER).await;
        })
        .await
    }

    /// The address of a server that accepts every connection and never answers.
    pub(super) async fn mute() -> io::Result<Self> {
        Self::answering(|mut client| async move {
            let mut asked = [0; 1024];
            while let Ok(1..) = client.read(&mut asked).await {}
        })
        .await
    }

    async fn answering<F>(answer: impl Fn(TcpStream) -> F + Send + 'static) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let answering = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(answer(client));
            }
        });
        Ok(Self { address, answering: Some(answering) })
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(answering) = &self.answering {
            answering.abort();
        }
    }
}
