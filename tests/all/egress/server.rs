//! A server that answers each request with what it heard of it.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Runs until it is dropped.
pub struct Echo {
    pub url: String,
    _task: JoinSet<()>,
}

impl Echo {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(echo(connection));
            }
        });
        Self { url, _task: task }
    }
}

async fn echo(mut connection: TcpStream) {
    let mut heard = Vec::new();
    while !is_whole(&heard) {
        match connection.read_buf(&mut heard).await {
            Ok(1..) => {}
            _ => return,
        }
    }
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", heard.len());
    let _ = connection.write_all(&[head.as_bytes(), &heard].concat()).await;
}

fn is_whole(heard: &[u8]) -> bool {
    let text = String::from_utf8_lossy(heard).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.len() >= length.parse().unwrap(),
        None if head.contains("transfer-encoding: chunked") => body.ends_with("0\r\n\r\n"),
        None => true,
    }
}
