//! Traces that go over several programs: a request names the span to which it belongs.

use std::collections::HashSet;

use opentelemetry_proto::tonic::trace::v1::Span;

use super::*;
use crate::telemetry::{TestCollector, text};

/// The settings of telemetry of a service, with these further keys.
fn telemetry(collector: &TestCollector, service: &str, more: &str) -> String {
    format!("telemetry: {{service: {service}, {more}otlp: {{endpoint: '{}'}}}}\n", collector.url)
}

/// Returns the spans of this name, with the names of their services.
fn named(collector: &TestCollector, service: &str, name: &str) -> Vec<Span> {
    let all = collector.spans().into_iter().filter(|(_, resource)| text(resource, "service.name") == service);
    all.map(|(span, _)| span).filter(|span| span.name == name).collect()
}

/// Runs a task on one host, whose agent gives it to an agent of another one by A2A, which gives it to an agent of a third
/// one by MCP. Returns the collector that all three export to. `keys` returns further keys of telemetry for the origin of the
/// next host.
fn over_three_hosts(keys: impl Fn(&str) -> String) -> TestCollector {
    let collector = TestCollector::start();
    let origin = |served: &HttpServed| keys(&format!("http://{}", served.address));
    let third = Place::new();
    let model = ModelServer::start(|_| says("Four."));
    third.file("shelly.yaml", telemetry(&collector, "third", "") + &model.config(""));
    let third_served = HttpServed::start(&third, &["--mcp", "--no-token"]);
    let second = Place::new();
    let model = ModelServer::start(|asked| match asked.contains("\"tool\"") {
        false => calls("far__agent_helper", &json!({"task": "What is two and two?"})),
        true => says("Four."),
    });
    let servers = format!("mcp_servers: [{{name: far, url: 'http://{}/mcp'}}]\n", third_served.address);
    let config = telemetry(&collector, "second", &origin(&third_served)) + &servers + &model.config("toolboxes: [far]");
    second.file("shelly.yaml", config);
    let second_served = HttpServed::start(&second, &["--a2a", "--no-token", "--trust", "--approve", "all"]);
    let lead = ModelServer::start(|asked| match asked.contains("Four.") {
        false => calls("researcher", &json!({"task": "What is two and two?"})),
        true => says("It is four."),
    });
    let first = Place::new();
    let url = format!("http://127.0.0.1:{}/v1", lead.port);
    let card = format!("http://{}/.well-known/agent-card.json", second_served.address);
    let config = format!(
        "providers: [{{name: local, kind: openai, base_url: \"{url}\", model: m, context_window: 32768, retries: 0}}]\n\
         agents:\n  - {{name: lead, agent_tools: [researcher]}}\n  \
         - {{name: researcher, description: Reads., remote: {{card: '{card}'}}}}\n"
    );
    first.file("shelly.yaml", telemetry(&collector, "first", &origin(&second_served)) + &config);
    let ran = first.run(&["run", "--config", "shelly.yaml", "Add two and two."]);
    assert!(ran.code == 0 && ran.stdout.contains("It is four."), "{}", ran.shown());
    // A server exports what is left when it ends.
    for served in [second_served, third_served] {
        let (code, said) = served.terminate();
        assert!(!said.contains("telemetry is incomplete"), "{code}: {said}");
    }
    collector
}

#[test]
fn one_trace_goes_over_hosts_and_servers() {
    let collector = over_three_hosts(|origin| format!("propagate: ['{origin}'], "));
    let only = |service: &str, name: &str| {
        let mut spans = named(&collector, service, name);
        assert_eq!(spans.len(), 1, "{service} {name}");
        spans.remove(0)
    };
    let root = only("first", "invoke_agent lead");
    assert!(root.parent_span_id.is_empty());
    assert!(collector.spans().iter().all(|(span, _)| span.trace_id == root.trace_id), "one trace");
    // The request to the remote agent is a step of its run here, and the call of the tool one of the run there.
    let (asks, second) = (only("first", "chat a2a:researcher"), only("second", "invoke_agent helper"));
    assert_eq!(second.parent_span_id, asks.span_id);
    let (calls, third) = (only("second", "execute_tool far__agent_helper"), only("third", "invoke_agent helper"));
    assert_eq!(third.parent_span_id, calls.span_id);
    let ids: HashSet<_> = collector.spans().into_iter().map(|(span, _)| span.span_id).collect();
    assert_eq!(ids.len(), collector.spans().len(), "each span has an id of its own");
}

#[test]
fn destination_that_is_not_listed_is_told_no_span() {
    let collector = over_three_hosts(|_| String::new());
    let traces: HashSet<_> = collector.spans().into_iter().map(|(span, _)| span.trace_id).collect();
    assert_eq!(traces.len(), 3, "each host has a trace of its own");
}

#[test]
fn served_run_belongs_to_the_span_of_its_request() {
    let (place, collector) = (Place::new(), TestCollector::start());
    let model = ModelServer::start(|_| says("Four."));
    place.file("shelly.yaml", telemetry(&collector, "served", "") + &model.config(""));
    let served = HttpServed::start(&place, &[]);
    let header = |trace: &str| format!("traceparent: 00-{}-00f067aa0ba902b7-01\r\n", trace.repeat(16));
    let started = served.post_with("/api/v1/runs", &header("a1"), &json!({"task": "hi"}));
    assert_eq!(started.status, 201, "{started:?}");
    served.ended(started.json()["run"].as_str().unwrap());
    let body = json!({"model": "helper", "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(served.post_with("/v1/chat/completions", &header("b2"), &body).status, 200);
    let body = json!({"model": "helper", "input": "hi", "store": false});
    assert_eq!(served.post_with("/v1/responses", &header("c3"), &body).status, 200);
    // One that is no traceparent is none.
    let started = served.post_with("/api/v1/runs", "traceparent: 00-zz-1-01\r\n", &json!({"task": "hi"}));
    assert_eq!(started.status, 201, "{started:?}");
    served.ended(started.json()["run"].as_str().unwrap());
    served.terminate();
    let runs = named(&collector, "served", "invoke_agent helper");
    assert_eq!(runs.len(), 4);
    for trace in [0xa1, 0xb2, 0xc3] {
        let run = runs.iter().find(|run| run.trace_id == [trace; 16]).unwrap();
        assert_eq!(run.parent_span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
    }
    assert_eq!(runs.iter().filter(|run| run.parent_span_id.is_empty()).count(), 1);
}
