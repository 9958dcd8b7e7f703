//! A server on loopback that answers each request as a test says, and reports what it was sent.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::sleep,
};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Sent {
    pub path: String,
    /// By lower-case name.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    /// The body as it came.
    pub bytes: Vec<u8>,
    pub at: Instant,
}

impl Sent {
    pub fn new(path: String, headers: Vec<(String, String)>, bytes: Vec<u8>) -> Self {
        Self { path, headers, body: serde_json::from_slice(&bytes).unwrap(), bytes, at: Instant::now() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// An answer of the server.
pub struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    /// Nothing follows the body, but the connection stays open.
    stays: bool,
    /// A text that follows the body again and again, without an end.
    drips: &'static str,
}

/// Between two drops.
const DROP: Duration = Duration::from_millis(5);

impl Answer {
    /// The beginning of a stream, or all of it; then the connection is closed.
    pub fn stream(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: "content-type: text/event-stream\r\n".into(),
            body: body.into(),
            stays: false,
            drips: "",
        }
    }

    /// A stream that comes in these pieces, whatever the network makes of them.
    pub fn pieces<'a>(pieces: impl IntoIterator<Item = &'a Vec<u8>>) -> Self {
        let chunk = |piece: &Vec<u8>| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        let chunks = pieces.into_iter().filter(|piece| !piece.is_empty()).flat_map(chunk);
        let body: Vec<u8> = chunks.chain(*b"0\r\n\r\n").collect();
        Self::stream(body).with("transfer-encoding: chunked")
    }

    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: "content-type: application/json\r\n".into(),
            body: body.into(),
            stays: false,
            drips: "",
        }
    }

    pub fn error(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, ..Self::json(body) }
    }

    pub fn with(mut self, header: &str) -> Self {
        self.headers += &format!("{header}\r\n");
        self
    }

    /// The server falls silent after it.
    pub fn and_silence(self) -> Self {
        Self { stays: true, ..self }
    }

    /// The server says this after it, again and again.
    pub fn and_drips(self, drips: &'static str) -> Self {
        Self { drips, ..self }
    }
}

/// Runs until it is dropped.
pub struct Server {
    pub url: String,
    seen: Arc<Mutex<Vec<Sent>>>,
    closed: mpsc::Receiver<()>,
    _task: JoinSet<()>,
}

impl Server {
    /// `answer` is handed the number of the request, from 0, and the request.
    pub async fn start(answer: impl Fn(usize, &Sent) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, answer) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(answer));
        let (closes, closed) = mpsc::channel(1_000);
        let mut task = JoinSet::new();
        let all = seen.clone();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                let (answer, seen, closes) = (answer.clone(), all.clone(), closes.clone());
                connections.spawn(async move {
                    let Some(sent) = request(&mut connection).await else { return };
                    let at = {
                        let mut seen: std::sync::MutexGuard<'_, Vec<Sent>> = seen.lock().unwrap();
                        seen.push(sent.clone());
                        seen.len() - 1
                    };
                    let Answer { status, headers, body, stays, drips } = answer(at, &sent);
                    let head = format!("HTTP/1.1 {status} Said\r\nconnection: close\r\n{headers}\r\n");
                    let sent = connection.write_all(&[head.as_bytes(), &body].concat()).await;
                    if stays && sent.is_ok() {
                        // Ends when the client goes away: it sends nothing more.
                        let _ = connection.read(&mut [0]).await;
                        let _ = closes.send(()).await;
                    }
                    if !drips.is_empty() {
                        while connection.write_all(drips.as_bytes()).await.is_ok() {
                            sleep(DROP).await;
                        }
                        let _ = closes.send(()).await;
                    }
                });
            }
        });
        Self { url, seen, closed, _task: task }
    }

    /// Returns the requests that were received so far.
    pub fn seen(&self) -> Vec<Sent> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until a client has closed a connection that stayed open.
    pub async fn closed(&mut self) {
        self.closed.recv().await.unwrap();
    }
}

/// Reads a request to its end; none if there is none.
pub async fn request(connection: &mut TcpStream) -> Option<Sent> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    let end = loop {
        let end = bytes.windows(4).position(|four: &[u8]| four == b"\r\n\r\n");
        if let Some(end) = end {
            break end;
        }
        match connection.read(&mut chunk).await {
            Ok(read @ 1..) => bytes.extend(&chunk[..read]),
            _ => return None,
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let split = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<_> = lines.filter_map(split).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").unwrap().1.parse::<usize>().unwrap();
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        match connection.read(&mut chunk).await {
            Ok(read @ 1..) => body.extend(&chunk[..read]),
            _ => return None,
        }
    }
    Some(Sent::new(path, headers, body))
}
