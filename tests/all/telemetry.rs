//! Telemetry of whole runs, as a collector receives it over OTLP/HTTP.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
        trace::v1::ExportTraceServiceRequest,
    },
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::Metric,
    trace::v1::Span,
};
use prost::Message;

use crate::{
    bad_input::Server,
    support::{Place, Ran},
    wiring::scripted,
};

/// A collector on loopback. It accepts everything.
pub struct TestCollector {
    pub url: String,
    received: Arc<Mutex<Vec<ReceivedExport>>>,
}

/// One request of an exporter.
#[derive(Clone)]
struct ReceivedExport {
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl TestCollector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<Mutex<Vec<ReceivedExport>>>::default();
        let collector = Self { url, received: Arc::clone(&received) };
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let received = Arc::clone(&received);
                thread::spawn(move || {
                    let export = read_export(&mut connection);
                    received.lock().unwrap().extend(export);
                    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                    let _ = connection.write_all(answer.as_bytes());
                });
            }
        });
        collector
    }

    fn received(&self, path: &str) -> Vec<ReceivedExport> {
        self.received.lock().unwrap().iter().filter(|export| export.path == path).cloned().collect()
    }

    /// Returns all spans, each with the attributes of its resource.
    pub fn spans(&self) -> Vec<(Span, Vec<KeyValue>)> {
        let decode = |export: &ReceivedExport| {
            let request: ExportTraceServiceRequest = export.decode();
            request.resource_spans.into_iter().flat_map(|of_resource| {
                let resource = of_resource.resource.unwrap().attributes;
                let spans = of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans);
                spans.map(|span| (span, resource.clone())).collect::<Vec<_>>()
            })
        };
        self.received("/v1/traces").iter().flat_map(decode).collect()
    }

    fn metrics(&self) -> Vec<Metric> {
        let decode = |export: &ReceivedExport| {
            let request: ExportMetricsServiceRequest = export.decode();
            let of_scopes = request.resource_metrics.into_iter().flat_map(|of_resource| of_resource.scope_metrics);
            of_scopes.flat_map(|of_scope| of_scope.metrics)
        };
        self.received("/v1/metrics").iter().flat_map(decode).collect()
    }

    /// Returns the texts of all log records.
    fn logs(&self) -> Vec<String> {
        let decode = |export: &ReceivedExport| {
            let request: ExportLogsServiceRequest = export.decode();
            let of_scopes = request.resource_logs.into_iter().flat_map(|of_resource| of_resource.scope_logs);
            of_scopes.flat_map(|of_scope| of_scope.log_records).map(|record| format!("{:?}", record.body))
        };
        self.received("/v1/logs").iter().flat_map(decode).collect()
    }
}

impl ReceivedExport {
    /// Returns the message in the encoding that the request names.
    fn decode<T: Message + Default + serde::de::DeserializeOwned>(&self) -> T {
        match self.headers["content-type"].as_str() {
            "application/x-protobuf" => T::decode(&*self.body).unwrap(),
            "application/json" => serde_json::from_slice(&self.body).unwrap(),
            other => panic!("{other}"),
        }
    }
}

/// Reads a request; its body may be any bytes.
fn read_export(connection: &mut TcpStream) -> Option<ReceivedExport> {
    let (mut bytes, mut chunk) = (Vec::<u8>::new(), [0_u8; 4_096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut lines = head.lines();
            let path = lines.next()?.split(' ').nth(1)?.to_owned();
            let headers: HashMap<_, _> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length: usize = headers.get("content-length")?.parse().ok()?;
            let body = &bytes[end + 4..];
            if body.len() >= length {
                return Some(ReceivedExport { path, headers, body: body.to_vec() });
            }
        }
        match connection.read(&mut chunk) {
            Ok(read @ 1..) => bytes.extend(&chunk[..read]),
            _ => return None,
        }
    }
}

/// Returns a config with an agent that delegates to another one. `top` stands above it.
fn config(server: &Server, top: &str) -> String {
    format!(
        "{top}\nproviders: [{{name: m, kind: openai, base_url: 'http://127.0.0.1:{}/v1', model: one, \
         price: {{input: 1, output: 2}}}}]\n\
         agents: [{{name: lead, options: {{max_delegation_depth: 1}}}}, {{name: bob, description: hums}}]\n",
        server.port
    )
}

