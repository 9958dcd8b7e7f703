use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::{
    case_folder::CaseFolder,
    comparison::{CaseMismatch, mismatches, updated},
    expectation::CaseExpectation,
    http_script::HttpScript,
    model_script::ModelScript,
    observation::CaseObservation,
    plugin_case::{CaseInput, PluginCase},
};
use crate::{
    app::{App, LONE_RUN, LonePluginFailure, LonePluginHost},
    error::{ErrorKind, Fault, Report},
    event::{Event, PluginRequestOutcome},
    kv::{KvError, KvPrecondition, KvStore, KvStores},
    plugin::{FixedInputs, Plugin, PluginPackage},
    trial::{
        completion_trial::complete,
        fixture::{BytesFixture, CompletionFixture, FaultFixture, RequestFixture, StepFixture, json_or_text},
        model_query::StepModels,
        record::TrialRecord,
        step_trial::step,
        tool_trial::call_tool,
    },
};

/// The outcome of a test case.
#[derive(Debug)]
pub struct CaseOutcome {
    /// The reasons why the case fails; none if it passes.
    pub mismatches: Vec<CaseMismatch>,
    /// The `expect` with which the case would pass.
    pub updated: Map<String, Value>,
    /// `true` if the case fails or expects nothing, and would pass with `updated`.
    pub can_be_updated: bool,
    /// The log and the figures of the call.
    pub record: TrialRecord,
    /// The time that the case took.
    pub elapsed: Duration,
}

impl CaseOutcome {
    /// Returns `true` if the outcome is the expected one.
    pub fn is_passed(&self) -> bool {
        self.mismatches.is_empty()
    }
}

/// Runs a test case: loads the plugin with the grants of the case, calls it once, and compares the outcome.
///
/// # Errors
///
/// A [`Report`] if the case has a mistake, such as a tool that the plugin does not have. A failure of the plugin is a part
/// of the outcome.
pub async fn run_case(app: &App, package: &Arc<PluginPackage>, case: &PluginCase) -> Result<CaseOutcome, Report> {
    let (started, host) = (Instant::now(), &case.host);
    let folder = CaseFolder::new(&host.files, &case.uses.files, host.clock.0)?;
    let (http, models) = (Arc::new(HttpScript::new(host.http.clone())), ModelScript::new(&host.models));
    let stores = KvStores::single();
    let store = stores.in_memory();
    fill(&store, &host.kv).await?;
    let inputs = FixedInputs { start_ms: host.clock.0, seed: host.random };
    let lone_host = LonePluginHost::of_case(stores, inputs, http.clone());
    let mut observed = CaseObservation { main_keys: main_keys(&case.input), ..CaseObservation::default() };
    let record = match app.load_alone_on(lone_host, package, &case.uses, folder.path()).await {
        Ok(loaded) => {
            let models = models.as_ref().map(|models| models as &dyn StepModels);
            call(&loaded.plugin, &case.input, models, &mut observed).await?
        }
        Err(LonePluginFailure { report, .. }) if report.kind == ErrorKind::Usage => return Err(report),
        Err(LonePluginFailure { report, is_missing_grant }) => {
            let message = report.to_string();
            let fault = if is_missing_grant { Fault::Denied { message } } else { Fault::Other { message } };
            observe_fault(&mut observed, Some(fault));
            TrialRecord::default()
        }
    };
    observed.set("log", json!(record.log));
    observed.set("kv", entries(&store).await?);
    observed.set("http", http.take_requests().into());
    let paths = case.expect.files.iter().flatten().map(|(path, _)| path);
    observed.set("files", paths.map(|path| (path.clone(), folder.content(path))).collect());
    observed.unanswered = http.take_unanswered();
    observed.unanswered.extend(models.iter().flat_map(ModelScript::take_unanswered));
    hide_folder(&mut observed, &folder);
    let (mismatches, updated) = (mismatches(&case.expect, &observed), updated(&case.expect, &observed));
    let expects_nothing = case.expect == CaseExpectation::default();
    // No `expect` helps a case that leaves a request unanswered.
    let can_be_updated = observed.unanswered.is_empty() && (expects_nothing || !mismatches.is_empty());
    Ok(CaseOutcome { mismatches, updated, can_be_updated, record, elapsed: started.elapsed() })
}

/// Returns the keys that `--update` writes for a case without expectations.
fn main_keys(input: &CaseInput) -> &'static [&'static str] {
    match input {
        CaseInput::Call(_) => &["result"],
        CaseInput::Step(_) => &["decision"],
        CaseInput::Complete(_) => &["reply"],
    }
}

