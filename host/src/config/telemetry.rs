//! The key `telemetry`: the export of traces, metrics and log records.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{values::BoundedDuration, variables::expand_at};
use crate::{
    error::{ErrorKind, Report, cut, legible},
    limits,
    mcp::check_server_name,
    net::{endpoint, header_name},
};

/// The entry of `propagate` that stands for all destinations.
pub const EVERY_DESTINATION: &str = "all";

/// Settings for the export of traces, metrics and log records with OpenTelemetry.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// The collector; `None`: the one that the environment names, if it names one.
    pub otlp: Option<OtlpConfig>,
    /// `true` if the messages of conversations, and the arguments and results of calls, are exported too.
    pub content: bool,
    /// The name of this service; `None`: `shelly-host`.
    pub service: Option<String>,
    /// The servers that are told which span of the trace a request belongs to: origins such as `https://api.example.com`,
    /// `mcp:NAME` for MCP servers that are programs, or `all`. Without it none is told.
    pub propagate: Vec<String>,
}

/// A collector that speaks OTLP over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtlpConfig {
    /// The base URL, below which each kind of data has its path, such as `v1/traces`; `${NAME}` stands for an environment
    /// variable.
    pub endpoint: String,
    /// The encoding of the data.
    #[serde(default)]
    pub protocol: TelemetryProtocol,
    /// Headers of each request; `${NAME}` as in `endpoint`.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// Time limit of one export, all of its attempts included; `None`: 10 s.
    #[serde(default, with = "BoundedDuration::<{ limits::TELEMETRY_EXPORT_SECONDS_CEILING }>")]
    pub timeout: Option<Duration>,
}

/// The encoding in which data is sent to a collector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TelemetryProtocol {
    /// Protocol Buffers over HTTP.
    #[default]
    #[serde(rename = "http/protobuf")]
    Protobuf,
    /// JSON over HTTP.
    #[serde(rename = "http/json")]
    Json,
}

impl TelemetryConfig {
    /// Checks what serde cannot express.
    pub(crate) fn check(&self) -> Result<(), Report> {
        let usage = |what: String| Report::new(ErrorKind::Usage, what);
        if self.service.as_deref().is_some_and(|service| service.trim().is_empty()) {
            return Err(usage("telemetry.service: is empty".into()).hint("name the service, or remove the key"));
        }
        self.destinations().map_err(|why| {
            usage(format!("telemetry.propagate: {why}"))
                .hint("write origins, such as `https://api.example.com`, `mcp:NAME` for an MCP server, or `all`")
        })?;
        let Some(otlp) = &self.otlp else { return Ok(()) };
        for name in otlp.headers.keys() {
            header_name(name).map_err(|fault| usage(format!("telemetry.otlp.headers: {fault}")))?;
        }
        // A URL with variables is checked once they are replaced.
        if !otlp.endpoint.contains("${") {
            endpoint(&otlp.endpoint, &[]).map_err(|fault| {
                usage(format!("telemetry.otlp.endpoint: {fault}"))
                    .hint("write the base URL of the collector: `endpoint: http://localhost:4318`")
            })?;
        }
        Ok(())
    }
}

impl TelemetryConfig {
    /// Returns the entries of `propagate` as requests are compared with them: origins without the default port.
    ///
    /// # Errors
    ///
    /// A message that says which entry is wrong.
    pub fn destinations(&self) -> Result<Vec<String>, String> {
        let most = limits::TELEMETRY_DESTINATIONS;
        if self.propagate.len() > most {
            return Err(format!("{} entries, the maximum is {most}", self.propagate.len()));
        }
        self.propagate.iter().map(|entry| destination(entry)).collect()
    }
}

/// Returns an entry of `propagate` in its normal form.
fn destination(entry: &str) -> Result<String, String> {
    if entry == EVERY_DESTINATION {
        return Ok(entry.to_owned());
    }
    if let Some(server) = entry.strip_prefix("mcp:") {
        return check_server_name(server).map(|()| entry.to_owned());
    }
    let wrong = || format!("`{}` is no origin", cut(&legible(entry), limits::NAME_SHOWN_CHARS));
    let url = Url::parse(entry).map_err(|_| wrong())?;
    let origin = url.origin().ascii_serialization();
    // A path, a user or a query would suggest that only some requests are told.
    let is_origin = matches!(url.scheme(), "http" | "https") && url.as_str().strip_suffix('/') == Some(origin.as_str());
    if is_origin { Ok(origin) } else { Err(wrong()) }
}