/// Runs a task, which one agent delegates to another.
fn delegating_run(place: &Place, top: &str, task: &str, variables: &[(&str, &str)]) -> Ran {
    let model = scripted(&[("delegate", r#"{"tasks":[{"agent":"bob","task":"whistle","context":"none"}]}"#)]);
    place.file("shelly.yaml", config(&model, top));
    let mut command = place.command(&["run", task, "--session", "birds"]);
    place.ran(command.envs(variables.iter().copied()).output().unwrap())
}

fn is_fine(ran: &Ran) {
    assert!(ran.code == 0 && ran.stdout.contains("done"), "{}", ran.shown());
}

fn value(attributes: &[KeyValue], key: &str) -> Option<Value> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value
}

/// Returns the text of an attribute.
pub fn text(attributes: &[KeyValue], key: &str) -> String {
    match value(attributes, key) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{key} is {other:?}"),
    }
}

#[test]
fn delegating_run_is_exported_as_one_tree() {
    let (place, collector) = (Place::new(), TestCollector::start());
    let top = format!(
        "telemetry: {{service: birds, otlp: {{endpoint: '{}', headers: {{x-key: '${{OTLP_KEY}}'}}, timeout: 5s}}}}",
        collector.url
    );
    let ran = delegating_run(&place, &top, "hum a tune", &[("OTLP_KEY", "k-12345678")]);
    is_fine(&ran);
    assert!(!ran.stderr.contains("telemetry is incomplete"), "{}", ran.shown());
    let spans = collector.spans();
    let named = |name: &str| {
        let names: Vec<_> = spans.iter().map(|(span, _)| &span.name).collect();
        &spans.iter().find(|(span, _)| span.name == name).unwrap_or_else(|| panic!("no `{name}`: {names:?}")).0
    };
    let (lead, call, bob) = (named("invoke_agent lead"), named("execute_tool delegate"), named("invoke_agent bob"));
    assert!(lead.parent_span_id.is_empty());
    assert_eq!((&call.parent_span_id, &bob.parent_span_id), (&lead.span_id, &call.span_id));
    assert!(spans.iter().all(|(span, _)| span.trace_id == lead.trace_id), "one trace");
    let chats: Vec<_> = spans.iter().map(|(span, _)| span).filter(|span| span.name == "chat one").collect();
    let below = |parent: &Span| chats.iter().filter(|chat| chat.parent_span_id == parent.span_id).count();
    assert_eq!((below(lead), below(bob), chats.len()), (2, 1, 3));
    let chat = &chats[0].attributes;
    for (key, expected) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "one"),
        ("gen_ai.conversation.id", "birds"),
    ] {
        assert_eq!(text(chat, key), expected, "{key}");
    }
    assert_eq!(value(chat, "gen_ai.usage.input_tokens"), Some(Value::IntValue(30_000)));
    assert_eq!(value(chat, "gen_ai.usage.output_tokens"), Some(Value::IntValue(10)));
    assert!(matches!(value(chat, "shelly.cost.usd"), Some(Value::DoubleValue(cost)) if (cost - 0.030_02).abs() < 1e-9));
    assert!(spans.iter().all(|(span, _)| span.start_time_unix_nano <= span.end_time_unix_nano));
    assert_eq!(text(&spans[0].1, "service.name"), "birds");
    let export = &collector.received("/v1/traces")[0];
    assert_eq!(export.headers["content-type"], "application/x-protobuf");
    assert_eq!(export.headers["x-key"], "k-12345678");
    let metrics = collector.metrics();
    for name in ["gen_ai.client.token.usage", "gen_ai.client.operation.duration", "shelly.cost"] {
        assert!(metrics.iter().any(|metric| metric.name == name), "{name}");
    }
}

