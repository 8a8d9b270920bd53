//! A program's own way to open a byte stream to a server.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use tidelock_core::backend::Aside;

/// A byte stream to a server and back.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Connects to a host and a port.
#[derive(Clone)]
pub(crate) struct Connector(Arc<dyn Fn(String, u16) -> Connecting + Send + Sync>, Aside);

impl Connector {
    pub(crate) fn of<F, S>(connect: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connect = move |host, port| -> Connecting {
            let connecting = connect(host, port);
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Stream>) })
        };
        Self(Arc::new(connect), Aside::default())
    }

    pub(crate) async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        let (connect, host) = (self.0.clone(), host.to_owned());
        self.1.run(move || connect(host, port)).await?
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}
