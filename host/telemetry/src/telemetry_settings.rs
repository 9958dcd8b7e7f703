//! Everything that is known before the first event: endpoints, attributes of this process, the choice of traces.

use std::time::Duration;

use shelly_core::{
    event::{PropagatedSpan, TRACESTATE},
    hex, limits,
};
use shelly_net::{Secret, endpoint, is_readable_on_the_way, origin};
use url::Url;

use crate::{
    conventions,
    otel_variables::{OtelVariables, Signal},
    otlp_target::{OtlpProtocol, OtlpTarget},
    span_propagation::SpanPropagation,
    trace_context::{TraceSampler, random_id},
};

/// The name of this program as a service, unless another one is set.
const SERVICE: &str = "shelly-host";

/// The part of a config that is about telemetry, with its variables replaced.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfiguredTelemetry {
    /// The base URL of the collector, below which each signal has its path; `None`: the environment may name one.
    pub endpoint: Option<Url>,
    /// The encoding; `None`: Protocol Buffers.
    pub protocol: Option<OtlpProtocol>,
    /// Headers of each request to this endpoint.
    pub headers: Vec<(String, Secret)>,
    /// The time limit of one export; `None`: [`limits::TELEMETRY_EXPORT_TIME`].
    pub timeout: Option<Duration>,
    /// `true` if messages, arguments and results are exported.
    pub content: bool,
    /// The name of this service.
    pub service: Option<String>,
    /// The destinations of requests that are told of spans.
    pub propagation: SpanPropagation,
}

/// The settings of an exporter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TelemetrySettings {
    /// The endpoint of traces; `None`: none are exported.
    pub traces: Option<OtlpTarget>,
    /// The endpoint of metrics; `None`: none are exported.
    pub metrics: Option<OtlpTarget>,
    /// The endpoint of log records; `None`: none are exported.
    pub logs: Option<OtlpTarget>,
    /// The attributes of this process.
    pub resource: Vec<(String, String)>,
    /// The choice of traces.
    pub sampler: TraceSampler,
    /// The span outside of this program that every run belongs to.
    pub parent: Option<PropagatedSpan>,
    /// `true` if messages, arguments and results are exported.
    pub content: bool,
    /// The destinations of requests that are told of spans.
    pub propagation: SpanPropagation,
}

impl TelemetrySettings {
    /// Puts the config and the variables of OpenTelemetry together, and returns warnings about what cannot be used. A
    /// variable wins over the config. An endpoint from the environment is never sent the headers of the config, and the
    /// other way round: each has its own credentials.
    pub fn new(configured: &ConfiguredTelemetry, environment: &dyn Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut variables = OtelVariables::new(environment);
        if variables.is_true("OTEL_SDK_DISABLED") {
            return (Self::default(), Vec::new());
        }
        let [traces, metrics, logs] =
            [Signal::Traces, Signal::Metrics, Signal::Logs].map(|signal| target(signal, configured, &mut variables));
        let settings = Self {
            resource: resource(configured, &mut variables),
            sampler: sampler(&mut variables),
            parent: parent(&mut variables),
            content: configured.content,
            propagation: configured.propagation.clone(),
            traces,
            metrics,
            logs,
        };
        if settings.is_off() {
            // A mistake in a variable is of no interest to somebody who exports nothing, unless it is the reason for that.
            let has_endpoint = configured.endpoint.is_some() || variables.names_endpoint();
            return (Self::default(), if has_endpoint { variables.into_warnings() } else { Vec::new() });
        }
        let mut warnings = variables.into_warnings();
        warnings.extend(settings.unencrypted());
        (settings, warnings)
    }

    /// Returns `true` if nothing is exported.
    pub fn is_off(&self) -> bool {
        self.targets().next().is_none()
    }

    /// Returns the endpoints of all signals.
    pub fn targets(&self) -> impl Iterator<Item = &OtlpTarget> {
        [&self.traces, &self.metrics, &self.logs].into_iter().flatten()
    }

    /// Warns of credentials that are sent where others can read them.
    fn unencrypted(&self) -> Option<String> {
        let open = self.targets().find(|target| !target.headers.is_empty() && is_readable_on_the_way(&target.url))?;
        Some(format!("telemetry: its headers are sent to {} unencrypted; write https://", origin(&open.url)))
    }
}

