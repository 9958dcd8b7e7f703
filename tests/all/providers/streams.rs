//! Replies that a plugin streams: consumers that go away or are slow, and what becomes of the stream.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json, value::RawValue};
use shelly_host::{
    chat::{self, Chat, Media, Message, Part},
    error::Fault,
    event::RunCx,
    limits,
    model::{Completer, CompletionRequest, DeltaSink, DeltaTarget, ReplyDelta},
    net::Retries,
    plugin::{Limits, Plugin, PluginPackage, PluginSettings},
};
use tokio::{
    io::AsyncWriteExt,
    net::TcpListener,
    sync::{Notify, Semaphore, oneshot},
    time::timeout,
};

use super::{
    Said, Setup, Vendor, ask, ask_with,
    guest::{self, engine, model_of, ollama},
    heard,
    ollama::Ollama,
    question,
    server::{Answer, Server, request},
    text,
};

/// Longer than anything here takes, so that a test that waits for ever ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// The beginning of a reply.
fn beginning() -> String {
    let stream = Ollama::stream(&Said::of([text("A long story.")]));
    stream.lines().take(2).map(|line| format!("{line}\n")).collect()
}

fn good() -> Answer {
    Answer::stream(Ollama::stream(&Said::of([text("Well.")])))
}

/// Tells when the first piece came.
#[derive(Default)]
struct First(Notify);

#[async_trait]
impl DeltaTarget for First {
    async fn take(&self, _: ReplyDelta) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn slot_of_a_dropped_stream_is_released() {
    let mut server =
        Server::start(|at, _| if at < 3 { Answer::stream(beginning()).and_silence() } else { good() }).await;
    let alone = Limits { concurrency: 1, http_concurrency: 1, ..Limits::default() };
    let model = model_of(&ollama(&server.url, alone).await, "m");
    let (cx, request) = (RunCx::new("ada"), question("Hi"));
    for _ in 0..3 {
        let first = Arc::new(First::default());
        let sink = DeltaSink::new(first.clone());
        tokio::select! {
            done = model.complete(&cx, &request, &sink) => panic!("{done:?}"),
            () = first.0.notified() => {}
        }
        timeout(PATIENCE, server.closed()).await.expect("the connection is closed");
    }
    // There is one place for calls, and one for requests.
    let next = timeout(limits::PLUGIN_PERMIT_WAIT / 2, model.complete(&cx, &request, &DeltaSink::none())).await;
    assert_eq!(next.unwrap().unwrap().parts, [Part::Text("Well.".into())]);
}

#[tokio::test]
async fn stream_is_retried_only_before_its_first_piece() {
    for (first, tries) in [(String::new(), 2), ("\n\n".into(), 2), (beginning(), 1)] {
        let said = first.clone();
        let server = Server::start(move |at, _| if at == 0 { Answer::stream(said.clone()) } else { good() }).await;
        let heard = ask::<Ollama>(&server, &question("Hi")).await;
        assert_eq!((server.seen().len(), heard.result.is_ok()), (tries, tries == 2), "{first:?}: {heard:?}");
        assert_eq!(heard.told().0, if tries == 2 { "Well." } else { "A long" }, "{first:?}");
    }
}

/// On this machine that does not change within seconds.
#[tokio::test]
async fn refused_connection_to_this_machine_is_not_retried() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let model = model_of(&ollama(&format!("http://{host}:{closed}"), Limits::default()).await, "m");
        // A pause would be longer than the patience.
        let model = model.with_retries(Retries { first_pause: 2 * PATIENCE, ..Retries::DEFAULT });
        let heard = timeout(PATIENCE, heard(&model, &question("Hi"))).await.expect("it does not wait");
        let fault = heard.result.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
        assert!(fault.to_string().contains(&format!("cannot connect to {host}:{closed}")), "{fault}");
    }
}

#[tokio::test]
async fn dripping_stream_hits_the_total_timeout() {
    let mut server =
        Server::start(|_, _| Answer::stream(beginning()).and_drips("{\"message\":{\"content\":\".\"}}\n")).await;
    let hurried = Setup { total: Duration::from_millis(500), ..Setup::on(&server) };
    let heard = ask_with::<Ollama>(hurried, &question("Hi")).await;
    assert!(matches!(heard.result, Err(Fault::Timeout { .. })), "{:?}", heard.result);
    assert!(heard.told().0.starts_with("A long."), "{}", heard.told().0);
    timeout(PATIENCE, server.closed()).await.expect("the connection is closed");
    assert_eq!(server.seen().len(), 1);
}

/// Takes nothing until it may.
struct Slow {
    came: Notify,
    may: Semaphore,
}

