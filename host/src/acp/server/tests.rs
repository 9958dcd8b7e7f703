use std::{
    path::PathBuf,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    time::Instant,
};

use super::*;
use crate::session::{MemoryDisk, SessionStore, SessionStoreOptions};

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
    let (served, ()) = tokio::join!(server.serve(read, write, CancellationToken::new()), talk);
    served.unwrap();
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
    let (served, ()) = tokio::join!(server.serve(read, write, CancellationToken::new()), talk);
    served.unwrap();
    // The editor has hung up in an orderly way, so its answers have their time, and then the line that is being written.
    let expected = limits::ACP_CLOSE_TIME + limits::CANCEL_GRACE;
    assert!((expected..limits::ACP_WRITE_TIME).contains(&before.elapsed()), "{:?}", before.elapsed());
}

#[tokio::test]
async fn endless_line_ends_the_connection() {
    let (options, _go) = options();
    let (editor, write) = tokio::io::duplex(1 << 16);
    let endless = tokio::io::repeat(b'x');
    let given_up = AcpServer::new(options).serve(endless, write, CancellationToken::new()).await.unwrap_err();
    let what = "the editor sent more than 2147483648 bytes without a message";
    assert_eq!((given_up.kind, &*given_up.message), (ErrorKind::Run, what));
    let line = BufReader::new(editor).lines().next_line().await.unwrap().unwrap();
    let answer = serde_json::from_str::<Value>(&line).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(RpcError::PARSE)));
}

fn request(id: &Value, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[tokio::test]
async fn cancelled_requests_end_and_their_work_stays_bounded() {
    let (mut options, go) = options();
    let (begun, open) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&options.open));
    let counted = Arc::clone(&begun);
    options.open = Arc::new(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        open(request)
    });
    let server = AcpServer::new(options);
    let (editor, ours) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(ours);
    let (lines, mut pipe) = tokio::io::split(editor);
    let mut lines = BufReader::new(lines).lines();
    let talk = async {
        let mut say = async |message: Value| pipe.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let mut next = async || serde_json::from_str::<Value>(&lines.next_line().await.unwrap().unwrap()).unwrap();
        let cancel = |id: &Value| {
            let params = json!({ "requestId": id });
            json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})
        };
        let open = json!({"cwd": "/p", "mcpServers": []});
        say(request(&json!(0), "initialize", &json!({"protocolVersion": 1}))).await;
        assert_eq!(next().await["id"], 0);
        for n in 1..=limits::ACP_REQUESTS * 3 {
            let id = if n % 2 == 0 { json!(n) } else { json!(format!("r{n}")) };
            say(request(&id, "session/new", &open)).await;
            say(cancel(&id)).await;
            let answer = next().await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(RpcError::CANCELLED)));
        }
        // Requests that are not open, and what is no id.
        for id in [json!(1), json!(null), json!({}), json!("never")] {
            say(cancel(&id)).await;
        }
        say(json!({"jsonrpc": "2.0", "method": "$/cancel_request"})).await;
        // The work that cancelled requests have begun goes on.
        assert!(begun.load(Ordering::Relaxed) <= limits::ACP_REQUESTS);
        (0..=limits::ACP_REQUESTS).for_each(|_| go.send(()).unwrap());
        say(request(&json!("last"), "session/new", &open)).await;
        let answer = next().await;
        assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!("last"), &json!("no project")));
        pipe.shutdown().await.unwrap();
    };
    let (served, ()) = tokio::join!(server.serve(read, write, CancellationToken::new()), talk);
    served.unwrap();
}
