use futures_util::stream;
use http_body_util::StreamBody;

use super::*;

const SOON: Duration = Duration::from_millis(50);

fn begin(url: &str) -> EgressUpload {
    egress(&[url]).begin(post(url, "")).unwrap()
}

/// A server that echoes the body of a request, once it contains `end`.
async fn echo(end: &'static str) -> String {
    let (url, _task) = serve(move |mut connection| async move {
        let heard = until(&mut connection, end).await;
        let heard = heard.split_once("\r\n\r\n").unwrap().1;
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{heard}", heard.len());
        connection.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    url
}

#[tokio::test]
async fn pieces_go_out_as_they_are_written() {
    let url = echo("0\r\n\r\n").await;
    let mut upload = begin(&url);
    for piece in ["one", "", "two"] {
        upload.write(piece.into()).await.unwrap();
    }
    let response = upload.finish().await.unwrap();
    assert_eq!((response.status, response.facts.method.as_str()), (200, "POST"));
    assert_eq!(whole(response.body).await.unwrap(), "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
}

#[tokio::test]
async fn an_upload_that_is_not_granted_does_not_begin() {
    let egress = egress(&["https://a.example"]);
    let failure = egress.begin(post("https://b.example", "")).unwrap_err();
    assert!(matches!(failure.fault, Fault::Denied { .. }), "{failure:?}");
    assert_eq!(failure.facts.url, "https://b.example/");
}

#[tokio::test]
async fn dropped_upload_aborts_request() {
    let (url, task) = serve(|mut connection| async move {
        let heard = until(&mut connection, "never").await;
        assert!(heard.contains("\r\n\r\n3\r\none\r\n") && !heard.contains("0\r\n\r\n"), "{heard:?}");
    })
    .await;
    let mut upload = begin(&url);
    upload.write("one".into()).await.unwrap();
    // The third piece has to wait until the first is on its way.
    upload.write("two".into()).await.unwrap();
    upload.write("three".into()).await.unwrap();
    drop(upload);
    tokio::time::timeout(limits::CONNECT_TIME, task).await.expect("the connection is still open").unwrap();
}

#[tokio::test]
async fn body_error_aborts_request() {
    let (url, task) = serve(|mut connection| async move {
        let heard = until(&mut connection, "never").await;
        assert!(!heard.contains("0\r\n\r\n"), "{heard:?}");
    })
    .await;
    let pieces = [Ok(http_body::Frame::data(Bytes::from("one"))), Err(std::io::Error::other("no more"))];
    let body = EgressRequestBody::stream(StreamBody::new(stream::iter(pieces)), None);
    let fault = egress(&[&url]).send(EgressRequest { body, ..post(&url, "") }).await.unwrap_err().fault;
    assert!(fault.to_string().contains("ended early: no more"), "{fault:?}");
    task.await.unwrap();
}

#[tokio::test]
async fn a_body_has_the_length_that_it_says() {
    let body = |length| {
        let pieces = [Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from("four")))];
        EgressRequestBody::stream(StreamBody::new(stream::iter(pieces)), Some(length))
    };
    let (url, _task) = serve(|mut connection| async move {
        let heard = until(&mut connection, "four").await;
        assert!(heard.contains("content-length: 4\r\n") && !heard.contains("transfer-encoding"), "{heard}");
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine").await.unwrap();
    })
    .await;
    assert_eq!(text(&egress(&[&url]), EgressRequest { body: body(4), ..post(&url, "") }).await.unwrap(), "fine");
    for (length, why) in [(3, "more bytes than announced"), (5, "fewer bytes than announced")] {
        let (url, _task) = serve(|mut connection| async move {
            until(&mut connection, "never").await;
        })
        .await;
        let fault =
            egress(&[&url]).send(EgressRequest { body: body(length), ..post(&url, "") }).await.unwrap_err().fault;
        assert!(matches!(&fault, Fault::Invalid { message } if message.contains(why)), "{fault:?}");
    }
}

#[tokio::test]
async fn request_body_is_limited() {
    let bounded = |url: &str| {
        Egress::new(granted(&[url]), Vec::new(), EgressLimits { request_bytes: 4, ..EgressLimits::default() })
    };
    let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
    assert_eq!(text(&bounded(&server.url), post(&server.url, "four")).await.unwrap(), "fine");
    let fault = bounded(&server.url).send(post(&server.url, "fives")).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
    let body = EgressRequestBody::stream(http_body_util::Empty::new(), Some(5));
    let fault = bounded(&server.url).send(EgressRequest { body, ..post(&server.url, "") }).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
    assert_eq!(server.requests().len(), 1);

    let url = echo("never").await;
    let mut upload = bounded(&url).begin(post(&url, "")).unwrap();
    let fault = loop {
        if let Err(fault) = upload.write("two".into()).await {
            break fault;
        }
    };
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
    let failure = upload.finish().await.unwrap_err();
    assert_eq!(failure.fault, fault);
}

#[tokio::test]
async fn upload_write_waits_for_network() {
    // The kernel's buffers for both ends of a connection, and a margin.
    const MOST: usize = 24 << 20;
    let (goes_on, may_go_on) = tokio::sync::oneshot::channel();
    let (url, task) = serve(|mut connection| async move {
        until(&mut connection, "\r\n\r\n").await;
        may_go_on.await.unwrap();
        while connection.read_buf(&mut Vec::with_capacity(1 << 20)).await.is_ok_and(|read| read > 0) {}
    })
    .await;
    let bound = EgressLimits { request_bytes: 1 << 30, ..EgressLimits::default() };
    let mut upload = Egress::new(granted(&[&url]), Vec::new(), bound).begin(post(&url, "")).unwrap();
    let block = Bytes::from(vec![b'x'; 256 << 10]);
    let mut sent = 0;
    while tokio::time::timeout(SOON, upload.write(block.clone())).await.map(Result::unwrap).is_ok() {
        sent += block.len();
        assert!(sent < MOST, "{sent} bytes were taken with nobody to read them");
    }
    goes_on.send(()).unwrap();
    for _ in 0..200 {
        upload.write(block.clone()).await.unwrap();
    }
    drop(upload);
    task.await.unwrap();
}

#[tokio::test]
async fn a_server_may_answer_before_it_has_heard_all() {
    let (url, task) = serve(|mut connection| async move {
        until(&mut connection, "\r\n\r\n").await;
        connection.write_all(b"HTTP/1.1 413 Enough\r\ncontent-length: 9\r\n\r\ntoo ").await.unwrap();
        // The rest of the response is sent only if the rest of the request does not arrive.
        let heard = tokio::time::timeout(SOON, until(&mut connection, "0\r\n\r\n")).await;
        assert!(heard.is_err(), "an upload without its end was ended: {heard:?}");
        connection.write_all(b"large").await.unwrap();
        assert!(!until(&mut connection, "never").await.contains("0\r\n\r\n"));
    })
    .await;
    let mut upload = begin(&url);
    let fault = loop {
        if let Err(fault) = upload.write("x".repeat(1_000).into()).await {
            break fault;
        }
        tokio::task::yield_now().await;
    };
    assert!(matches!(&fault, Fault::Other { message } if message.contains("finish the upload")), "{fault:?}");
    assert_eq!(upload.write("more".into()).await, Err(fault));
    let response = upload.finish().await.unwrap();
    assert_eq!(response.status, 413);
    assert_eq!(whole(response.body).await.unwrap(), "too large");
    task.await.unwrap();
}

#[tokio::test]
async fn server_disconnect_ends_upload() {
    let (url, _task) = serve(|mut connection| async move {
        until(&mut connection, "\r\n\r\n").await;
    })
    .await;
    let mut upload = begin(&url);
    let fault = loop {
        if let Err(fault) = upload.write("x".repeat(100_000).into()).await {
            break fault;
        }
    };
    assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
    assert_eq!(upload.finish().await.unwrap_err().fault, fault);
}

#[tokio::test]
async fn upload_is_limited_by_request_time() {
    let (url, _task) = serve(|mut connection| async move {
        until(&mut connection, "never").await;
    })
    .await;
    let mut upload = egress(&[&url]).begin(EgressRequest { timeout: Some(SOON), ..post(&url, "") }).unwrap();
    upload.write("some".into()).await.unwrap();
    let fault = upload.finish().await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Timeout { .. }), "{fault:?}");
}

#[tokio::test]
async fn get_and_head_with_body_are_refused() {
    let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
    let egress = egress(&[&server.url]);
    let response = egress.begin(get(&server.url)).unwrap().finish().await.unwrap();
    assert_eq!(whole(response.body).await.unwrap(), "fine");
    assert!(!server.requests()[0].contains("transfer-encoding"), "{:?}", server.requests());

    let mut upload = egress.begin(get(&server.url)).unwrap();
    upload.write("some".into()).await.unwrap();
    let fault = upload.finish().await.unwrap_err().fault;
    assert!(matches!(fault, Fault::Invalid { .. }), "{fault:?}");
    assert_eq!(server.requests().len(), 1);
}
