use super::*;

fn configured(endpoint: &str) -> ConfiguredTelemetry {
    ConfiguredTelemetry {
        endpoint: (!endpoint.is_empty()).then(|| Url::parse(endpoint).unwrap()),
        headers: vec![("authorization".into(), Secret::new("Bearer of-config"))],
        ..ConfiguredTelemetry::default()
    }
}

fn settings(configured: &ConfiguredTelemetry, variables: &[(&str, &str)]) -> (TelemetrySettings, Vec<String>) {
    let variables: Vec<_> = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let environment = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    TelemetrySettings::new(configured, &environment)
}

/// Returns the URLs of traces, metrics and logs; empty for those that are not exported.
fn urls(settings: &TelemetrySettings) -> [String; 3] {
    [&settings.traces, &settings.metrics, &settings.logs]
        .map(|target| target.as_ref().map(|target| target.url.to_string()).unwrap_or_default())
}

fn attribute<'a>(settings: &'a TelemetrySettings, key: &str) -> Option<&'a str> {
    settings.resource.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");

#[test]
fn endpoints_come_from_config_and_environment() {
    let config = configured("https://otel.example/base");
    let of_config = |signal: &str| format!("https://otel.example/base/v1/{signal}");
    let local = |signal: &str| format!("http://localhost:4318/v1/{signal}");
    let none = String::new;
    for (config, variables, expected) in [
        (&configured(""), &[][..], [none(), none(), none()]),
        (&config, &[], [of_config("traces"), of_config("metrics"), of_config("logs")]),
        (&configured(""), &[ENDPOINT], [local("traces"), local("metrics"), local("logs")]),
        (&config, &[ENDPOINT], [local("traces"), local("metrics"), local("logs")]),
        (
            &config,
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://localhost:1/only/here/")],
            ["http://localhost:1/only/here/".into(), of_config("metrics"), of_config("logs")],
        ),
        (&config, &[("OTEL_METRICS_EXPORTER", "none")], [of_config("traces"), none(), of_config("logs")]),
        (&config, &[("OTEL_SDK_DISABLED", "TRUE")], [none(), none(), none()]),
        (
            &config,
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            [of_config("traces"), of_config("metrics"), of_config("logs")],
        ),
    ] {
        let (found, warnings) = settings(config, variables);
        assert_eq!(urls(&found), expected, "{variables:?}");
        assert_eq!(found.is_off(), expected.iter().all(String::is_empty));
        assert_eq!(warnings, [""; 0], "{variables:?}");
    }
}

#[test]
fn headers_stay_with_their_endpoint() {
    let config = configured("https://otel.example");
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of%20environment, x-other = b ");
    let sent = |variables: &[(&str, &str)]| {
        let (found, _) = settings(&config, variables);
        let of = |(name, value): &(String, Secret)| format!("{name}={}", value.expose());
        found.traces.unwrap().headers.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(sent(&[]), ["authorization=Bearer of-config"]);
    assert_eq!(sent(&[headers]), ["authorization=Bearer of-config"], "the key of another server");
    assert_eq!(sent(&[ENDPOINT]), [""; 0]);
    assert_eq!(sent(&[ENDPOINT, headers]), ["x-key=of environment", "x-other=b"]);
    let own = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-key=traces");
    assert_eq!(sent(&[ENDPOINT, headers, own]), ["x-key=traces"]);
}

#[test]
fn variables_set_protocol_time_and_resource() {
    let config = ConfiguredTelemetry { service: Some("of-config".into()), ..configured("https://otel.example") };
    let (found, _) = settings(&config, &[]);
    assert_eq!(attribute(&found, "service.name"), Some("of-config"));
    let traces = found.traces.as_ref().unwrap();
    assert_eq!((traces.protocol, traces.timeout), (OtlpProtocol::HttpProtobuf, limits::TELEMETRY_EXPORT_TIME));
    let (found, warnings) = settings(
        &config,
        &[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=listed,team=a%2Cb"),
            ("OTEL_SERVICE_NAME", "named"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ],
    );
    let (traces, logs) = (found.traces.as_ref().unwrap(), found.logs.as_ref().unwrap());
    assert_eq!((traces.protocol, logs.protocol), (OtlpProtocol::HttpJson, OtlpProtocol::HttpProtobuf));
    assert_eq!(traces.timeout, Duration::from_millis(2_500));
    assert_eq!((attribute(&found, "service.name"), attribute(&found, "team")), (Some("named"), Some("a,b")));
    assert_eq!(found.sampler, TraceSampler { follows_parent: true, ratio: 0.25 });
    assert!(found.parent.as_ref().is_some_and(|parent| parent.context.is_sampled));
    assert_eq!(warnings, [""; 0]);
    let plain = settings(&configured("https://otel.example"), &[]).0;
    assert_eq!(attribute(&plain, "service.name"), Some("shelly-host"));
    assert_ne!(attribute(&plain, "service.instance.id"), attribute(&found, "service.instance.id"));
}

#[test]
fn wrong_variables_are_reported_and_ignored() {
    let long = "a=b,".repeat(limits::TELEMETRY_VARIABLE_BYTES / 4 + 1);
    let many = "a=b,".repeat(limits::TELEMETRY_VARIABLE_ENTRIES + 1);
    let ceiling = (limits::TELEMETRY_EXPORT_SECONDS_CEILING * 1_000 + 1).to_string();
    for (name, value, says) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "must be http/protobuf or http/json; gRPC is not supported"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "must be a number of milliseconds from 1 to 60000"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", ceiling.as_str(), "must be a number of milliseconds from 1 to 60000"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost:4318", "invalid base URL"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://me:pw-1@otel.example", "has a user name or password"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team", "must be a list such as key=value"),
        ("OTEL_RESOURCE_ATTRIBUTES", long.as_str(), "has more than 16384 bytes"),
        ("OTEL_RESOURCE_ATTRIBUTES", many.as_str(), "has more than 64 entries"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "must be always_on"),
        ("OTEL_LOGS_EXPORTER", "console", "must be otlp or none"),
        ("TRACEPARENT", "00-1-2-3", "is no traceparent"),
    ] {
        let (found, warnings) = settings(&configured("https://otel.example"), &[(name, value)]);
        let [warning] = &warnings[..] else { panic!("{name}: {warnings:?}") };
        assert!(warning.starts_with(&format!("{name}: ")) && warning.contains(says), "{warning}");
        assert!(!warning.contains("pw-1"), "{warning}");
        assert!(found.traces.is_some(), "{name}: the rest is in force");
        let without_config = settings(&configured(""), &[(name, value)]).1;
        assert_eq!(without_config.len(), usize::from(name.ends_with("_ENDPOINT")), "{name}: the reason for no export");
    }
    let (_, warnings) = settings(&configured(""), &[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "host=x, x-a=b")]);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("OTEL_EXPORTER_OTLP_HEADERS: has an entry whose name is no header"),
        "{warnings:?}"
    );
    let (_, warnings) = settings(&configured("http://otel.example"), &[]);
    assert_eq!(warnings, ["telemetry: its headers are sent to otel.example unencrypted; write https://"]);
}