impl OtlpConfig {
    /// Replaces each `${NAME}` in `value`, the value of `key`, by the environment variable of that name.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a variable is not set.
    pub fn expand(
        &self,
        key: &str,
        value: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, Report> {
        let unset = |variable: &str| {
            Report::new(ErrorKind::Usage, format!("the environment variable {variable} is not set"))
                .hint(format!("set {variable}, or remove `telemetry` from the config"))
        };
        expand_at(&format!("telemetry.otlp.{key} in the config"), value, environment, unset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(telemetry: &str) -> Result<Config, Report> {
        Config::parse(&format!("telemetry: {telemetry}"), "/project".into())
    }

    #[test]
    fn telemetry_config_is_parsed() {
        let text = "{otlp: {endpoint: 'https://otel.example/${TEAM}', protocol: http/json, \
                    headers: {authorization: 'Bearer ${TOKEN}'}, timeout: 2s}, content: true, service: birds}";
        let config = parse(text).unwrap_or_else(|report| panic!("{report:?}")).telemetry.unwrap();
        let otlp = config.otlp.as_ref().unwrap();
        assert_eq!((config.content, config.service.as_deref()), (true, Some("birds")));
        assert_eq!((otlp.protocol, otlp.timeout), (TelemetryProtocol::Json, Some(Duration::from_secs(2))));
        let environment = |name: &str| (name == "TOKEN").then(|| "t-1".to_owned());
        let key = "headers.authorization";
        assert_eq!(otlp.expand(key, &otlp.headers["authorization"], &environment).unwrap(), "Bearer t-1");
        let report = otlp.expand("endpoint", &otlp.endpoint, &environment).unwrap_err();
        assert_eq!(
            report.to_string(),
            "the environment variable TEAM is not set: named by telemetry.otlp.endpoint in the config"
        );
        let short = parse("{otlp: {endpoint: 'http://localhost:4318'}}").unwrap().telemetry.unwrap();
        assert_eq!(short.otlp.unwrap().protocol, TelemetryProtocol::Protobuf);
        assert!(!short.content && parse("").unwrap().telemetry.is_none());
    }

    #[test]
    fn destinations_of_spans_are_origins_and_servers() {
        let of = |entries: &str| parse(&format!("{{propagate: {entries}}}")).map(|config| config.telemetry.unwrap());
        let told = of("['https://api.example.com:443/', 'http://localhost:8080', 'mcp:files', all]").unwrap();
        let expected = ["https://api.example.com", "http://localhost:8080", "mcp:files", "all"];
        assert_eq!(told.destinations().unwrap(), expected);
        assert_eq!(of("[]").unwrap().destinations().unwrap(), [""; 0]);
        let many = format!("[{}]", "all, ".repeat(limits::TELEMETRY_DESTINATIONS + 1));
        for (entries, says) in [
            ("['api.example.com']", "`api.example.com` is no origin"),
            ("['https://api.example.com/v1']", "is no origin"),
            ("['https://me@api.example.com']", "is no origin"),
            ("['https://api.example.com?q']", "is no origin"),
            ("['ftp://api.example.com']", "is no origin"),
            ("['mcp:']", "telemetry.propagate"),
            (many.as_str(), "65 entries, the maximum is 64"),
        ] {
            let report = of(entries).unwrap_err();
            assert!(format!("{report:?}").contains(says), "{entries}\n{report:?}");
        }
    }

    #[test]
    fn invalid_telemetry_config_is_refused_with_reason() {
        for (keys, says) in [
            ("otlp: {endpoint: localhost:4318}", "telemetry.otlp.endpoint: invalid base URL"),
            (
                "otlp: {endpoint: 'https://me:pw-1@otel.example'}",
                "telemetry.otlp.endpoint: the base URL has a user name",
            ),
            ("otlp: {endpoint: 'http://h', headers: {'a b': c}}", "telemetry.otlp.headers: invalid header name `a b`"),
            ("otlp: {endpoint: 'http://h', protocol: grpc}", "`protocol` cannot be `grpc`"),
            ("otlp: {endpoint: 'http://h', timeout: 61s}", "must be at most 1m"),
            ("otlp: {}", "endpoint"),
            ("service: ' '", "telemetry.service: is empty"),
            ("contents: true", "there is no key `contents`"),
        ] {
            let report = parse(&format!("{{{keys}}}")).unwrap_err();
            let shown = format!("{report:?}");
            assert!(shown.contains(says), "{keys}\n{shown}");
            assert!(!shown.contains("pw-1"), "{shown}");
        }
    }
}
