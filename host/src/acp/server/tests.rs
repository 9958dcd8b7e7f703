use std::{path::PathBuf, sync::mpsc};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    time::Instant,
};

use super::*;
use crate::{
    error::{ErrorKind, Report},
    session::{MemoryDisk, SessionStore, SessionStoreOptions},
};

/// Options under which no project can be opened: each attempt waits for a message, and then fails.
fn options() -> (AcpOptions, mpsc::Sender<()>) {
    let (go, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let store = SessionStore::new(Arc::new(MemoryDisk::new()), "/sessions", SessionStoreOptions::default());
    let options = AcpOptions {
        open: Arc::new(move |_| {
            let _ = wait.lock().unwrap().recv();
            Err(Report::new(ErrorKind::Usage, "no project"))
        }),
        sessions: Arc::new(move |_| Ok(store.clone())),
        agent: None,
        model: None,
        record: true,
        trusts_sessions: false,
        allowed_servers: Vec::new(),
        explain: |_, error| Report::new(error.kind(), error.to_string()),
        run_id: || "run".into(),
        folder: PathBuf::from("/p"),
        events: EventSink::none(),
    };
    (options, go)
}

#[tokio::test]
async fn requests_at_once_are_bounded() {
    let (options, go) = options();
    let server = AcpServer::new(options);
    let (editor, ours) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(ours);
    let (lines, mut say) = tokio::io::split(editor);
    let mut lines = BufReader::new(lines).lines();
    let talk = async {
        let request = |id: usize, method: &str, params: Value| {
            format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        };
        say.write_all(request(0, "initialize", json!({"protocolVersion": 1})).as_bytes()).await.unwrap();
        let mut next = async || serde_json::from_str::<Value>(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(next().await["result"]["protocolVersion"], 1);
        let open = json!({"cwd": "/p", "mcpServers": []});
        for id in 1..=limits::ACP_REQUESTS + 1 {
            say.write_all(request(id, "session/new", open.clone()).as_bytes()).await.unwrap();
        }
        let refused = next().await;
        assert_eq!(refused["id"], limits::ACP_REQUESTS + 1);
        assert_eq!(refused["error"]["message"], "32 requests are worked on already");
        for _ in 0..limits::ACP_REQUESTS {
            go.send(()).unwrap();
            assert_eq!(next().await["error"]["message"], "no project");
        }
        say.shutdown().await.unwrap();
    };
    tokio::join!(server.serve(read, write, CancellationToken::new()), talk);
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_end_with_their_time() {
    let (options, _go) = options();
    let server = AcpServer::new(options);
    let (mut say, read) = tokio::io::duplex(1 << 16);
    let (write, _unread) = tokio::io::duplex(16);
    let before = Instant::now();
    let talk = async move {
        // One line is being written; for the answer to the last request there is no room.
        for id in 0..limits::ACP_UNREAD_LINES + 2 {
            let line = json!({"jsonrpc": "2.0", "id": id, "method": "no/such"});
            say.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(server.serve(read, write, CancellationToken::new()), talk);
    // The editor has hung up in an orderly way, so its answers have their time, and then the line that is being written.
    let expected = limits::ACP_CLOSE_TIME + limits::CANCEL_GRACE;
    assert!((expected..limits::ACP_WRITE_TIME).contains(&before.elapsed()), "{:?}", before.elapsed());
}

#[tokio::test]
async fn endless_line_ends_the_connection() {
    let (options, _go) = options();
    let (endless, nowhere) = (tokio::io::repeat(b'x'), tokio::io::sink());
    AcpServer::new(options).serve(endless, nowhere, CancellationToken::new()).await;
}
