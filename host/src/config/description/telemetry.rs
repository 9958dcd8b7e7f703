//! The export of traces, metrics and log records.

use indexmap::IndexMap;

use super::{section::SectionDescription, shared_settings::time_or, wording::shown_address};
use crate::{
    config::{
        EVERY_DESTINATION, OtlpConfig, TelemetryConfig,
        effective_setting::{is, set},
        mask::{masked, masked_url},
        variables::variables,
    },
    limits,
    trust::{RiskLevel, quoted},
};

pub(super) fn telemetry_section(telemetry: &TelemetryConfig) -> SectionDescription {
    let TelemetryConfig { otlp, content, service, propagate } = telemetry;
    let mut section = SectionDescription::default();
    match otlp {
        Some(otlp) => section.show_section("otlp", otlp_section(otlp, *content)),
        None => section.show("otlp", is(&()).noted("the collector that the environment names, if it names one")),
    }
    section.show("content", set(content));
    if *content && otlp.is_none() {
        let line = "telemetry, where your environment turns it on, has the messages, arguments and results of runs";
        section.disclose(RiskLevel::Sends, line.to_owned());
    }
    // A word in the data.
    section.show("service", is(service).noted_if(service.is_none(), "shelly-host"));
    section.show("propagate", is(propagate).noted_if(propagate.is_empty(), "no server is told"));
    for entry in telemetry.destinations().unwrap_or_default() {
        let told = match entry.as_str() {
            EVERY_DESTINATION => "all servers that requests go to are".to_owned(),
            entry => format!("{} is", quoted(entry)),
        };
        let line = format!("telemetry: {told} told which span of a trace a request belongs to");
        section.disclose(RiskLevel::Sends, line);
    }
    section
}

fn otlp_section(otlp: &OtlpConfig, content: bool) -> SectionDescription {
    let OtlpConfig { endpoint, protocol, headers, timeout } = otlp;
    let mut section = SectionDescription::default();
    let shown = shown_address(endpoint);
    section.show("endpoint", is(&masked_url(endpoint)));
    let what = if content {
        "names, times and costs of all runs are sent there, and their messages, arguments and results"
    } else {
        "names, times and costs of all runs are sent there, with their warnings and the logs of plugins"
    };
    section.disclose(RiskLevel::Sends, format!("the collector of telemetry is at {shown}; {what}"));
    for variable in variables(endpoint) {
        let line = format!("telemetry has the environment variable {} in its address {shown}", quoted(variable));
        section.disclose(RiskLevel::Sends, line);
    }
    // The encoding.
    section.show("protocol", set(protocol));
    let masked_headers: IndexMap<_, _> = headers.iter().map(|(name, value)| (name, masked(value))).collect();
    section.show("headers", is(&masked_headers));
    for variable in headers.values().flat_map(|value| variables(value)) {
        let line = format!("telemetry sends the environment variable {} in a header, to {shown}", quoted(variable));
        section.disclose(RiskLevel::Sends, line);
    }
    // A limit of time.
    section.show("timeout", time_or(*timeout, limits::TELEMETRY_EXPORT_TIME));
    section
}
