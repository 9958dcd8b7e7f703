use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

use crate::{McpPipeConnector, McpPipePair};
use shelly_core::limits;

/// A server's end of a connection, line by line.
pub struct Peer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    /// The number of the connection, from 0 on.
    pub attempt: usize,
}

impl Peer {
    /// Returns the next message of the client; `None` when it has hung up.
    pub async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Reads to the next message with this method.
    pub async fn next_of(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.unwrap();
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Sends these bytes; errors are ignored, since the client may be gone.
    pub async fn say_raw(&mut self, bytes: &[u8]) {
        let _ = self.write.write_all(bytes).await;
    }

    pub async fn say(&mut self, message: Value) {
        self.say_raw(format!("{message}\n").as_bytes()).await;
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.say(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    pub async fn answer(&mut self, request: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    pub async fn refuse(&mut self, request: &Value, code: i32, message: &str) {
        let error = json!({"code": code, "message": message});
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    /// Shakes hands as a server with tools.
    pub async fn shake_hands(&mut self) {
        self.shake_hands_with(json!({"tools": {"listChanged": true}})).await;
    }

    /// Shakes hands as servers of 2025-11-25 do, up to the notification `initialized`, and declares these capabilities.
    pub async fn shake_hands_with(&mut self, capabilities: Value) {
        let discover = self.next().await.unwrap();
        self.refuse(&discover, -32601, "no such method").await;
        let initialize = self.next_of("initialize").await;
        let us = json!({"name": "peer", "version": "1"});
        let version = "2025-11-25";
        let result = json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": us});
        self.answer(&initialize, result).await;
        self.next_of("notifications/initialized").await;
    }

    /// Shakes hands and lists these tools.
    pub async fn begin(&mut self, tools: &[Value]) {
        self.shake_hands().await;
        let list = self.next_of("tools/list").await;
        self.answer(&list, json!({"tools": tools})).await;
    }

    /// Sends nothing more, and keeps the connection open.
    pub async fn hang(mut self) {
        while self.next().await.is_some() {}
        std::future::pending().await
    }
}

/// Servers, one for each connection.
#[derive(Clone)]
pub struct Servers {
    serve: Arc<dyn Fn(Peer) -> BoxFuture<'static, ()> + Send + Sync>,
    dialled: Arc<AtomicUsize>,
    tasks: Arc<Mutex<tokio::task::JoinSet<()>>>,
}

impl Servers {
    /// Returns servers that run `serve` for each connection; the connection lasts as long as its future.
    pub fn new<F: Future<Output = ()> + Send + 'static>(serve: impl Fn(Peer) -> F + Send + Sync + 'static) -> Self {
        let serve = Arc::new(move |peer| Box::pin(serve(peer)) as BoxFuture<'static, ()>);
        Self { serve, dialled: Arc::default(), tasks: Arc::default() }
    }

    /// Returns the number of connections so far.
    pub fn dialled(&self) -> usize {
        self.dialled.load(Ordering::SeqCst)
    }

    /// Panics if a server has panicked.
    pub async fn check(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
        *self.tasks.lock().unwrap() = tasks;
    }

    pub fn dial(&self) -> McpPipeConnector {
        let this = self.clone();
        Arc::new(move || {
            let (here, there) = tokio::io::duplex(limits::MCP_PIPE_BYTES);
            let ((read, write), (client_reads, client_writes)) = (tokio::io::split(there), tokio::io::split(here));
            let attempt = this.dialled.fetch_add(1, Ordering::SeqCst);
            let peer = Peer { lines: BufReader::new(read).lines(), write, attempt };
            this.tasks.lock().unwrap().spawn((this.serve)(peer));
            let pipes: McpPipePair = (Box::new(client_reads), Box::new(client_writes));
            Box::pin(async { Ok(pipes) })
        })
    }
}
