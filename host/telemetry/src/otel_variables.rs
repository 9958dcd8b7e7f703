//! The environment variables that OpenTelemetry defines.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use shelly_core::limits;
use shelly_net::Secret;

/// One of the three kinds of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    /// Returns the last segment of the path below the endpoint of all signals.
    pub fn path(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// Returns the part of a variable's name.
    fn word(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        }
    }
}

/// The environment, with the mistakes that were found in it.
pub(crate) struct OtelVariables<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<String>,
}

impl<'a> OtelVariables<'a> {
    pub fn new(environment: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { environment, warnings: Vec::new() }
    }

    /// Returns the mistakes, each with the name of its variable.
    pub fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    pub fn warn(&mut self, name: &str, what: impl std::fmt::Display) {
        let warning = format!("{name}: {what}; the variable is ignored");
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Returns the value of a variable; an empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<String> {
        (self.environment)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns `true` if the variable is `true`.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns the value of the exporter's variable for this signal, or else of that for all, with its name.
    pub fn of_exporter(&self, signal: Signal, key: &str) -> Option<(String, String)> {
        let names = [format!("OTEL_EXPORTER_OTLP_{}_{key}", signal.word()), format!("OTEL_EXPORTER_OTLP_{key}")];
        names.into_iter().find_map(|name| self.get(&name).map(|value| (name, value)))
    }

    /// Returns `true` if a variable names an endpoint, whether it can be used or not.
    pub fn names_endpoint(&self) -> bool {
        let signals = [Signal::Traces, Signal::Metrics, Signal::Logs];
        signals.into_iter().any(|signal| self.of_exporter(signal, "ENDPOINT").is_some())
    }

    /// Returns `true` if nothing of this signal is to be exported.
    pub fn is_switched_off(&mut self, signal: Signal) -> bool {
        let name = format!("OTEL_{}_EXPORTER", signal.word());
        match self.get(&name).as_deref() {
            None | Some("otlp") => false,
            Some("none") => true,
            Some(_) => {
                self.warn(&name, "must be otlp or none");
                false
            }
        }
    }

    /// Returns the time limit of an export.
    pub fn timeout(&mut self, signal: Signal) -> Option<Duration> {
        let (name, value) = self.of_exporter(signal, "TIMEOUT")?;
        let most = Duration::from_secs(limits::TELEMETRY_EXPORT_SECONDS_CEILING);
        let time = value.parse().ok().map(Duration::from_millis);
        let time = time.filter(|time| !time.is_zero() && *time <= most);
        if time.is_none() {
            self.warn(&name, format!("must be a number of milliseconds from 1 to {}", most.as_millis()));
        }
        time
    }

    /// Returns the headers of the requests.
    pub fn headers(&mut self, signal: Signal) -> Vec<(String, Secret)> {
        let Some((name, value)) = self.of_exporter(signal, "HEADERS") else { return Vec::new() };
        let pairs = self.pairs(&name, &value);
        let (good, bad): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(header, _)| shelly_net::header_name(header).is_ok());
        if !bad.is_empty() {
            // The name of a header is not quoted: a mistake may have put a credential in its place.
            self.warn(&name, "has an entry whose name is no header, or one that is set by the host");
        }
        good.into_iter().map(|(header, value)| (header, Secret::new(value))).collect()
    }

    /// Returns the attributes of the resource.
    pub fn resource_attributes(&mut self) -> Vec<(String, String)> {
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let value = self.get(NAME);
        value.map(|value| self.pairs(NAME, &value)).unwrap_or_default()
    }

    /// Parses `key=value,key=value`, with percent-encoded values.
    fn pairs(&mut self, name: &str, list: &str) -> Vec<(String, String)> {
        if list.len() > limits::TELEMETRY_VARIABLE_BYTES {
            self.warn(name, format!("has more than {} bytes", limits::TELEMETRY_VARIABLE_BYTES));
            return Vec::new();
        }
        let parse = |entry: &str| {
            let (key, value) = entry.split_once('=')?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            let key = key.trim();
            (!key.is_empty()).then(|| (key.to_owned(), value.into_owned()))
        };
        let entries: Vec<_> = list.split(',').filter(|entry| !entry.trim().is_empty()).collect();
        if entries.len() > limits::TELEMETRY_VARIABLE_ENTRIES {
            self.warn(name, format!("has more than {} entries", limits::TELEMETRY_VARIABLE_ENTRIES));
            return Vec::new();
        }
        let parsed: Option<Vec<_>> = entries.into_iter().map(parse).collect();
        parsed.unwrap_or_else(|| {
            self.warn(name, "must be a list such as key=value,other=value, with percent-encoded values");
            Vec::new()
        })
    }
}