/// Calls the plugin, and adds the outcome to `observed`.
async fn call(
    plugin: &Arc<Plugin>,
    input: &CaseInput,
    models: Option<&dyn StepModels>,
    observed: &mut CaseObservation,
) -> Result<TrialRecord, Report> {
    let mut denials = Vec::new();
    let mut watch = |event: &Event| {
        if let Event::PluginRequest { outcome: PluginRequestOutcome::Refused, reason: Some(reason), .. } = event {
            denials.push(reason.clone());
        }
    };
    let (fault, record) = match input {
        CaseInput::Call(call) => {
            let arguments = json!(call.arguments).to_string();
            let trial = call_tool(plugin, &call.tool, &arguments, &mut watch).await?;
            observe_text(observed, trial.result.text());
            let json = trial.to_json();
            observed.set("changes", without_nulls(&json["proposal"]["changes"]));
            observed.set("diff", json["proposal"]["diff"].clone());
            (trial.fault, trial.record)
        }
        CaseInput::Step(input) => {
            let trial = step(plugin, StepFixture::clone(input), models, &mut watch).await?;
            let decision = Value::Object(trial.decision);
            let states = [&decision["state"], &decision["before"]["state"]];
            observed.set("state", states.into_iter().find(|state| !state.is_null()).cloned().unwrap_or_default());
            observed.set("edits", decision["edits"].clone());
            observed.set("decision", decision);
            (trial.fault, trial.record)
        }
        CaseInput::Complete(request) => {
            let trial = complete(plugin, RequestFixture::clone(request), &mut watch).await?;
            if let Ok(reply) = &trial.reply {
                observed.set("reply", json!(CompletionFixture::from(reply)));
                observe_text(observed, reply.clone().into_message(LONE_RUN).text_content());
            }
            (trial.reply.err(), trial.record)
        }
    };
    observed.denials = denials;
    observe_fault(observed, fault);
    Ok(record)
}

/// Returns a list of mappings without the keys whose value is null.
fn without_nulls(list: &Value) -> Value {
    let parts = |entry: &Value| -> Value {
        let parts = entry.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        parts.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    list.as_array().map_or(Value::Null, |list| list.iter().map(parts).collect())
}

/// Adds a text, and its value if it is JSON.
fn observe_text(observed: &mut CaseObservation, text: String) {
    let json = json_or_text(&text);
    if !json.is_string() || text.starts_with('"') {
        observed.set("json", json);
    }
    observed.set("result", text.into());
}

fn observe_fault(observed: &mut CaseObservation, fault: Option<Fault>) {
    if let Some(fault) = &fault {
        let FaultFixture { kind, message, .. } = fault.into();
        observed.set("error", json!({ "kind": kind, "message": message }));
    }
    if let Some(Fault::Denied { message }) = &fault {
        observed.denials.push(message.clone());
    }
    observed.fault = fault;
}

/// Replaces the path of the case's folder, which differs each time.
fn hide_folder(observed: &mut CaseObservation, folder: &CaseFolder) {
    let values = std::mem::take(&mut observed.values);
    observed.values = values.into_iter().map(|(key, value)| (key, folder.without_root(value))).collect();
    observed.denials.iter_mut().for_each(|denial| *denial = folder.text_without_root(denial));
    observed.fault = observed.fault.take().map(|fault| {
        let message = folder.text_without_root(&fault.to_string());
        fault.saying(message)
    });
}

/// Writes the entries that the store has before the call.
async fn fill(store: &KvStore, entries: &BTreeMap<String, BytesFixture>) -> Result<(), Report> {
    for (key, BytesFixture(value)) in entries {
        let written = store.write(key.clone(), KvPrecondition::Anything, Some(value.clone())).await;
        written.map_err(|error| {
            Report::new(ErrorKind::Usage, format!("host.kv: `{}` cannot be stored", key.escape_debug())).cause(error)
        })?;
    }
    Ok(())
}

/// Returns the entries of a store.
async fn entries(store: &KvStore) -> Result<Value, Report> {
    let unreadable = |error: KvError| Report::new(ErrorKind::Bug, "the store of the case cannot be read").cause(error);
    let (mut entries, mut after) = (Map::new(), None);
    // The quota of a store bounds its keys.
    loop {
        let keys = store.keys(String::new(), after).await.map_err(unreadable)?;
        let Some(last) = keys.last().cloned() else { return Ok(entries.into()) };
        for key in keys {
            if let Some(entry) = store.get(key.clone()).await.map_err(unreadable)? {
                entries.insert(key, json!(BytesFixture(entry.value)));
            }
        }
        after = Some(last);
    }
}
