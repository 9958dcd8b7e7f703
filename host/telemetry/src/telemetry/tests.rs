use std::{collections::HashMap, time::Duration};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use shelly_core::event::{LogLevel, PropagatedSpan, SpanDestination};
use shelly_net::Secret;
use shelly_test_support::{CannedResponse, TestServer, answer};
use url::Url;

use super::*;
use crate::{
    observed_run::ModelDirectory,
    otlp_target::{OtlpProtocol, OtlpTarget},
    span_propagation::SpanPropagation,
};

/// Returns telemetry whose three signals go to a server, in JSON.
fn telemetry(url: &str) -> Telemetry {
    let target = |path: &str| {
        Some(OtlpTarget {
            url: Url::parse(&format!("{url}/v1/{path}")).unwrap(),
            protocol: OtlpProtocol::HttpJson,
            headers: vec![("x-key".into(), Secret::new("sk-12345678"))],
            timeout: limits::TELEMETRY_EXPORT_TIME,
        })
    };
    let settings = TelemetrySettings {
        traces: target("traces"),
        metrics: target("metrics"),
        logs: target("logs"),
        resource: vec![("service.name".into(), "tests".into())],
        ..TelemetrySettings::default()
    };
    Telemetry::new(settings, HttpClient::new().unwrap())
}

fn observed() -> ObservedRun {
    let models = Arc::new(ModelDirectory::default());
    ObservedRun { conversation: None, models, redact: Arc::new(|text: &str| text.to_owned()) }
}

fn started() -> Event {
    Event::RunStarted {
        agent: "ada".into(),
        configured: "ada".into(),
        parent_agent: None,
        parent_call: None,
        depth: 0,
        prefix: "".into(),
        model: "m".into(),
        task: String::new(),
    }
}

fn finished() -> Event {
    Event::RunFinished {
        agent: "ada".into(),
        error: None,
        iterations: 1,
        usage: Default::default(),
        of_children: Default::default(),
        duration: Duration::from_secs(1),
    }
}

/// Emits the events of one short run with a log record.
fn run(telemetry: &Telemetry) {
    let events = EventSink::new();
    telemetry.observe(&events, observed());
    let events = events.of_run("r".into(), None);
    let log = Event::PluginLog {
        agent: "ada".into(),
        plugin: "files".into(),
        level: LogLevel::Info,
        message: "opened".into(),
    };
    [started(), log, finished()].into_iter().for_each(|event| events.emit_now(event));
}

/// Returns the bodies that a server got, by their paths.
fn bodies(server: &TestServer) -> HashMap<String, serde_json::Value> {
    let parse = |request: &String| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.to_lowercase().contains("content-type: application/json\r\n"), "{head}");
        assert!(head.to_lowercase().contains("x-key: sk-12345678\r\n"), "{head}");
        let path = head.split(' ').nth(1).unwrap().to_owned();
        (path, serde_json::from_str(body).unwrap())
    };
    server.requests().iter().map(parse).collect()
}

