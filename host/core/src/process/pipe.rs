//! Communication with a program through its pipes.

#[cfg(not(unix))]
pub use elsewhere::feed;
#[cfg(unix)]
pub use unix::feed;

/// The handling of output beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipeOverflow {
    /// Close the pipe.
    HangUp,
    /// Read and discard: a full pipe would block the program.
    Forget,
}

/// The output that a program has written to one of its pipes so far.
#[derive(Debug, Default)]
pub struct PipeOutput {
    /// The bytes, at most as many as the limit of its reader.
    pub bytes: Vec<u8>,
    /// `true` if there was more output than the limit.
    pub is_cut: bool,
}

impl PipeOutput {
    /// Appends a chunk, up to the limit.
    fn take(&mut self, part: &[u8], most: usize) {
        let room = most - self.bytes.len();
        self.is_cut |= part.len() > room;
        self.bytes.extend_from_slice(&part[..part.len().min(room)]);
    }
}

/// On Unix the runtime waits for the pipes: no thread is left behind when another process keeps a pipe open.
#[cfg(unix)]
mod unix {
    use std::{io, os::fd::OwnedFd};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::unix::pipe,
    };

    use super::{PipeOutput, PipeOverflow};
    use crate::limits;

    impl PipeOutput {
        /// Reads a pipe to its end, and keeps its first `most` bytes. If the future is dropped, the output so far is kept.
        ///
        /// # Errors
        ///
        /// An I/O error if the pipe cannot be waited for.
        pub async fn listen(&mut self, pipe: impl Into<OwnedFd>, most: usize, beyond: PipeOverflow) -> io::Result<()> {
            let mut pipe = pipe::Receiver::from_owned_fd(pipe.into())?;
            let mut part = vec![0; limits::PROCESS_PART_BYTES];
            // Output before a read error is kept.
            while let Ok(count @ 1..) = pipe.read(&mut part).await {
                self.take(&part[..count], most);
                if self.is_cut && beyond == PipeOverflow::HangUp {
                    break;
                }
            }
            Ok(())
        }
    }

    /// Writes all bytes and closes the pipe. A program that stops reading is not an error.
    pub async fn feed(pipe: impl Into<OwnedFd>, bytes: &[u8]) -> io::Result<()> {
        let mut pipe = pipe::Sender::from_owned_fd(pipe.into())?;
        let _ = pipe.write_all(bytes).await;
        Ok(())
    }
}

/// Elsewhere each pipe has its own thread: a thread of the runtime could keep the process from ending.
#[cfg(not(unix))]
mod elsewhere {
    use std::{
        io::{self, Read, Write},
        thread,
    };

    use tokio::sync::{mpsc, oneshot};

    use super::{PipeOutput, PipeOverflow};
    use crate::limits;

    impl PipeOutput {
        /// Reads a pipe to its end, and keeps its first `most` bytes. If the future is dropped, the output so far is kept.
        pub async fn listen(
            &mut self,
            mut pipe: impl Read + Send + 'static,
            most: usize,
            beyond: PipeOverflow,
        ) -> io::Result<()> {
            let (sender, mut parts) = mpsc::channel::<Vec<u8>>(1);
            thread::spawn(move || {
                let mut part = vec![0; limits::PROCESS_PART_BYTES];
                while let Ok(count @ 1..) = pipe.read(&mut part) {
                    if sender.blocking_send(part[..count].to_vec()).is_err() {
                        return;
                    }
                }
            });
            while let Some(part) = parts.recv().await {
                self.take(&part, most);
                if self.is_cut && beyond == PipeOverflow::HangUp {
                    break;
                }
            }
            Ok(())
        }
    }

    /// Writes all bytes and closes the pipe. A program that stops reading is not an error.
    pub async fn feed(mut pipe: impl Write + Send + 'static, bytes: &[u8]) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        let bytes = bytes.to_vec();
        thread::spawn(move || {
            let _ = pipe.write_all(&bytes);
            drop(pipe);
            let _ = done.send(());
        });
        let _ = written.await;
        Ok(())
    }
}
