//! A proxy between one client and one server, which holds, delays, cuts and doubles connections, and lets new ones overtake
//! what old ones have sent.

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

/// The bytes of one connection that are held at most; what follows is lost.
const HELD: usize = 16 << 20;

/// The time that a server has for the bytes that come late.
const LATE: Duration = Duration::from_secs(1);

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
    /// Holds what the client sends. [`Proxy::overtake`] ends the mode: what was held reaches the server so much later than
    /// what the client sends by its next connection.
    Overtaken(Duration),
}

/// A proxy. Its listener ends with the process.
pub struct Proxy {
    port: u16,
    state: Arc<ProxyState>,
}

struct ProxyState {
    server_port: u16,
    mode: Mutex<ProxyMode>,
    connections: Mutex<Vec<ProxyConnection>>,
}

/// The ends of a connection.
struct ProxyConnection {
    client: TcpStream,
    servers: Vec<TcpStream>,
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

    /// Returns the port for the client.
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
            for end in connection.servers.iter().chain([&connection.client]) {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }

    /// Ends the connections of the client, whose next ones are open. What is held is sent to the server later.
    pub fn overtake(&self) {
        // Those to the server are ended by the thread that has something for them.
        for connection in locked(&self.state.connections).drain(..) {
            let _ = connection.client.shutdown(Shutdown::Both);
        }
        self.set(ProxyMode::Open);
    }
}

impl ProxyState {
    fn mode(&self) -> ProxyMode {
        *locked(&self.mode)
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> Result<(), BoxError> {
        let server = TcpStream::connect(("127.0.0.1", self.server_port))?;
        let mut servers = vec![server.try_clone()?];
        if self.mode() == ProxyMode::Doubled {
            let second = TcpStream::connect(("127.0.0.1", self.server_port))?;
            servers.push(second.try_clone()?);
            thread::spawn(move || discard(second));
        }
        for stream in servers.iter().chain([&client]) {
            stream.set_nodelay(true)?;
        }
        let ends = servers.iter().map(TcpStream::try_clone).collect::<Result<Vec<_>, _>>()?;
        locked(&self.connections).push(ProxyConnection { client: client.try_clone()?, servers: ends });
        let (to_server, to_client) = (Arc::clone(self), Arc::clone(self));
        let from_client = client.try_clone()?;
        thread::spawn(move || to_server.copy_to_server(from_client, servers));
        thread::spawn(move || to_client.copy_to_client(server, client));
        Ok(())
    }

    /// Copies bytes of a client until one of the sides ends, and ends all of them then.
    fn copy_to_server(&self, mut client: TcpStream, mut servers: Vec<TcpStream>) {
        let (mut bytes, mut held, mut late) = (vec![0; 64 << 10], Vec::new(), Duration::ZERO);
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            self.pass();
            if let ProxyMode::Overtaken(time) = self.mode() {
                held.extend_from_slice(&bytes[..count.min(HELD.saturating_sub(held.len()))]);
                late = time;
                continue;
            }
            held.extend_from_slice(&bytes[..count]);
            if !send(&mut servers, &std::mem::take(&mut held)) {
                break;
            }
        }
        if !held.is_empty() {
            thread::sleep(late);
            send(&mut servers, &held);
            thread::sleep(LATE);
        }
        for stream in servers.iter().chain([&client]) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Copies bytes of a server until one of the sides ends. The other thread ends the connection to the server, for which
    /// it may have something yet.
    fn copy_to_client(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = server.read(&mut bytes) {
            self.pass();
            if client.write_all(&bytes[..count]).is_err() {
                let _ = client.shutdown(Shutdown::Both);
                return discard(server);
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    }

    /// Waits as long as the mode wants it.
    fn pass(&self) {
        // A held connection is cut before the mode changes back, so what is held is never sent.
        while self.mode() == ProxyMode::Silent {
            thread::sleep(LOOK);
        }
        if let ProxyMode::Late(pause) = self.mode() {
            thread::sleep(pause);
        }
    }
}

/// Sends bytes to all of these; returns `false` if the first one has ended.
fn send(servers: &mut [TcpStream], bytes: &[u8]) -> bool {
    let Some((first, others)) = servers.split_first_mut() else { return false };
    // The copies may end alone.
    others.iter_mut().for_each(|other| drop(other.write_all(bytes)));
    first.write_all(bytes).is_ok()
}

/// Reads a connection to its end.
fn discard(mut connection: TcpStream) {
    let mut bytes = [0; 4_096];
    while matches!(connection.read(&mut bytes), Ok(1..)) {}
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