#[test]
fn content_is_exported_redacted_and_only_if_asked_for() {
    let key = [("OPENAI_API_KEY", "sk-12345678")];
    for content in [false, true] {
        let (place, collector) = (Place::new(), TestCollector::start());
        let top =
            format!("telemetry: {{content: {content}, otlp: {{endpoint: '{}', protocol: http/json}}}}", collector.url);
        let ran = delegating_run(&place, &top, "sing: my key is sk-12345678", &key);
        is_fine(&ran);
        let all = format!("{:?} {:?} {:?}", collector.spans(), collector.metrics(), collector.logs());
        assert!(!all.contains("sk-12345678"), "{content}");
        for part in ["sing: my key is [secret OPENAI_API_KEY]", "gen_ai.tool.call.arguments", "whistle"] {
            assert_eq!(all.contains(part), content, "{part}");
        }
        assert_eq!(collector.received("/v1/traces")[0].headers["content-type"], "application/json");
    }
}

#[test]
fn unreachable_collector_does_not_affect_the_run() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = Place::new();
    let ran = delegating_run(&place, &format!("telemetry: {{otlp: {{endpoint: 'http://{address}'}}}}"), "hum", &[]);
    is_fine(&ran);
    assert_eq!(ran.stderr.matches("telemetry is incomplete: not exported: ").count(), 1, "{}", ran.shown());
    assert!(ran.stderr.contains(" spans, ") && ran.stderr.contains("the last metrics"), "{}", ran.shown());
}

#[test]
fn environment_turns_telemetry_on_and_off() {
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let (place, collector) = (Place::new(), TestCollector::start());
    let of = |more: &[(&'static str, &'static str)]| {
        let mut variables = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()), ("TRACEPARENT", traceparent)];
        variables.extend(more);
        is_fine(&delegating_run(&place, "", "hum", &variables));
        let _ = std::fs::remove_dir_all(place.path().join(".shelly"));
        std::mem::take(&mut *collector.received.lock().unwrap()).len()
    };
    for (variables, is_on) in [
        (&[("OTEL_SDK_DISABLED", "true")][..], false),
        (&[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")], false),
        (&[("OTEL_METRICS_EXPORTER", "none")], true),
    ] {
        assert_eq!(of(variables) > 0, is_on, "{variables:?}");
    }
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()),
        ("OTEL_SERVICE_NAME", "named"),
        ("TRACEPARENT", traceparent),
    ];
    is_fine(&delegating_run(&place, "", "hum", &variables));
    let spans = collector.spans();
    let (lead, resource) = spans.iter().find(|(span, _)| span.name == "invoke_agent lead").unwrap();
    assert_eq!(hex(&lead.trace_id) + &hex(&lead.parent_span_id), "4bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b7");
    assert_eq!(text(resource, "service.name"), "named");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn collector_of_a_project_needs_consent() {
    let (place, collector) = (Place::untrusted(), TestCollector::start());
    let top = format!("telemetry: {{content: true, otlp: {{endpoint: '{}'}}}}", collector.url);
    let ran = delegating_run(&place, &top, "hum", &[]);
    assert_ne!(ran.code, 0, "{}", ran.shown());
    assert!(ran.stderr.contains("the collector of telemetry is at"), "{}", ran.shown());
    assert!(ran.stderr.contains("and their messages, arguments and results"), "{}", ran.shown());
    assert!(collector.received.lock().unwrap().is_empty(), "nothing is sent before");
}

#[test]
fn missing_variable_of_a_collector_is_a_warning() {
    let place = Place::new();
    let top = "telemetry: {otlp: {endpoint: 'http://127.0.0.1:1', headers: {x-key: '${OTLP_KEY}'}}}";
    let ran = delegating_run(&place, top, "hum", &[]);
    is_fine(&ran);
    let says = "telemetry: nothing is exported: the environment variable OTLP_KEY is not set";
    assert!(ran.stderr.contains(says), "{}", ran.shown());
    let checked = place.run(&["config", "check"]);
    assert!(checked.stderr.contains(says) || checked.stdout.contains(says), "{}", checked.shown());
}

#[test]
fn bad_collector_is_reported_once() {
    let place = Place::new();
    place.file("shelly.yaml", "telemetry: {otlp: {endpoint: 'localhost:4318'}}\nagents: [{name: ada}]\n");
    let checked = place.run(&["config", "check"]);
    assert_ne!(checked.code, 0, "{}", checked.shown());
    let all = format!("{}{}", checked.stdout, checked.stderr);
    assert_eq!(all.matches("telemetry.otlp.endpoint").count(), 1, "{}", checked.shown());
}
