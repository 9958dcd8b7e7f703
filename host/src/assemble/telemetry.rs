//! Attaches to the events of a run what takes part in them: its session, and the export of telemetry.

use std::sync::Arc;

use super::{App, PreparedRun, RunSession, app_telemetry::AppTelemetry, model_names::model_name};
use crate::{
    config::{EVERY_DESTINATION, ProviderConfig, ShareableConfig, TelemetryConfig, TelemetryProtocol},
    error::{ErrorKind, Report},
    event::EventSink,
    net::{self, HttpClient, Secret},
    telemetry::{
        ConfiguredTelemetry, ModelDirectory, ModelFacts, ObservedRun, OtlpProtocol, SpanPropagation, Telemetry,
        TelemetrySettings,
    },
};

/// The end of telemetry, for callers that show the outcome of a run first.
#[derive(Debug, Clone, Default)]
pub struct TelemetryFlush(Telemetry);

impl TelemetryFlush {
    /// Exports what is left, for at most [`limits::TELEMETRY_FLUSH_TIME`](crate::limits::TELEMETRY_FLUSH_TIME). Returns a
    /// warning if not everything of this process was exported.
    pub async fn finish(&self) -> Option<String> {
        self.0.finish().await.warning()
    }
}

impl App {
    /// Attaches a session and telemetry to the sink of a run, before the run begins. The session records decisions and the
    /// values that plugins are given; telemetry reads the events in the background. Every caller that runs an agent calls it
    /// once for each sink.
    pub fn observe(&self, events: &EventSink, prepared: &PreparedRun, session: Option<&RunSession>) {
        session.iter().for_each(|session| session.listen(events));
        let telemetry = &self.started_telemetry().telemetry;
        if !telemetry.is_on() {
            return;
        }
        let secrets = self.secrets();
        let run = ObservedRun {
            conversation: session.map(|session| session.journal.id().to_owned()),
            models: Arc::new(self.model_directory(prepared)),
            redact: Arc::new(move |text: &str| secrets.clean_text(text)),
        };
        telemetry.observe(events, run);
    }

    /// Returns the end of telemetry, which the program waits for before it ends.
    pub fn telemetry_flush(&self) -> TelemetryFlush {
        TelemetryFlush(self.telemetry.get().map(|started| started.telemetry.clone()).unwrap_or_default())
    }

    /// Returns warnings about the settings of telemetry.
    pub(crate) fn telemetry_warnings(&self) -> &[String] {
        &self.started_telemetry().warnings
    }

    /// Returns the settings of telemetry from the config and the environment, with warnings about what cannot be used. A
    /// mistake never keeps an agent from running.
    pub(crate) fn telemetry_settings(&self) -> (TelemetrySettings, Vec<String>) {
        match self.configured_telemetry() {
            Ok(configured) => TelemetrySettings::new(&configured, &*self.environment),
            Err(report) => (TelemetrySettings::default(), vec![not_exported(&report.with_hint())]),
        }
    }

    /// Returns the known secrets in headers for collectors, which must not be recorded.
    pub(crate) fn secrets_of_telemetry(&self) -> Vec<(String, Secret)> {
        let otlp = self.config.telemetry.as_ref().and_then(|telemetry| telemetry.otlp.as_ref());
        let of_config = otlp.into_iter().flat_map(|otlp| {
            // A value without a variable is usually no secret, and may be a common word.
            let named = otlp.headers.iter().filter(|(_, value)| value.contains("${"));
            named.filter_map(move |(name, value)| {
                Some((name.clone(), Secret::new(otlp.expand(name, value, &*self.environment).ok()?)))
            })
        });
        let (settings, _) = self.telemetry_settings();
        let sent = settings.targets().flat_map(|target| target.headers.iter().cloned());
        let is_credential = |name: &str, value: &Secret| {
            name.eq_ignore_ascii_case("authorization") || ShareableConfig::is_credential(name, value.expose())
        };
        let sent = sent.filter(|(name, value)| is_credential(name, value));
        let parts = of_config.chain(sent).flat_map(|(name, secret)| {
            secret.parts().into_iter().map(move |part| (format!("telemetry.otlp.headers.{name}"), part))
        });
        parts.collect()
    }

    /// Returns the telemetry of this app, which is started for the first run.
    fn started_telemetry(&self) -> &AppTelemetry {
        self.telemetry.get_or_init(|| {
            let (settings, mut warnings) = self.telemetry_settings();
            if settings.is_off() {
                return AppTelemetry { telemetry: Telemetry::off(), warnings };
            }
            let telemetry = match HttpClient::new() {
                Ok(client) => Telemetry::new(settings, client),
                Err(fault) => {
                    warnings.push(not_exported(&fault.to_string()));
                    Telemetry::off()
                }
            };
            AppTelemetry { telemetry, warnings }
        })
    }

