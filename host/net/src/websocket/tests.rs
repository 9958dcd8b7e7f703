use std::sync::{Arc, Mutex};

use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::handshake::server::{ErrorResponse, Request as Asked, Response},
};

use super::*;
use crate::{AuthHeader, Retries, endpoint};
use shelly_test_support::{TestServer, answer};

type Socket = WebSocketStream<TcpStream>;

/// The response of a handshake; the library determines its type.
#[allow(clippy::result_large_err, reason = "the library wants it so")]
fn accept(asked: &Asked, mut response: Response, heard: &Mutex<String>) -> Result<Response, ErrorResponse> {
    *heard.lock().unwrap() = format!("{} {:?}", asked.uri(), asked.headers());
    response.headers_mut().insert("x-ratelimit-remaining-requests", header::HeaderValue::from_static("9"));
    Ok(response)
}

/// Starts a server that runs `talk` on its first connection, and records the handshake request.
async fn server<F: Future<Output = ()> + Send>(
    talk: impl FnOnce(Socket) -> F + Send + 'static,
) -> (HttpRequest, Arc<Mutex<String>>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = endpoint(&format!("http://{}", listener.local_addr().unwrap()), &["v1", "realtime"]).unwrap();
    let heard = Arc::new(Mutex::new(String::new()));
    let task = tokio::spawn({
        let heard = heard.clone();
        async move {
            let (connection, _) = listener.accept().await.unwrap();
            #[allow(clippy::result_large_err, reason = "the library wants it so")]
            let socket = accept_hdr_async(connection, |asked: &Asked, response| accept(asked, response, &heard)).await;
            talk(socket.unwrap()).await;
        }
    });
    (
        HttpRequest {
            auth: Some(AuthHeader::bearer(Secret::new("sk-secret"))),
            retries: Retries::NONE,
            ..HttpRequest::new(url)
        },
        heard,
        task,
    )
}

async fn dial(request: &HttpRequest) -> Result<WebSocket, Fault> {
    HttpClient::new().unwrap().dial(request).await
}

async fn received(request: &HttpRequest) -> Result<Option<String>, Fault> {
    dial(request).await.unwrap().receive().await
}