#[async_trait]
impl DeltaTarget for Slow {
    async fn take(&self, _: ReplyDelta) {
        self.came.notify_one();
        let _ = self.may.acquire().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_stream_consumer_applies_backpressure() {
    /// More than the sockets between them hold.
    const BYTES: usize = 40 << 20;
    /// A server that cannot write for so long is held back.
    const HELD: Duration = Duration::from_millis(500);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (held, is_held) = oneshot::channel();
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        request(&mut connection).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        connection.write_all(format!("{head}{}", beginning()).as_bytes()).await.unwrap();
        let (line, mut held) = (json!({"news": "x".repeat(64 << 10)}).to_string() + "\n", Some(held));
        while count.load(Ordering::Relaxed) < BYTES {
            let mut left = line.as_bytes();
            while !left.is_empty() {
                // Dropped, it has written nothing.
                match timeout(HELD, connection.write(left)).await {
                    Ok(wrote) => left = &left[wrote.unwrap()..],
                    Err(_) => drop(held.take().map(|held| held.send(()))),
                }
            }
            count.fetch_add(line.len(), Ordering::Relaxed);
        }
        assert!(held.is_none(), "it was never held back");
        connection.write_all(Ollama::stream(&Said::of([text(" The end.")])).as_bytes()).await.unwrap();
    });
    let model = model_of(&ollama(&url, Limits::default()).await, "m");
    let slow = Arc::new(Slow { came: Notify::new(), may: Semaphore::new(0) });
    let sink = DeltaSink::new(slow.clone());
    let asking = tokio::spawn(async move { model.complete(&RunCx::new("ada"), &question("Hi"), &sink).await });
    timeout(PATIENCE, slow.came.notified()).await.unwrap();
    timeout(PATIENCE, is_held).await.expect("the server is held back").unwrap();
    assert!(written.load(Ordering::Relaxed) < BYTES / 2, "{written:?}");
    slow.may.add_permits(1_000);
    let completion = timeout(PATIENCE, asking).await.expect("it goes on").unwrap().unwrap();
    assert_eq!(completion.parts, [Part::Text("A long The end.".into())]);
    server.await.unwrap();
}

fn image(bytes: Vec<u8>) -> CompletionRequest {
    let chat = Chat::new();
    let mut user = Message::user("Look:");
    let source = chat::MediaData::Bytes(bytes.into());
    user.parts.push(Part::Media(Media { media_type: "image/png".into(), name: None, source }));
    chat.append(user).unwrap();
    CompletionRequest::new(chat.snapshot(), Arc::new([]))
}

#[tokio::test]
async fn image_attachment_is_sent_unchanged() {
    // One read, more than one, and one that ends with a read.
    for bytes in [3, (3 << 20) - 1, 3 << 20] {
        let image: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let sent = guest::sent(&self::image(image.clone()), Ollama::stream(&Said::of([text("A cat.")]))).await;
        let expected = super::image_of(&"image/png".into(), &sent.body["messages"][0]["images"][0]);
        let (_, base64) = expected.split_once("base64,").unwrap();
        assert_eq!(base64.len(), image.len().div_ceil(3) * 4);
        assert_eq!(decoded(base64), image, "{bytes} bytes");
    }
}

fn decoded(base64: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    let padding = base64.bytes().rev().take_while(|c| *c == b'=').count();
    let three = |four: &[u8]| {
        let word = four.iter().fold(0_u32, |word, c| word << 6 | u32::from(value(*c)));
        [(word >> 16) as u8, (word >> 8) as u8, word as u8]
    };
    let mut bytes: Vec<u8> = base64.as_bytes().chunks(4).flat_map(three).collect();
    bytes.truncate(bytes.len() - padding);
    bytes
}

/// Returns the results of a guest's reads at these positions, as `[offset, bytes]`.
async fn reads(request: &CompletionRequest, id: Option<&str>, reads: &[(u64, u32)]) -> Value {
    let package = PluginPackage::read(&Path::new(crate::GUEST_ROOT).join("probe-hooks")).unwrap();
    let arguments = json!({"id": id, "reads": reads});
    let params = json!({"provider": "attachment", "arguments": arguments}).to_string();
    let params = RawValue::from_string(params).unwrap();
    let settings = PluginSettings { params, ..PluginSettings::new("providers.m", "providers.m") };
    let plugin = Arc::new(Plugin::load(engine(), &Arc::new(package), &settings).await.unwrap());
    let completion = model_of(&plugin, "m").complete(&RunCx::new("ada"), request, &DeltaSink::none()).await.unwrap();
    let [Part::Text(text)] = completion.parts.as_slice() else { panic!("{completion:?}") };
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn attachment_reads_are_bounded_and_limited_to_the_recipient() {
    const MIB: u64 = 1 << 20;
    let request = image((0..3 * MIB + 5).map(|at| (at / MIB) as u8).collect());
    let told = reads(
        &request,
        None,
        &[
            (0, 1 << 20),
            (MIB, 1 << 20),
            (3 * MIB, 1 << 20),
            // No read is longer.
            (0, u32::MAX),
            (2 * MIB + 1, u32::MAX),
            (1, 0),
            (3 * MIB + 4, 9),
            // At the end, and beyond it.
            (3 * MIB + 5, 9),
            (u64::MAX, u32::MAX),
        ],
    )
    .await;
    // How many bytes, and the first of them.
    assert_eq!(told, json!([[MIB, 0], [MIB, 1], [5, 3], [MIB, 0], [MIB, 2], [0, null], [1, 3], [0, null], [0, null]]));
    let told = reads(&request, Some("made-up"), &[(0, 1)]).await;
    assert_eq!(told, json!(["this call has no attachment `made-up`"]));
}