    /// Returns the part of the config that is about telemetry, with its variables replaced.
    fn configured_telemetry(&self) -> Result<ConfiguredTelemetry, Report> {
        let Some(telemetry) = &self.config.telemetry else { return Ok(ConfiguredTelemetry::default()) };
        let TelemetryConfig { otlp, content, service, .. } = telemetry;
        let configured = ConfiguredTelemetry {
            content: *content,
            service: service.clone(),
            propagation: propagation(telemetry)?,
            ..ConfiguredTelemetry::default()
        };
        let Some(otlp) = otlp else { return Ok(configured) };
        let endpoint = otlp.expand("endpoint", &otlp.endpoint, &*self.environment)?;
        let endpoint = net::endpoint(&endpoint, &[])
            .map_err(|fault| Report::new(ErrorKind::Usage, format!("telemetry.otlp.endpoint: {fault}")))?;
        let header = |(name, value): (&String, &String)| {
            let value = otlp.expand(&format!("headers.{name}"), value, &*self.environment)?;
            Ok::<_, Report>((name.clone(), Secret::new(value)))
        };
        Ok(ConfiguredTelemetry {
            endpoint: Some(endpoint),
            protocol: Some(match otlp.protocol {
                TelemetryProtocol::Protobuf => OtlpProtocol::HttpProtobuf,
                TelemetryProtocol::Json => OtlpProtocol::HttpJson,
            }),
            headers: otlp.headers.iter().map(header).collect::<Result<_, _>>()?,
            timeout: otlp.timeout,
            ..configured
        })
    }

    /// Returns the models that the agents of a run may use.
    fn model_directory(&self, prepared: &PreparedRun) -> ModelDirectory {
        let listed = self.config.providers.iter().map(|provider| {
            (model_name(provider), ModelFacts { provider: provider_name(provider), price: self.price(provider) })
        });
        // A discovered model is in no config.
        let model = &prepared.model;
        let discovered = ModelFacts { provider: conventional_name(&model.name), price: model.price };
        listed.chain([(model.model.clone(), discovered)]).collect()
    }
}

/// Returns the destinations that are told of spans.
fn propagation(telemetry: &TelemetryConfig) -> Result<SpanPropagation, Report> {
    let destinations = telemetry.destinations();
    let destinations =
        destinations.map_err(|why| Report::new(ErrorKind::Usage, format!("telemetry.propagate: {why}")))?;
    Ok(match destinations {
        none if none.is_empty() => SpanPropagation::None,
        all if all.iter().any(|entry| entry == EVERY_DESTINATION) => SpanPropagation::All,
        listed => SpanPropagation::Listed(listed),
    })
}

fn not_exported(why: &str) -> String {
    format!("telemetry: nothing is exported: {why}")
}

/// Returns the name of a model's provider as the semantic conventions have it; for a plugin, its id.
fn provider_name(provider: &ProviderConfig) -> String {
    match provider.kind.vendor() {
        Some(vendor) => conventional_name(vendor.preset().word),
        None => provider.plugin.clone().unwrap_or_default(),
    }
}