#[tokio::test]
async fn end_exports_all_that_was_recorded() {
    let server = TestServer::start((0..3).map(|_| answer("200 OK", "", "{}")).collect()).await;
    let telemetry = telemetry(&server.url);
    run(&telemetry);
    assert_eq!(telemetry.finish().await, TelemetryLosses::default());
    let bodies = bodies(&server);
    let traces = &bodies["/v1/traces"]["resourceSpans"][0];
    assert_eq!(traces["resource"]["attributes"][0]["value"]["stringValue"], "tests");
    let spans = &traces["scopeSpans"][0];
    assert_eq!(spans["schemaUrl"], "https://opentelemetry.io/schemas/1.41.0");
    assert_eq!(spans["spans"][0]["name"], "invoke_agent ada");
    assert_eq!(spans["spans"][0]["traceId"].as_str().map(str::len), Some(32));
    let logs = &bodies["/v1/logs"]["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
    assert_eq!(logs[0]["body"]["stringValue"], "opened");
    assert_eq!(logs[0]["traceId"], spans["spans"][0]["traceId"]);
    let metrics = &bodies["/v1/metrics"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    assert_eq!(metrics[0]["name"], "gen_ai.client.operation.duration");
    assert_eq!(telemetry.finish().await, TelemetryLosses::default(), "again");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn told_span_is_the_one_that_is_exported() {
    let server = TestServer::start(vec![answer("200 OK", "", "{}")]).await;
    let all = telemetry(&server.url);
    let settings = all.0.as_ref().map(|tasks| tasks.exporter.settings.clone()).unwrap();
    let settings = TelemetrySettings { metrics: None, logs: None, propagation: SpanPropagation::All, ..settings };
    let telemetry = Telemetry::new(settings, HttpClient::new().unwrap());
    let events = EventSink::new();
    let outer = PropagatedSpan::parse(Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), None).unwrap();
    events.set_outer_span(outer);
    telemetry.observe(&events, observed());
    let run = events.of_run("r".into(), None);
    let told = || run.step_span().unwrap().span_for(SpanDestination::McpProgram("files"));
    assert_eq!(told(), None, "no run has begun");
    run.emit_now(started());
    let of_run = told().unwrap().context.to_string();
    run.emit_now(Event::ModelStarted {
        agent: "ada".into(),
        iteration: 0,
        tokens: 1,
        parts: Default::default(),
        window: None,
    });
    let of_chat = told().unwrap().context.to_string();
    run.emit_now(finished());
    assert_eq!(told(), None, "the run is over");
    telemetry.finish().await;
    let bodies = bodies(&server);
    let spans = &bodies["/v1/traces"]["resourceSpans"][0]["scopeSpans"][0]["spans"];
    let named = |name: &str| {
        let all = spans.as_array().unwrap();
        let span = all.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no `{name}` in {spans}"));
        let text = |key: &str| span[key].as_str().unwrap().to_owned();
        (format!("00-{}-{}-01", text("traceId"), text("spanId")), text("parentSpanId"))
    };
    assert_eq!(named("invoke_agent ada"), (of_run.clone(), "00f067aa0ba902b7".into()));
    let (chat, parent) = named("chat m");
    assert!(chat == of_chat && of_run.contains(&parent), "{chat} {of_chat} {parent} {of_run}");
}

#[tokio::test]
async fn data_for_an_unreachable_endpoint_is_counted() {
    // Nobody listens at this port any more.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let telemetry = telemetry(&format!("http://{address}"));
    run(&telemetry);
    let losses = telemetry.finish().await;
    assert_eq!((losses.spans, losses.logs, losses.events, losses.has_lost_metrics), (1, 1, 0, true));
    let warning = losses.warning().unwrap();
    let start = "telemetry is incomplete: not exported: 1 span, 1 log record, the last metrics: ";
    assert!(warning.starts_with(start) && warning.contains("127.0.0.1"), "{warning}");
    assert!(!warning.contains("sk-12345678"), "{warning}");
    assert_eq!(TelemetryLosses::default().warning(), None);
}

#[tokio::test(start_paused = true)]
async fn silent_endpoint_delays_the_end_up_to_a_bound() {
    let silent = || CannedResponse { bytes: Vec::new(), stays: true };
    let server = TestServer::start((0..3).map(|_| silent()).collect()).await;
    let telemetry = telemetry(&server.url);
    run(&telemetry);
    let began = Instant::now();
    let losses = telemetry.finish().await;
    assert!(began.elapsed() <= limits::TELEMETRY_FLUSH_TIME + Duration::from_millis(10), "{:?}", began.elapsed());
    assert_eq!((losses.spans, losses.logs, losses.has_lost_metrics), (1, 1, true));
}

#[tokio::test]
async fn rejected_data_is_counted_with_the_reason() {
    let rejection = r#"{"partialSuccess":{"rejectedSpans":1,"errorMessage":"too old"}}"#;
    let server = TestServer::start(vec![answer("200 OK", "", rejection)]).await;
    let all = telemetry(&server.url);
    let settings = all.0.as_ref().map(|tasks| tasks.exporter.settings.clone()).unwrap();
    let settings = TelemetrySettings { metrics: None, logs: None, ..settings };
    let only_traces = Telemetry::new(settings, HttpClient::new().unwrap());
    run(&only_traces);
    let losses = only_traces.finish().await;
    assert_eq!((losses.spans, losses.logs, losses.has_lost_metrics), (1, 0, false));
    assert!(losses.warning().unwrap().ends_with("1 span: the collector rejected data: too old"), "{losses:?}");
}

#[tokio::test]
async fn missed_events_are_counted() {
    let server = TestServer::start((0..9).map(|_| answer("200 OK", "", "{}")).collect()).await;
    let telemetry = telemetry(&server.url);
    let events = EventSink::new();
    telemetry.observe(&events, observed());
    // The reader has no turn before all of them are there.
    for n in 0..limits::EVENT_QUEUE + 10 {
        events.emit_now(Event::Warning { message: n.to_string() });
    }
    drop(events);
    let losses = telemetry.finish().await;
    assert_eq!((losses.events, losses.logs), (10, 0));
    assert!(losses.warning().unwrap().contains("not exported: 10 events: the run was faster than the export"));
    let dropped = bodies(&server)["/v1/metrics"].to_string();
    assert!(dropped.contains("shelly.telemetry.dropped"), "{dropped}");
}

#[tokio::test]
async fn telemetry_that_is_off_watches_nothing() {
    let telemetry = Telemetry::new(TelemetrySettings::default(), HttpClient::new().unwrap());
    let events = EventSink::new();
    telemetry.observe(&events, observed());
    assert!(!events.is_watched() && !telemetry.is_on());
    assert_eq!(telemetry.finish().await, TelemetryLosses::default());
}

#[tokio::test]
async fn tasks_end_with_the_last_handle() {
    let server = TestServer::start(Vec::new()).await;
    let telemetry = telemetry(&server.url);
    let events = EventSink::new();
    telemetry.observe(&events, observed());
    assert!(events.is_watched());
    drop(telemetry.clone());
    assert!(events.is_watched(), "one handle is left");
    drop(telemetry);
    while events.is_watched() {
        tokio::task::yield_now().await;
    }
}

/// Returns the endpoint of traces alone.
fn traces_at(url: &str) -> OtlpTarget {
    let Some(tasks) = telemetry(url).0 else { panic!("it is on") };
    tasks.exporter.settings.traces.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn failed_export_is_tried_again_up_to_a_limit() {
    let server = TestServer::start((0..9).map(|_| answer("503 Busy", "", "")).collect()).await;
    let request = ExportTraceServiceRequest::default();
    let sent = traces_at(&server.url).send(&HttpClient::new().unwrap(), &request).await;
    assert!(sent.is_err_and(|fault| fault.is_transient()));
    assert_eq!(server.requests().len(), 1 + limits::TELEMETRY_RETRIES);
}

#[tokio::test]
async fn response_of_a_collector_is_bounded() {
    let long = "x".repeat(limits::TELEMETRY_RESPONSE_BYTES + 1);
    let server = TestServer::start(vec![answer("200 OK", "", &long)]).await;
    let request = ExportTraceServiceRequest::default();
    let sent = traces_at(&server.url).send(&HttpClient::new().unwrap(), &request).await;
    assert!(sent.unwrap_err().to_string().contains("more than 65536 bytes"));
}

#[tokio::test(start_paused = true)]
async fn long_run_is_exported_while_it_goes_on() {
    let server = TestServer::start((0..9).map(|_| answer("200 OK", "", "{}")).collect()).await;
    let wait_for = async |count: usize| {
        while server.requests().len() < count {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let (telemetry, began) = (telemetry(&server.url), Instant::now());
    run(&telemetry);
    wait_for(2).await;
    assert!(began.elapsed() >= limits::TELEMETRY_BATCH_PAUSE, "{:?}", began.elapsed());
    assert!(began.elapsed() < limits::TELEMETRY_METRICS_PAUSE, "{:?}", began.elapsed());
    wait_for(3).await;
    assert!(began.elapsed() >= limits::TELEMETRY_METRICS_PAUSE, "{:?}", began.elapsed());
    assert_eq!(bodies(&server).len(), 3, "traces, log records and metrics");
}
