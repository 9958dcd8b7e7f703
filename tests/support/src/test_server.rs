//! A server on loopback that sends prepared responses byte for byte: whole ones, cut ones, silence.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A server that answers each connection with the next response and then closes it. Without a response left, it closes the
/// connection after the request.
pub struct TestServer {
    /// The address of its root, without a slash at the end.
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

/// The bytes sent over a connection.
pub struct CannedResponse {
    /// Head and body.
    pub bytes: Vec<u8>,
    /// `true` if the connection stays open afterwards.
    pub stays: bool,
}

/// Returns a whole response. `headers` are lines that end in `\r\n`.
pub fn answer(status: &str, headers: &str, body: &str) -> CannedResponse {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
    CannedResponse { bytes: (head + body).into_bytes(), stays: false }
}

impl TestServer {
    /// Starts a server on a free port of loopback.
    pub async fn start(answers: Vec<CannedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(serve(listener, answers, requests.clone()));
        Self { url, requests, task }
    }

    /// Returns the requests received so far, head and body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, answers: Vec<CannedResponse>, requests: Arc<Mutex<Vec<String>>>) {
    let mut answers = answers.into_iter();
    let mut open = Vec::new();
    while let Ok((mut connection, _)) = listener.accept().await {
        let request = read_request(&mut connection).await;
        requests.lock().unwrap().push(request);
        let Some(answer) = answers.next() else { continue };
        // The client may have disconnected already.
        let _ = connection.write_all(&answer.bytes).await;
        if answer.stays {
            open.push(connection);
        } else {
            let _ = connection.shutdown().await;
        }
    }
}

async fn read_request(connection: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !is_whole(&bytes) {
        if connection.read_buf(&mut bytes).await.unwrap() == 0 {
            break;
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}
