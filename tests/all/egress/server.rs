//! A server on loopback that answers as a test says, and reports the requests that it received and the state of its
//! connections.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
    task::JoinSet,
};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Without the empty line at its end.
    pub head: String,
    /// Without what chunks are made of.
    pub body: Vec<u8>,
    /// `true` if the request was received to its end.
    pub is_whole: bool,
}

impl Heard {
    /// `GET /path HTTP/1.1`.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    pub fn path(&self) -> &str {
        self.line().split(' ').nth(1).unwrap()
    }

    /// The values of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.filter(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }
}

/// An answer of the server.
pub enum Answer {
    /// This; the connection stays for the next request.
    Says(Vec<u8>),
    /// This, and the connection ends.
    Ends(Vec<u8>),
    /// This, and then nothing until the client goes away.
    Stays(Vec<u8>),
    /// A body that never ends.
    Endless,
}

impl Answer {
    /// `status` may be followed by headers: `200 OK\r\na: b`.
    pub fn of(status: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
        Self::Says([head.as_bytes(), body].concat())
    }

    /// The body in chunks of one byte each.
    pub fn in_chunks(status: &str, body: &str) -> Self {
        let chunks: String = body.bytes().map(|byte| format!("1\r\n{}\r\n", char::from(byte))).collect();
        Self::Says(format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").into_bytes())
    }

    /// An answer that repeats the request as it was received.
    pub fn echo(heard: &Heard) -> Self {
        Self::of("200 OK", [heard.head.as_bytes(), b"\r\n\r\n", &heard.body].concat())
    }

    pub fn redirect(status: u16, to: &str) -> Self {
        Self::of(&format!("{status} Elsewhere\r\nlocation: {to}"), "")
    }
}

type Answers = dyn Fn(&Heard) -> Answer + Send + Sync;

struct Shared {
    answer: Box<Answers>,
    heard: Mutex<Vec<Heard>>,
    connections: AtomicUsize,
    sent: AtomicU64,
    /// Bodies are not read before this says so.
    ears: Option<Notify>,
    begins: mpsc::Sender<()>,
    closes: mpsc::Sender<()>,
}

/// Runs until it is dropped.
pub struct Server {
    pub url: String,
    pub port: u16,
    shared: Arc<Shared>,
    begun: mpsc::Receiver<()>,
    closed: mpsc::Receiver<()>,
    _task: JoinSet<()>,
}

impl Server {
    pub async fn start(answer: impl Fn(&Heard) -> Answer + Send + Sync + 'static) -> Self {
        Self::with(Box::new(answer), None).await
    }

    /// Answers with what it heard.
    pub async fn echo() -> Self {
        Self::start(Answer::echo).await
    }

    /// Reads no body before [`Server::listen`].
    pub async fn deaf() -> Self {
        Self::with(Box::new(Answer::echo), Some(Notify::new())).await
    }

    async fn with(answer: Box<Answers>, ears: Option<Notify>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let ((begins, begun), (closes, closed)) = (mpsc::channel(1_000), mpsc::channel(1_000));
        let (connections, sent) = Default::default();
        let shared = Arc::new(Shared { answer, heard: Mutex::default(), connections, sent, ears, begins, closes });
        let (mut task, all) = (JoinSet::new(), shared.clone());
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                all.connections.fetch_add(1, Ordering::SeqCst);
                let shared = all.clone();
                connections.spawn(async move {
                    shared.serve(connection).await;
                    let _ = shared.closes.try_send(());
                });
            }
        });
        Self { url: format!("http://127.0.0.1:{port}"), port, shared, begun, closed, _task: task }
    }

    /// Returns the requests that were received so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().unwrap().clone()
    }

    /// The last request.
    pub fn last(&self) -> Heard {
        self.heard().pop().expect("a request came")
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Bytes that the network has taken of bodies without an end.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    /// Waits until a request has begun.
    pub async fn begun(&mut self) {
        self.begun.recv().await.unwrap();
    }

    /// Waits until a connection has come to its end.
    pub async fn closed(&mut self) {
        self.closed.recv().await.unwrap();
    }

    /// Has the next body read.
    pub fn listen(&self) {
        self.shared.ears.as_ref().unwrap().notify_one();
    }
}

impl Shared {
    /// Until the client or the answer ends the connection.
    async fn serve(&self, mut connection: TcpStream) {
        let mut bytes = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                    break end;
                }
                if !read(&mut connection, &mut bytes).await {
                    return;
                }
            };
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            bytes.drain(..end + 4);
            // Not every test waits for them.
            let _ = self.begins.try_send(());
            if let Some(ears) = &self.ears {
                ears.notified().await;
            }
            let mut heard = Heard { head, body: Vec::new(), is_whole: true };
            let is_chunked = heard.header("transfer-encoding").is_some();
            let length = heard.header("content-length").map_or(0, |length| length.parse().unwrap());
            let rest = loop {
                if let Some((body, rest)) = if is_chunked { unchunked(&bytes) } else { parted(&bytes, length) } {
                    heard.body = body;
                    break rest;
                }
                if !read(&mut connection, &mut bytes).await {
                    heard.is_whole = false;
                    self.heard.lock().unwrap().push(heard);
                    return;
                }
            };
            bytes = rest;
            self.heard.lock().unwrap().push(heard.clone());
            let answer = (self.answer)(&heard);
            let said = match &answer {
                Answer::Says(said) | Answer::Ends(said) | Answer::Stays(said) => said,
                Answer::Endless => &b"HTTP/1.1 200 OK\r\n\r\n".into(),
            };
            if connection.write_all(said).await.is_err() {
                return;
            }
            match answer {
                Answer::Says(_) => {}
                Answer::Ends(_) => return,
                Answer::Endless => return self.pour(&mut connection).await,
                Answer::Stays(_) => {
                    while read(&mut connection, &mut bytes).await {}
                    return;
                }
            }
        }
    }

    async fn pour(&self, connection: &mut TcpStream) {
        let piece = [b'x'; 64 << 10];
        while let Ok(sent @ 1..) = connection.write(&piece).await {
            self.sent.fetch_add(sent as u64, Ordering::SeqCst);
        }
    }
}

async fn read(connection: &mut TcpStream, into: &mut Vec<u8>) -> bool {
    matches!(connection.read_buf(into).await, Ok(1..))
}

/// The body, and what comes after it.
type Parted = Option<(Vec<u8>, Vec<u8>)>;

fn parted(bytes: &[u8], length: usize) -> Parted {
    bytes.split_at_checked(length).map(|(body, rest)| (body.into(), rest.into()))
}

fn unchunked(mut bytes: &[u8]) -> Parted {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        let chunk = bytes.get(end + 2..end + 2 + size)?;
        bytes = bytes.get(end + 4 + size..)?;
        body.extend_from_slice(chunk);
        if size == 0 {
            return Some((body, bytes.into()));
        }
    }
}
