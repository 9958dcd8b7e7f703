//! Requests that a responder answers in place of the network.

use std::sync::Mutex;

use super::*;
use shelly_core::event::{EventSink, PropagatedSpan, RunSpans, SpanDestination};

/// Answers every request with its own body, and redirects from `/away` to a host that is not granted.
#[derive(Debug, Default)]
struct EchoResponder(Mutex<Vec<ResponderRequest>>);

impl HttpResponder for EchoResponder {
    fn respond(&self, request: ResponderRequest) -> Result<ResponderReply, Fault> {
        let away = request.url.ends_with("/away");
        let (status, headers) = match away {
            true => (302, vec![("location".to_owned(), "https://other.example/".to_owned())]),
            false => (201, vec![("x-echo".to_owned(), request.method.clone())]),
        };
        let body = request.body.clone();
        self.0.lock().unwrap().push(request);
        Ok(ResponderReply { status, headers, body })
    }
}

fn answered(limits: EgressLimits) -> (Egress, Arc<EchoResponder>) {
    let responder = Arc::new(EchoResponder::default());
    let egress = Egress::answered_by(granted(&["https://api.example"]), Vec::new(), limits, responder.clone());
    (egress, responder)
}

#[tokio::test]
async fn responder_answers_requests_that_are_granted() {
    let (egress, responder) = answered(EgressLimits::default());
    let request = EgressRequest {
        headers: vec![("X-Mine".into(), b"1".to_vec())],
        ..post("https://api.example/a?b=c#fragment", "hello")
    };
    let response = egress.send(request).await.unwrap();
    assert_eq!((response.status, response.facts.status), (201, Some(201)));
    assert!(response.headers.contains(&("x-echo".into(), b"POST".to_vec())), "{:?}", response.headers);
    assert_eq!(whole(response.body).await.unwrap(), "hello");
    let seen = responder.0.lock().unwrap();
    assert_eq!((seen.len(), seen[0].url.as_str()), (1, "https://api.example/a?b=c"));
    assert!(seen[0].headers.contains(&("x-mine".into(), b"1".to_vec())), "{seen:?}");
}

#[tokio::test]
async fn responder_gets_no_request_that_is_not_granted() {
    let (egress, responder) = answered(EgressLimits::default());
    for url in ["https://other.example/", "http://api.example/", "http://127.0.0.1/"] {
        assert!(denied(&egress, get(url)).await.contains("is not granted"), "{url}");
    }
    assert_eq!(responder.0.lock().unwrap().len(), 0);
    assert!(denied(&egress, get("https://api.example/away")).await.contains("the target of a redirect"));
    assert_eq!(responder.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn bounds_hold_for_a_responder() {
    let (egress, responder) = answered(EgressLimits { request_bytes: 4, ..EgressLimits::default() });
    let url = "https://api.example/";
    assert_eq!(text(&egress, post(url, "four")).await.unwrap(), "four");
    let mut upload = egress.begin(post(url, "")).unwrap();
    upload.write("too long".into()).await.unwrap();
    let failure = upload.finish().await.unwrap_err();
    assert!(matches!(failure.fault, Fault::TooLarge { .. }), "{failure}");
    assert_eq!(responder.0.lock().unwrap().len(), 1);
    let (egress, _) = answered(EgressLimits { response_bytes: 4, ..EgressLimits::default() });
    assert!(matches!(text(&egress, post(url, "five!")).await, Err(Fault::TooLarge { .. })));
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Tells one origin of a span.
#[derive(Debug)]
struct SpanForOrigin(&'static str);

impl RunSpans for SpanForOrigin {
    fn span_for(&self, run: &str, call: Option<&str>, destination: SpanDestination<'_>) -> Option<PropagatedSpan> {
        assert_eq!((run, call), ("r", None));
        let SpanDestination::Server(url) = destination else { return None };
        let is_told = url.origin().ascii_serialization() == self.0;
        if is_told { PropagatedSpan::parse(Some(PARENT), Some("a=1")) } else { None }
    }
}

#[tokio::test]
async fn span_goes_only_to_servers_that_may_be_told() {
    let responder = Arc::new(EchoResponder::default());
    let urls = ["https://api.example", "https://other.example"];
    let egress = Egress::answered_by(granted(&urls), Vec::new(), EgressLimits::default(), responder.clone());
    let events = EventSink::new();
    events.set_spans(Arc::new(SpanForOrigin("https://api.example")));
    let span = events.of_run("r".into(), None).step_span();
    let of_step = |url: &str| EgressRequest { span: span.clone(), ..get(url) };
    let own = vec![("Traceparent".into(), b"of the plugin".to_vec())];
    for request in [
        of_step("https://api.example/away"),
        of_step("https://other.example/"),
        get("https://api.example/"),
        EgressRequest { headers: own, ..of_step("https://api.example/") },
    ] {
        egress.send(request).await.unwrap();
    }
    let seen = responder.0.lock().unwrap();
    let told: Vec<_> = seen
        .iter()
        .map(|request| {
            let traced = request.headers.iter().filter(|(name, _)| name.starts_with("trace"));
            traced.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
        })
        .collect();
    let none = Vec::<String>::new();
    let both = vec![PARENT.to_owned(), "a=1".to_owned()];
    // The first request is redirected to the other server, which is not told.
    assert_eq!(told, [both, none.clone(), none.clone(), none, vec!["of the plugin".to_owned()]]);
}