fn target(signal: Signal, configured: &ConfiguredTelemetry, variables: &mut OtelVariables<'_>) -> Option<OtlpTarget> {
    if variables.is_switched_off(signal) {
        return None;
    }
    let (url, headers) = match endpoint_of_environment(signal, variables) {
        Some(url) => (url, variables.headers(signal)),
        None => {
            let base = configured.endpoint.as_ref()?;
            (endpoint(base.as_str(), &["v1", signal.path()]).ok()?, configured.headers.clone())
        }
    };
    let protocol = match variables.of_exporter(signal, "PROTOCOL") {
        None => configured.protocol.unwrap_or_default(),
        Some((name, value)) => value.parse::<OtlpProtocol>().unwrap_or_else(|error| {
            variables.warn(&name, error);
            configured.protocol.unwrap_or_default()
        }),
    };
    let timeout = variables.timeout(signal).or(configured.timeout).unwrap_or(limits::TELEMETRY_EXPORT_TIME);
    Some(OtlpTarget { url, protocol, headers, timeout })
}

/// Returns the URL of a signal as the environment names it. Its own variable is the whole URL, that of all signals the part
/// before the path.
fn endpoint_of_environment(signal: Signal, variables: &mut OtelVariables<'_>) -> Option<Url> {
    let (name, value) = variables.of_exporter(signal, "ENDPOINT")?;
    let path: &[&str] = if name == "OTEL_EXPORTER_OTLP_ENDPOINT" { &["v1", signal.path()] } else { &[] };
    let url =
        if path.is_empty() { whole_url(&value) } else { endpoint(&value, path).map_err(|fault| fault.to_string()) };
    url.map_err(|why| variables.warn(&name, why)).ok()
}

/// Parses a URL that is used as it is.
fn whole_url(text: &str) -> Result<Url, String> {
    // The check is the same; a path that ends with a slash keeps it.
    endpoint(text, &[]).map_err(|fault| fault.to_string())?;
    Url::parse(text).map_err(|error| error.to_string())
}

fn resource(configured: &ConfiguredTelemetry, variables: &mut OtelVariables<'_>) -> Vec<(String, String)> {
    // Without it, metrics of several processes of one service would overwrite each other.
    let instance = hex::encode(random_id::<16>());
    let mut all: Vec<(String, String)> = [
        (conventions::SERVICE_NAME, configured.service.as_deref().unwrap_or(SERVICE)),
        (conventions::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
        (conventions::SERVICE_INSTANCE_ID, instance.as_str()),
        (conventions::SDK_NAME, "shelly-telemetry"),
        (conventions::SDK_LANGUAGE, "rust"),
        (conventions::SDK_VERSION, env!("CARGO_PKG_VERSION")),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let named = variables.get("OTEL_SERVICE_NAME").map(|name| (conventions::SERVICE_NAME.to_owned(), name));
    for (key, value) in variables.resource_attributes().into_iter().chain(named) {
        match all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => all.push((key, value)),
        }
    }
    all
}

fn sampler(variables: &mut OtelVariables<'_>) -> TraceSampler {
    const NAME: &str = "OTEL_TRACES_SAMPLER";
    let Some(name) = variables.get(NAME) else { return TraceSampler::default() };
    let argument = variables.get("OTEL_TRACES_SAMPLER_ARG");
    TraceSampler::parse(&name, argument.as_deref()).unwrap_or_else(|why| {
        variables.warn(NAME, why);
        TraceSampler::default()
    })
}

fn parent(variables: &mut OtelVariables<'_>) -> Option<PropagatedSpan> {
    const NAME: &str = "TRACEPARENT";
    let text = variables.get(NAME)?;
    let state = variables.get(&TRACESTATE.to_ascii_uppercase());
    let parent = PropagatedSpan::parse(Some(&text), state.as_deref());
    if parent.is_none() {
        variables.warn(NAME, "is no traceparent of the W3C Trace Context");
    }
    parent
}

#[cfg(test)]
mod tests;