/// Returns the word for a vendor in the semantic conventions; vendors that those do not name keep theirs.
fn conventional_name(word: &str) -> String {
    match word {
        "gemini" => "gcp.gemini",
        "grok" => "x_ai",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
        config::Config,
    };

    fn app(text: &str, variables: &'static [(&'static str, &'static str)]) -> App {
        let config = Config::parse(text, "/nowhere".into()).unwrap_or_else(|report| panic!("{report}"));
        let environment = Arc::new(move |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        App::new(config, &[], None, environment, broker).unwrap()
    }

    const CONFIG: &str = "telemetry: {service: birds, otlp: {endpoint: 'https://otel.example/${TEAM}', \
                          headers: {authorization: 'Bearer ${TOKEN}', x-team: production}}}";

    #[test]
    fn config_and_variables_become_settings() {
        let (settings, warnings) = app(CONFIG, &[("TEAM", "a"), ("TOKEN", "t-12345678")]).telemetry_settings();
        let traces = settings.traces.unwrap();
        assert_eq!(traces.url.as_str(), "https://otel.example/a/v1/traces");
        assert_eq!(traces.headers[0], ("authorization".to_owned(), Secret::new("Bearer t-12345678")));
        assert_eq!(warnings, [""; 0]);
        let (settings, warnings) = app(CONFIG, &[("TEAM", "a")]).telemetry_settings();
        assert!(settings.is_off());
        assert!(
            warnings[0].starts_with("telemetry: nothing is exported: the environment variable TOKEN is not set"),
            "{warnings:?}"
        );
        assert!(app("", &[]).telemetry_settings().0.is_off());
        let local = app("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")]);
        assert_eq!(local.telemetry_settings().0.traces.unwrap().url.as_str(), "http://localhost:4318/v1/traces");
    }

    #[test]
    fn header_credentials_are_secrets() {
        let secrets = |text: &str, variables| app(text, variables).secrets();
        let of_config = secrets(CONFIG, &[("TEAM", "a"), ("TOKEN", "t-12345678")]);
        assert!(!of_config.clean_text("the token t-12345678").contains("t-12345678"));
        assert_eq!(of_config.clean_text("in production"), "in production", "a header that is no credential");
        let variables = &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otel.example"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=k-12345678,Authorization=Basic%20cGstMTpzay8x"),
        ];
        let clean = secrets("", variables).clean_text("the keys k-12345678 and cGstMTpzay8x");
        assert!(!clean.contains("k-12345678") && !clean.contains("cGstMTpzay8x"), "{clean}");
    }

    #[test]
    fn every_kind_of_credential_is_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let (key, key_of_other, seed) = ("ab".repeat(32), "cd".repeat(32), "SUAKEY1234567");
        std::fs::write(folder.path().join("a.key"), format!("{key}\n")).unwrap();
        std::fs::write(folder.path().join("b.key"), format!("{key_of_other}\n")).unwrap();
        let creds =
            format!("-----BEGIN NATS USER JWT-----\neyJ0.jwt-1234\n---\n\nIMPORTANT words\n{seed}\n------END---\n");
        std::fs::write(folder.path().join("nats.creds"), creds).unwrap();
        let text = "
providers: [{name: p, kind: openai, model: m, api_key: '${PROVIDER}', headers: {x-key: '${HEADER}'}}]
credentials: [{name: c, env: CREDENTIAL, for: ['https://h']}]
mcp_servers: [{name: s, url: 'https://mcp.example', headers: {authorization: 'Bearer ${MCP}'}}]
triggers: [{name: t, webhook: {secret: {env: HOOK}, signature: github}, task: go}]
telemetry: {otlp: {endpoint: 'https://otel.example', headers: {authorization: 'Bearer ${OTLP}'}}}
cluster:
  nats: 'nats://a:1'
  namespace: a
  credentials: {file: nats.creds}
  encryption: {key: {file: a.key}}
  namespaces: [{namespace: b, encryption: {key: {file: b.key}}}]
";
        let config = Config::parse(text, folder.path().into()).unwrap_or_else(|report| panic!("{report}"));
        let variables = ["PROVIDER", "HEADER", "CREDENTIAL", "MCP", "HOOK", "OTLP"];
        let value_of = |name: &str| format!("{}-value-12345", name.to_ascii_lowercase());
        let environment = Arc::new(move |name: &str| variables.contains(&name).then(|| value_of(name)));
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let app = App::new(config, &[], None, environment.clone(), broker.clone()).unwrap();
        app.clone().note_secret("serve.token", Secret::new("serve-token-12345"));
        let other = Config::parse("", folder.path().into()).unwrap();
        let beside = App::new(other, &[], None, environment, broker).unwrap().with_sandbox_of(&app);
        for secret in [key.as_str(), key_of_other.as_str(), "serve-token-12345"] {
            assert!(!beside.secrets().clean_text(secret).contains(secret), "{secret}");
        }
        let known = variables.map(value_of).into_iter().chain([key, key_of_other, seed.into(), "eyJ0.jwt-1234".into()]);
        for secret in known.chain(["serve-token-12345".to_owned()]) {
            let clean = app.secrets().clean_text(&format!("It is {secret}."));
            assert!(!clean.contains(&secret) && clean.starts_with("It is [secret "), "{secret}: {clean}");
        }
        assert_eq!(app.secrets().clean_text("IMPORTANT words"), "IMPORTANT words");
    }

    #[test]
    fn vendors_have_the_names_of_the_conventions() {
        let text = "providers: [{name: a, kind: gemini, model: g}, {name: b, kind: grok, model: x}, \
                    {name: c, kind: anthropic, model: c}, {name: d, kind: plugin, plugin: own}]";
        let config = Config::parse(text, "/nowhere".into()).unwrap();
        let names: Vec<_> = config.providers.iter().map(provider_name).collect();
        assert_eq!(names, ["gcp.gemini", "x_ai", "anthropic", "own"]);
    }
}