#[tokio::test]
async fn texts_go_both_ways_and_both_may_close() {
    let (request, heard, task) = server(|mut socket| async move {
        while let Some(Ok(message)) = socket.next().await {
            match message {
                Message::Text(text) if text == "end" => socket.close(None).await.unwrap(),
                Message::Text(text) => socket.send(Message::binary(format!("heard {text}"))).await.unwrap(),
                Message::Close(_) => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    let mut socket = dial(&request).await.unwrap();
    let asked = heard.lock().unwrap().clone();
    assert!(asked.starts_with("/v1/realtime ") && asked.contains("shelly-host/"), "{asked}");
    assert!(asked.contains("Bearer sk-secret"), "{asked}");
    assert_eq!(socket.rate_limits().requests.remaining, Some(9));
    for text in ["one", "ä two"] {
        socket.send(text).await.unwrap();
        assert_eq!(socket.receive().await.unwrap().unwrap(), format!("heard {text}"));
    }
    socket.send("end").await.unwrap();
    assert_eq!(socket.receive().await, Ok(None));
    assert_eq!(socket.receive().await, Ok(None), "and no error afterwards");
    assert!(matches!(socket.send("x").await, Err(Fault::Unavailable { .. })));
    task.await.unwrap();
}

#[tokio::test]
async fn websocket_answers_ping_and_notices_close() {
    for in_good_manners in [true, false] {
        let (request, _, task) = server(move |mut socket| async move {
            socket.send(Message::Ping("are you there".into())).await.unwrap();
            let pong = socket.next().await.unwrap().unwrap();
            assert_eq!(pong, Message::Pong("are you there".into()));
            socket.send(Message::text("good")).await.unwrap();
            let last = socket.next().await;
            assert_eq!(matches!(last, Some(Ok(Message::Close(_)))), in_good_manners, "{last:?}");
            assert!(matches!(socket.next().await, None | Some(Err(_))));
        })
        .await;
        let mut socket = dial(&request).await.unwrap();
        assert_eq!(socket.receive().await.unwrap().unwrap(), "good");
        if in_good_manners {
            socket.close().await
        } else {
            drop(socket)
        }
        timeout(limits::CONNECT_TIME, task).await.expect("the connection is still open").unwrap();
    }
}

#[tokio::test]
async fn websocket_close_code_determines_fault() {
    let kind = |fault: &Fault| serde_json::to_value(fault).unwrap()["kind"].as_str().unwrap().to_owned();
    for (code, expected) in [
        (1000, None),
        (1001, Some("unavailable")),
        (1002, Some("invalid")),
        (1008, Some("denied")),
        (1009, Some("too_large")),
        (1011, Some("unavailable")),
        (1013, Some("unavailable")),
        (3000, Some("denied")),
        (4321, Some("other")),
    ] {
        let (request, ..) = server(move |mut socket| async move {
            let reason = "no luck with sk-secret".into();
            socket.close(Some(CloseFrame { code: CloseCode::from(code), reason })).await.unwrap();
            while let Some(Ok(_)) = socket.next().await {}
        })
        .await;
        let found = received(&request).await;
        assert_eq!(found.as_ref().err().map(kind).as_deref(), expected, "{code}: {found:?}");
        if let Err(fault) = found {
            assert!(fault.to_string().ends_with(&format!("with {code}: no luck with ***")), "{fault}");
        }
    }
}

#[tokio::test]
async fn a_message_is_bounded_both_ways() {
    const MOST: usize = limits::WEBSOCKET_MESSAGE_BYTES;
    for (length, fits) in [(MOST, true), (MOST + 1, false)] {
        let (request, ..) = server(move |mut socket| async move {
            // The client may have disconnected already.
            let _ = socket.send(Message::text("x".repeat(length))).await;
            while let Some(Ok(_)) = socket.next().await {}
        })
        .await;
        let found = received(&request).await.map(|text| text.unwrap().len());
        assert_eq!(found.is_ok_and(|found| found == length), fits, "{length}");
    }
    // Also in fragments, each of which would fit.
    let (request, ..) = server(|mut socket| async move {
        use tungstenite::protocol::frame::{
            Frame,
            coding::{Data, OpCode},
        };
        for kind in [Data::Text, Data::Continue, Data::Continue] {
            let piece = Frame::message("x".repeat(MOST / 2), OpCode::Data(kind), false);
            let _ = socket.send(Message::Frame(piece)).await;
        }
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let mut socket = dial(&request).await.unwrap();
    let fault = socket.send("x".repeat(MOST + 1)).await.unwrap_err();
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
    let fault = socket.receive().await.unwrap_err();
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
}

#[tokio::test]
async fn websocket_silence_and_cut_are_faults() {
    let short = Duration::from_millis(20);
    let silent = || server(|mut socket| async move { while let Some(Ok(_)) = socket.next().await {} });
    let (request, ..) = silent().await;
    let fault = received(&HttpRequest { idle: short, ..request }).await.unwrap_err();
    assert!(matches!(fault, Fault::Unavailable { .. }) && fault.to_string().contains("fell silent"), "{fault:?}");
    let (request, ..) = silent().await;
    let fault = received(&HttpRequest { total: limits::FIRST_RETRY_PAUSE, ..request }).await.unwrap_err();
    assert!(matches!(fault, Fault::Timeout { .. }), "{fault:?}");
    let (request, ..) = server(|socket| async move { drop(socket) }).await;
    let fault = received(&request).await.unwrap_err();
    assert!(matches!(fault, Fault::Unavailable { .. }) && fault.to_string().contains("cut"), "{fault:?}");
    let (request, ..) = server(|mut socket| async move {
        let _ = socket.send(Message::binary(vec![0xff])).await;
    })
    .await;
    let fault = received(&request).await.unwrap_err();
    assert!(fault.to_string().ends_with(" sent bytes that are no text"), "{fault}");
}

#[tokio::test]
async fn response_without_upgrade_is_a_fault() {
    let server = TestServer::start(vec![
        answer("200 OK", "", "hello"),
        answer(
            "101 Switching Protocols",
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: x\r\n",
            "",
        ),
        answer("401 No", "", r#"{"error":"sk-secret is bad"}"#),
        answer("503 Busy", "", ""),
        answer("429 Slow", "retry-after: 61\r\n", ""),
    ])
    .await;
    let url = endpoint(&server.url, &["v1"]).unwrap();
    let retries = Retries { first_pause: Duration::ZERO, ..Retries::DEFAULT };
    let request =
        HttpRequest { auth: Some(AuthHeader::bearer(Secret::new("sk-secret"))), retries, ..HttpRequest::new(url) };
    for expected in [
        " answered 200 and opened no WebSocket",
        " answered 101 and opened no WebSocket",
        " answered 401 Unauthorized: *** is bad",
        // After the previous response, which is transient.
        " answered 429 Too Many Requests",
    ] {
        let fault = dial(&request).await.unwrap_err();
        assert!(fault.to_string().ends_with(expected), "{fault}");
    }
    assert_eq!(server.requests().len(), 5);
    let sent = server.requests()[0].to_lowercase();
    for line in ["connection: upgrade\r\n", "upgrade: websocket\r\n", "sec-websocket-version: 13\r\n"] {
        assert!(sent.contains(line), "{sent}");
    }
}

#[tokio::test]
async fn https_begins_with_tls_and_offers_no_http_2() {
    for scheme in ["https", "wss"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}/v1", listener.local_addr().unwrap()).parse().unwrap();
        let task = tokio::spawn(async move {
            let mut hello = vec![0; 4_096];
            let length = listener.accept().await.unwrap().0.read(&mut hello).await.unwrap();
            hello.truncate(length);
            hello
        });
        let client = HttpClient { no_roots: None, ..HttpClient::new().unwrap() };
        let fault = client.dial(&HttpRequest { retries: Retries::NONE, ..HttpRequest::new(url) }).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
        let hello = task.await.unwrap();
        // A handshake record; it offers only one protocol.
        assert_eq!(hello[..2], [0x16, 0x03], "{scheme}");
        let has = |word: &[u8]| hello.windows(word.len()).any(|part| part == word);
        assert!(has(b"\x08http/1.1") && !has(b"\x02h2"), "{scheme}");
    }
}
