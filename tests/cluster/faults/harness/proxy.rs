//! A proxy between one worker and one server, which holds, delays, cuts and doubles connections.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use super::plan::BoxError;

/// The pause between two looks at a connection that is held.
const LOOK: Duration = Duration::from_millis(10);

/// The treatment of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyMode {
    /// Bytes go through.
    Open,
    /// Nothing goes through, and nobody is told.
    Silent,
    /// Bytes go through after a pause.
    Late(Duration),
    /// Sends the bytes of a new connection's client to the server twice, by two connections: each message comes a second
    /// time, sooner or later than the first one.
    Doubled,
}

/// A proxy. Its listener ends with the process.
pub struct Proxy {
    port: u16,
    state: Arc<ProxyState>,
}

struct ProxyState {
    server_port: u16,
    mode: Mutex<ProxyMode>,
    connections: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy to the server on this port of loopback.
    pub fn start(server_port: u16) -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let state =
            Arc::new(ProxyState { server_port, mode: Mutex::new(ProxyMode::Open), connections: Mutex::default() });
        let of_listener = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // The server may be away: then the connection ends here.
                let _ = of_listener.connect(client);
            }
        });
        Ok(Self { port, state })
    }

    /// Returns the port for the worker.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the treatment of connections.
    pub fn set(&self, mode: ProxyMode) {
        *locked(&self.state.mode) = mode;
    }

    /// Ends all connections. What was on its way is lost.
    pub fn cut(&self) {
        for connection in locked(&self.state.connections).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl ProxyState {
    fn mode(&self) -> ProxyMode {
        *locked(&self.mode)
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> Result<(), BoxError> {
        let server = TcpStream::connect(("127.0.0.1", self.server_port))?;
        let mut targets = vec![server.try_clone()?];
        let mut ends = vec![client.try_clone()?, server.try_clone()?];
        if self.mode() == ProxyMode::Doubled {
            let second = TcpStream::connect(("127.0.0.1", self.server_port))?;
            targets.push(second.try_clone()?);
            ends.push(second.try_clone()?);
            thread::spawn(move || discard(second));
        }
        for stream in &ends {
            stream.set_nodelay(true)?;
        }
        locked(&self.connections).extend(ends);
        let (to_server, to_client) = (Arc::clone(self), Arc::clone(self));
        let from_client = client.try_clone()?;
        thread::spawn(move || to_server.copy(from_client, targets));
        thread::spawn(move || to_client.copy(server, vec![client]));
        Ok(())
    }

    /// Copies bytes until one of the sides ends, and ends all of them then.
    fn copy(&self, mut from: TcpStream, mut to: Vec<TcpStream>) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            // A held connection is cut before the mode changes back, so what is held is never sent.
            while self.mode() == ProxyMode::Silent {
                thread::sleep(LOOK);
            }
            if let ProxyMode::Late(pause) = self.mode() {
                thread::sleep(pause);
            }
            let (first, others) = to.split_at_mut(1);
            // The copies may end alone.
            others.iter_mut().for_each(|other| drop(other.write_all(&bytes[..count])));
            if first[0].write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        for stream in to.iter().chain([&from]) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Reads a connection to its end.
fn discard(mut connection: TcpStream) {
    let mut bytes = [0; 4_096];
    while matches!(connection.read(&mut bytes), Ok(1..)) {}
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
