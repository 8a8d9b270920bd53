//! The client's end of a connection.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Servers;
use super::wire::End;
use crate::time::lock;

pub(super) struct Stream {
    servers: Arc<Servers>,
    number: u64,
}

impl Stream {
    pub(super) const fn new(servers: Arc<Servers>, number: u64) -> Self {
        Self { servers, number }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut wires = lock(&self.servers.wires);
        let Some(wire) = wires.all.get_mut(&self.number) else { return Poll::Ready(Ok(())) };
        if !wire.arrived.is_empty() {
            let count = into.remaining().min(wire.arrived.len());
            let bytes: Vec<u8> = wire.arrived.drain(..count).collect();
            into.put_slice(&bytes);
            return Poll::Ready(Ok(()));
        }
        match wire.end {
            Some(End::Closed) => Poll::Ready(Ok(())),
            Some(End::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                wire.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.servers.write(self.number, bytes).map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.servers.hang_up(self.number);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.number)
    }
}
