//! A stream that fails if its peer does not read.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream whose writes fail if one is pending for longer than `time`.
pub(super) struct WriteTimeoutStream<T> {
    inner: T,
    time: Duration,
    /// The deadline of the pending write.
    end: Option<Pin<Box<Sleep>>>,
}

impl<T: AsyncWrite + Unpin> WriteTimeoutStream<T> {
    pub fn new(inner: T, time: Duration) -> Self {
        Self { inner, time, end: None }
    }

    /// Returns the poll result, or an error once the write has been pending for too long.
    fn in_time<V>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<V>>) -> Poll<io::Result<V>> {
        if written.is_ready() {
            self.end = None;
            return written;
        }
        let time = self.time;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(time)));
        end.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.in_time(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.in_time(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use shelly_core::limits;

    #[tokio::test(start_paused = true)]
    async fn write_times_out_for_a_stuck_reader_but_not_a_slow_one() {
        let (mut client, here) = tokio::io::duplex(4);
        let mut here = WriteTimeoutStream::new(here, limits::SERVE_WRITE_TIME);
        let reading = tokio::spawn(async move {
            let mut some = [0; 4];
            for _ in 0..3 {
                sleep(limits::SERVE_WRITE_TIME / 2).await;
                client.read_exact(&mut some).await.unwrap();
            }
            client
        });
        here.write_all(&[1; 12]).await.unwrap();
        let _client = reading.await.unwrap();
        here.write_all(&[1; 4]).await.unwrap();
        assert_eq!(here.write_all(&[1; 4]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
