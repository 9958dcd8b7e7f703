//! Calls that name the span of their step to the server.

use super::{
    web::{Web, legacy, result},
    *,
};
use shelly_core::event::{EventSink, PropagatedSpan, RunSpans, SpanDestination};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Tells the server `test` and servers on this machine of one span.
#[derive(Debug)]
struct OneSpan;

impl RunSpans for OneSpan {
    fn span_for(&self, run: &str, call: Option<&str>, destination: SpanDestination<'_>) -> Option<PropagatedSpan> {
        assert_eq!((run, call), ("r", Some("c1")));
        let is_told = match destination {
            SpanDestination::McpProgram(name) => name == "test",
            SpanDestination::Server(url) => url.host_str() == Some("127.0.0.1"),
            SpanDestination::Worker => false,
        };
        if is_told { PropagatedSpan::parse(Some(PARENT), Some("a=1")) } else { None }
    }
}

/// Returns the context of a run with a span.
fn with_spans() -> RunCx {
    let events = EventSink::new();
    events.set_spans(Arc::new(OneSpan));
    RunCx::new("ada").with_events(events.of_run("r".into(), None))
}

#[tokio::test]
async fn call_over_pipes_names_its_span_in_metadata() {
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[tool("t")]).await;
        loop {
            let call = peer.next_of("tools/call").await;
            let meta = &call["params"]["_meta"];
            peer.answer(&call, text(&json!([meta["traceparent"], meta["tracestate"]]).to_string())).await;
        }
    });
    let tools = toolbox(&connect(&servers).await.unwrap());
    let told = call(&tools, &with_spans(), "test__t", &json!({})).await;
    assert_eq!(told.text(), json!([PARENT, "a=1"]).to_string());
    let untold = call(&tools, &RunCx::new("ada"), "test__t", &json!({})).await;
    assert_eq!(untold.text(), "[null,null]", "a run without spans");
}

#[tokio::test]
async fn call_over_http_names_its_span_in_headers_too() {
    let web = Web::start(|came, _| match came.is("tools/call") {
        true => result(came, "", text("done")),
        false => legacy(came),
    })
    .await;
    let client = McpClient::connect(web.config(), McpClientFeatures::default()).await.unwrap();
    call(&toolbox(&client), &with_spans(), "web__t", &json!({})).await;
    let came = web.came();
    let of_call = came.iter().find(|came| came.is("tools/call")).unwrap();
    assert!(of_call.head.contains(&format!("\r\ntraceparent: {PARENT}\r\n")), "{}", of_call.head);
    assert!(of_call.head.contains("\r\ntracestate: a=1\r\n"), "{}", of_call.head);
    assert_eq!(of_call.json["params"]["_meta"]["traceparent"], PARENT);
    assert!(came.iter().filter(|came| !came.is("tools/call")).all(|came| !came.head.contains("traceparent")));
}
