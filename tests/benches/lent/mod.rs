//! Plugins as a config would bind them, and the cost of their calls.

pub mod chain;
pub mod crossing;
pub mod door;
pub mod memory;
pub mod pieces;

use std::{
    error::Error,
    fmt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use serde_json::Value;
use shelly_host::{
    capability::{Grant, HttpGrant, KvScope, NameSet},
    event::{Event, EventSink, EventStream, RunCx},
    limits,
    model::ModelInfo,
    net::{AuthHeader, Secret, egress::Credential},
    plugin::{Plugin, PluginEngine, PluginModel, PluginPackage, PluginSettings},
};

/// A key as vendors give them.
const KEY: &str = "sk-proj-4f9Qm2VtX8LbN0aRzK7cWdE1yHs6GjPu";

/// The settings of one plugin besides its params.
#[derive(Default)]
pub struct Given<'a> {
    /// The server that it may reach.
    pub server: Option<&'a str>,
    /// `true` if the plugin has a credential for that server.
    pub key: bool,
}

/// A credential for a server.
pub fn credential(server: &str) -> Result<Arc<Credential>, Box<dyn Error>> {
    let auth = AuthHeader::bearer(Secret::new(KEY));
    Ok(Arc::new(Credential::new("key", &auth, HttpGrant::all_below(server)?).map_err(|fault| fault.to_string())?))
}

/// A plugin with all that it wants, and no more of the network than one server.
pub async fn load(
    engine: &Arc<PluginEngine>,
    component: &str,
    params: &Value,
    given: Given<'_>,
) -> Result<Arc<Plugin>, Box<dyn Error>> {
    let package = Arc::new(PluginPackage::read(Path::new(component).parent().ok_or("a plugin has a folder")?)?);
    let wants = &package.manifest.wants;
    let http =
        given.server.map(|server| HttpGrant::entry(server, &["*".to_owned()], &[])).transpose()?.unwrap_or_default();
    let kv = if wants.kv { [KvScope::Agent].into() } else { Default::default() };
    let credentials = if given.key { NameSet::all() } else { NameSet::default() };
    let mut settings = PluginSettings {
        grant: Grant { files: Default::default(), kv, http, credentials, ..wants.grant() },
        params: serde_json::value::to_raw_value(params)?,
        ..PluginSettings::new("bench", "bench")
    };
    if given.key {
        settings.credentials = vec![credential(given.server.ok_or("a key is for a server")?)?];
    }
    settings.limits.http_requests_per_minute = limits::EGRESS_REQUESTS_PER_MINUTE_CEILING;
    settings.limits.http_concurrency = limits::EGRESS_CONCURRENCY_CEILING;
    // Replies one right after the other would be slowed down to it.
    settings.limits.host_calls_per_second = limits::HOST_CALLS_PER_SECOND_CEILING;
    Ok(Arc::new(Plugin::load(engine, &package, &settings).await?))
}

/// A model behind a plugin.
pub async fn model(
    engine: &Arc<PluginEngine>,
    component: &str,
    params: &Value,
    given: Given<'_>,
) -> Result<PluginModel, Box<dyn Error>> {
    let info = ModelInfo { model: "m-1".into(), ..ModelInfo::named("bench") };
    let plugin = load(engine, component, params, given).await?;
    Ok(PluginModel::new(&plugin, info, None, None).ok_or("it is a provider")?)
}

/// In whose name calls are made whose figures are told.
pub fn watched() -> (RunCx, EventStream) {
    let (events, told) = EventSink::channel();
    (RunCx::new("bench").with_events(events), told)
}

/// The event of a plugin's call.
pub struct Told {
    /// From the instance to its end.
    pub duration: Duration,
    pub memory: usize,
    pub host_calls: u64,
}

/// Waits until a call of a plugin is told of.
pub async fn told(stream: &mut EventStream) -> Result<Told, Box<dyn Error>> {
    while let Some(event) = stream.next_event().await {
        if let Event::PluginCall { duration, memory, host_calls, .. } = event {
            return Ok(Told { duration, memory, host_calls });
        }
    }
    Err("no call was told of".into())
}

/// Times of one thing that was done again and again.
pub struct Times(Histogram<u64>);

impl Times {
    pub fn new() -> Self {
        Self(Histogram::new(3).expect("3 digits are allowed"))
    }

    pub fn since(&mut self, started: Instant) {
        self.add(started.elapsed());
    }

    pub fn add(&mut self, time: Duration) {
        self.0.record(u64::try_from(time.as_nanos()).expect("nothing takes so long")).expect("it grows");
    }

    /// In microseconds.
    pub fn at(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1_000.0
    }

    pub fn median(&self) -> f64 {
        self.at(0.5)
    }
}

/// Median and p99, in microseconds.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, p99) = (self.median(), self.at(0.99));
        let digits = if median < 100.0 { 2 } else { 0 };
        write!(f, "{median:8.digits$} / {p99:8.digits$}")
    }
}
