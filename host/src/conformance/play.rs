//! The run of one attack: it is loaded as any plugin is, run by an agent, and observed.

use std::{
    collections::HashSet,
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::time::timeout;

use super::{
    AttackResult, AttackStatus,
    attack::{Attack, AttackVerdict},
    attack_run::{AttackRun, DONE, INSTRUCTIONS, TEAM_TOKENS, TURNS},
    attack_settings::settings,
    baseline, escapes,
    fixture::AttackFixture,
    link_swapper::LinkSwapper,
    observer::{AttackObserver, EventFormatter},
};
use crate::{
    agent::{Agent, RunError, Runner},
    approval::{ApprovalBroker, ApprovalInbox, HeadlessPolicy, QuestionKind, TrustedSubjects},
    builtin::ApprovalMiddleware,
    capability::{Budget, Ceiling, CeilingBound, Grant},
    chat::{Message, ToolCall},
    error::{Fault, cut, why_unreadable, without_number},
    event::{EventSink, RunCx},
    limits,
    model::{ModelInfo, ScriptedCompleter},
    plugin::{
        Limits, Plugin, PluginCoordinator, PluginEffect, PluginEngine, PluginError, PluginKind, PluginModel,
        PluginModelMiddleware, PluginPackage, PluginRunMiddleware, PluginTool, PluginToolMiddleware, resolved,
    },
    team::{Member, Team},
    tool::{Tool, ToolCx, ToolOutput, WrappedTool},
};

/// Returns the wall time of each call of an attack.
fn time(attack: &Attack) -> Duration {
    if attack.hasty { limits::CONFORMANCE_HASTY_TIME } else { limits::CONFORMANCE_CALL_TIME }
}

/// Returns the processor time of each call of an attack.
fn cpu(attack: &Attack) -> Duration {
    if attack.busy { limits::CONFORMANCE_HASTY_TIME } else { Limits::default().cpu }
}

/// Plays one attack and judges it. No effect of the attack outlives the call.
pub async fn play(attack: &Attack, engine: &Arc<PluginEngine>, show: &EventFormatter) -> AttackResult {
    play_as(attack, attack, engine, show).await
}

/// Plays `played` and judges it as if it were `attack`, which may have been granted less: tests use it to see an escape.
async fn play_as(played: &Attack, attack: &Attack, engine: &Arc<PluginEngine>, show: &EventFormatter) -> AttackResult {
    let started = Instant::now();
    let row = |status, verdict, escapes: Vec<String>, detail: String| AttackResult {
        name: attack.name.clone(),
        kind: attack.kind,
        tries: attack.tries.clone(),
        expected: attack.expect.clone(),
        names: attack.names.clone(),
        verdict,
        status,
        escapes,
        detail: cut(&detail, limits::CONFORMANCE_DETAIL_CHARS),
        memory: 0,
        cpu: Duration::ZERO,
        host: None,
        duration: started.elapsed(),
    };
    let stage = match AttackFixture::new(played) {
        Ok(stage) => stage,
        Err(error) => {
            return row(
                AttackStatus::Failed,
                None,
                vec![],
                format!("the folder of the attack cannot be created: {}", without_number(&error.to_string())),
            );
        }
    };
    let swaps = match played.swaps_links.then(|| LinkSwapper::start(stage.files())).transpose() {
        Ok(swaps) => swaps,
        Err(error) => {
            return row(
                AttackStatus::Failed,
                None,
                vec![],
                format!("the links of the attack cannot be swapped: {}", without_number(&error.to_string())),
            );
        }
    };
    let seen = Arc::new(Mutex::new(AttackObserver::default()));
    let acting = act(played, attack, &stage, engine, show, &seen);
    let acted = timeout(limits::CONFORMANCE_RUN_TIME, AssertUnwindSafe(acting).catch_unwind()).await;
    stage.open_the_pipe();
    drop(swaps);

    let mut seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let mut escapes = std::mem::take(&mut seen.escapes);
    let mut verdict = None;
    let mut detail = String::new();
    match acted {
        Err(_) => escapes.push(format!("the attack did not end within {:?}", limits::CONFORMANCE_RUN_TIME)),
        Ok(Err(_)) => escapes.push("the code of the host panicked".into()),
        Ok(Ok(played)) => {
            (verdict, detail) = ending(&played, &seen);
            escapes.extend(escapes::of(attack, &stage, &played, &seen));
        }
    }
    escapes.extend(seen.of_calls(time(attack), cpu(attack), Limits::default().memory_bytes));
    match stage.changed(attack) {
        Ok(changed) => escapes.extend(changed.into_iter().map(|path| format!("the attack changed `{path}`"))),
        Err(error) => {
            escapes.push(format!("the folder of the attack cannot be read any more: {}", why_unreadable(&error)));
        }
    }
    if let Err(error) = neighbour(&stage, engine).await {
        escapes.push(format!("another plugin stopped working: {error}"));
    }
    escapes.sort();
    escapes.dedup();
    let is_named = |name: &String| detail.to_lowercase().contains(&name.to_lowercase());
    let status = match verdict {
        _ if !escapes.is_empty() => AttackStatus::Escaped,
        Some(AttackVerdict::Refused) if !attack.names.as_ref().is_none_or(is_named) => AttackStatus::Unexpected,
        Some(verdict) if attack.expect.contains(&verdict) => AttackStatus::Passed,
        _ => AttackStatus::Unexpected,
    };
    AttackResult { memory: seen.memory(), cpu: seen.cpu(), ..row(status, verdict, escapes, detail) }
}

/// Checks that another plugin of the same agent still works.
async fn neighbour(stage: &AttackFixture, engine: &Arc<PluginEngine>) -> Result<(), String> {
    let plugin = baseline::load(engine, &stage.other_settings()).await.map_err(|error| error.report().to_string())?;
    baseline::call(&plugin, RunCx::new("victim")).await.map_err(|fault| fault.to_string())
}

/// Loads the attack, and runs an agent with it.
async fn act(
    played: &Attack,
    attack: &Attack,
    stage: &AttackFixture,
    engine: &Arc<PluginEngine>,
    show: &EventFormatter,
    seen: &Arc<Mutex<AttackObserver>>,
) -> AttackRun {
    let loaded = load(played, stage, engine).await;
    let chat = stage.chat();
    let faults = Arc::new(Mutex::new(Vec::new()));
    let mut played = AttackRun {
        loaded: Ok(()),
        ended: None,
        faults: vec![],
        chat: chat.clone(),
        requests: vec![],
        other_requests: 0,
        team_requests: 0,
        tools: HashSet::new(),
        lookups: 0,
    };
    let plugin = match loaded {
        Ok(plugin) => plugin,
        Err(error) => {
            let report = error.report();
            let message = [vec![report.message], report.causes].concat().join("\n");
            seen.lock().unwrap_or_else(PoisonError::into_inner).look_at(attack, stage, &message);
            played.loaded = Err(error);
            return played;
        }
    };
    // Another plugin of the same agent, with secret settings.
    let other = baseline::load(engine, &stage.other_settings()).await;
    let model = Arc::new(ScriptedCompleter::new(script(attack, &plugin)));
    let other_model = Arc::new(ScriptedCompleter::new(script(attack, &plugin)));
    let lookups = Arc::new(AtomicUsize::new(0));
    let lookup =
        CountingTool { tool: Arc::new(baseline::lookup()), faults: Arc::default(), calls: Arc::clone(&lookups) };
    let mut agent = Agent::new("victim", INSTRUCTIONS, model.clone()).with_tool(lookup);
    agent.models = Arc::new([("other".to_owned(), other_model.clone() as _)].into());
    // The conversation must fit into one log entry of the attack.
    agent.options.behavioral_hints = false;
    // Enough iterations to see an attack that never ends.
    agent.options.max_iterations = attack.calls + TURNS;
    agent.budget.time = attack.run_time;
    let watched = |tool| CountingTool { tool, faults: Arc::clone(&faults), calls: Arc::default() };
    let tools = PluginTool::all(&plugin).map(watched);
    // If two tools have one name, the first stays.
    tools.for_each(|tool| drop(agent.tools.register(Arc::new(tool))));
    agent.effects.extend(PluginEffect::new(&plugin).map(|effect| Arc::new(effect) as _));
    agent.middleware.extend(PluginRunMiddleware::new(&plugin).map(|middleware| Arc::new(middleware) as _));
    agent.model_middleware.extend(PluginModelMiddleware::new(&plugin).map(|around| Arc::new(around) as _));
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    if let Some(around) = PluginToolMiddleware::new(&plugin) {
        agent =
            agent.with_tool_middleware(ApprovalMiddleware::new(Arc::new(around), broker.clone(), "victim", "digest"));
    }
    let info = ModelInfo::named("m");
    if let Some(model) = PluginModel::new(&plugin, info, None, None) {
        agent.completer = Arc::new(model);
    }
    if let Ok(other) = &other {
        PluginTool::all(other).for_each(|tool| drop(agent.tools.register(tool)));
    }
    played.tools = agent.tools.names().map(str::to_owned).collect();
    let team_model = Arc::new(ScriptedCompleter::new(script(attack, &plugin)));
    let runner: Arc<dyn Runner> = match PluginCoordinator::new(&plugin) {
        Some(coordinator) => Arc::new(
            Team::new("victim", coordinator)
                .with_member(Member::new(agent).with_name("member"))
                .with_completer(team_model.clone())
                .with_budget(Budget { tokens: Some(TEAM_TOKENS), ..Budget::default() }),
        ),
        None => Arc::new(agent),
    };

    let (sink, mut stream) = EventSink::channel();
    let watching = async {
        while let Some(event) = stream.next_event().await {
            seen.lock().unwrap_or_else(PoisonError::into_inner).look(attack, stage, &event, show);
        }
    };
    let running = async {
        // The event stream ends when `cx` is dropped.
        let cx = RunCx::new("victim").with_events(sink);
        tokio::select! {
            ended = runner.run(&cx, &chat, vec![Message::user("go")]) => ended,
            never = decline_all(attack, stage, seen, broker.attend()) => match never {},
        }
    };
    let (ended, ()) = tokio::join!(running, watching);

    let answer = match &ended {
        Ok(answer) => answer.message.text_content(),
        Err(error) => error.in_full(),
    };
    let mut looks = seen.lock().unwrap_or_else(PoisonError::into_inner);
    looks.look_at(attack, stage, &answer);
    looks.look_into(attack, stage, &chat);
    (played.requests, played.other_requests) = (model.requests(), other_model.requests().len());
    played.team_requests = team_model.requests().len();
    played.lookups = lookups.load(Ordering::Relaxed);
    played.ended = Some(ended);
    played.faults = std::mem::take(&mut *faults.lock().unwrap_or_else(PoisonError::into_inner));
    played
}

/// Plays a person who reads every question and declines it.
async fn decline_all(
    attack: &Attack,
    stage: &AttackFixture,
    seen: &Mutex<AttackObserver>,
    inbox: Option<ApprovalInbox>,
) -> Infallible {
    let mut inbox = inbox;
    loop {
        let Some(asked) = async { inbox.as_mut()?.next().await }.await else { std::future::pending().await };
        if let QuestionKind::Permission { subject, detail } = &asked.question.kind {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.look_at_question(attack, stage, &subject.to_string(), detail);
        }
        // The question may have been withdrawn.
        let _ = inbox.as_ref().map(|inbox| inbox.decline(asked.id));
    }
}

async fn load(attack: &Attack, stage: &AttackFixture, engine: &Arc<PluginEngine>) -> Result<Arc<Plugin>, PluginError> {
    let package = Arc::new(PluginPackage::read(&stage.plugin())?);
    let mut settings = settings(attack.granted(), &stage.files(), &serde_json::json!({}), time(attack));
    settings.limits.cpu = cpu(attack);
    let plugin = Arc::new(Plugin::load(engine, &package, &settings).await?);
    let Some(ceiling) = &attack.ceiling else { return Ok(plugin) };
    let grant = Some(Grant::all_of(ceiling, resolved(&stage.files())));
    plugin.under(&Ceiling::of("agents.starter.delegable", CeilingBound { grant, ..CeilingBound::default() }))
}

/// Returns the replies of the model: it calls the attack's tool, or else the host's own, and is done.
fn script(attack: &Attack, plugin: &Plugin) -> Vec<Result<crate::model::Completion, Fault>> {
    let tool = plugin.tools().first().map(|spec| spec.name.as_str());
    let call = |n: u32| match tool {
        Some(tool) => ScriptedCompleter::calls(&[(&format!("call-{n}"), tool, &attack.arguments)]),
        None => ScriptedCompleter::calls(&[(&format!("call-{n}"), baseline::LOOKUP, "{}")]),
    };
    let done = (0..limits::ASKS_IN_A_ROW + TURNS).map(|_| ScriptedCompleter::text(DONE));
    match attack.kind {
        PluginKind::RunMiddleware => done.collect(),
        // More replies than the budget allows.
        PluginKind::Coordinator => (0..TEAM_TOKENS).map(|_| ScriptedCompleter::text(DONE)).collect(),
        _ => (0..attack.calls).map(call).chain(done).collect(),
    }
}

/// A tool that counts its calls and records their faults, which only a model would see otherwise.
struct CountingTool {
    tool: Arc<dyn Tool>,
    faults: Arc<Mutex<Vec<Fault>>>,
    calls: Arc<AtomicUsize>,
}

#[async_trait]
impl WrappedTool for CountingTool {
    fn inner(&self) -> &dyn Tool {
        &*self.tool
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let called = self.tool.call(cx, call).await;
        if let Err(fault) = &called {
            self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault.clone());
        }
        called
    }
}

/// Returns the verdict and its detail.
fn ending(played: &AttackRun, seen: &AttackObserver) -> (Option<AttackVerdict>, String) {
    let of_fault = |fault: &Fault| match fault {
        Fault::Timeout { .. } => Some(AttackVerdict::TimedOut),
        Fault::TooLarge { .. } | Fault::Exhausted { .. } => Some(AttackVerdict::Limited),
        _ => None,
    };
    if let Err(error) = &played.loaded {
        let verdict = match error {
            PluginError::Probe { fault, .. } => of_fault(fault).unwrap_or(AttackVerdict::Refused),
            _ => AttackVerdict::Refused,
        };
        let report = error.report();
        return (Some(verdict), std::iter::once(report.message).chain(report.causes).collect::<Vec<_>>().join(": "));
    }
    let mut faults: Vec<&Fault> = played.faults.iter().collect();
    let mut detail = played.faults.first().map(Fault::to_string).or_else(|| seen.failure().cloned());
    match &played.ended {
        Some(Err(error)) => {
            detail.get_or_insert_with(|| error.in_full());
            match error {
                RunError::Model(fault)
                | RunError::Effect { fault, .. }
                | RunError::Middleware { fault, .. }
                | RunError::Coordinator { fault, .. }
                | RunError::Member { fault, .. }
                | RunError::Rejected { fault, .. } => faults.push(fault),
                _ => {}
            }
        }
        Some(Ok(answer)) => drop(detail.get_or_insert_with(|| answer.message.text_content())),
        None => {}
    }
    let is_exhausted = matches!(&played.ended, Some(Err(error)) if error.is_exhausted());
    let verdict = seen
        .worst_call()
        .or_else(|| faults.into_iter().find_map(of_fault))
        .or(is_exhausted.then_some(AttackVerdict::Limited))
        .unwrap_or(AttackVerdict::Held);
    (Some(verdict), detail.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capability::{FileAccess, Power},
        conformance::AttackSuite,
    };

    /// Plays a built-in attack with all that it requests, and with these files and powers too.
    async fn with(name: &str, files: Option<FileAccess>, powers: &[Power]) -> AttackResult {
        let (suite, engine) = (AttackSuite::embedded().unwrap(), Arc::new(PluginEngine::new(None).unwrap()));
        let attack = suite.attacks().iter().find(|attack| attack.name == name).unwrap();
        let mut granted = Attack { grant: None, ceiling: None, ..attack.clone() };
        granted.wants.files = files.or(granted.wants.files);
        granted.wants.powers.extend(powers);
        let show: EventFormatter = Arc::new(|_| None);
        play_as(&granted, attack, &engine, &show).await
    }

    #[tokio::test]
    async fn escapes_of_attacks_are_detected() {
        const LOOKS: &[Power] = &[Power::SeeMessages, Power::SeeArguments, Power::SeeResults];
        let write = Some(FileAccess::Write);
        for (name, files, powers, escapes) in [
            ("effect-note-unasked", None, &[][..], &["a note was added without the power `note`"][..]),
            ("effect-result-unasked", None, &[], &["the conversation was changed"]),
            ("effect-rewrite-unasked", None, &[], &["the conversation was changed"]),
            ("effect-hide-unasked", None, &[], &["a tool was hidden"]),
            ("effect-stop-unasked", None, &[], &["the run was stopped without the power `stop`"]),
            ("effect-ask-unasked", None, &[], &["the model was called more often than allowed"]),
            ("effect-system-prompt", None, &[Power::SystemPrompt], &["the instructions were changed"]),
            (
                "effect-chat-blank",
                None,
                LOOKS,
                &[
                    "the output contains a secret: a message",
                    "the output contains a secret: the arguments of a call",
                    "the output contains a secret: the result of a call",
                ],
            ),
            (
                "coordinator-chat-blank",
                None,
                LOOKS,
                &[
                    "the output contains a secret: a message",
                    "the output contains a secret: the arguments of a call",
                    "the output contains a secret: the result of a call",
                ],
            ),
            ("coordinator-ask-unasked", None, &[], &["the model of the team was called without the power `ask-model`"]),
            ("tool-chat-blank", None, LOOKS, &["the output contains a secret: the result of a call"]),
            ("tool-files-write-where-read", write, &[], &["the attack reports that it succeeded"]),
            ("tool-ceiling-clock", None, &[], &["the attack reports that it succeeded"]),
            ("tool-ceiling-files", None, &[], &["the attack reports that it succeeded"]),
            ("effect-ceiling-note", None, &[], &["a note was added without the power `note`"]),
            ("effect-ask-other", None, &[], &["a model was called that was not granted"]),
            ("model-middleware-answer-unasked", None, &[], &["the answer is not that of the model"]),
            ("model-middleware-reply-unasked", None, &[], &["the answer is not that of the model"]),
            ("model-middleware-request-unasked", None, &[], &["a request was changed without permission"]),
            ("model-middleware-request-blind", None, LOOKS, &["a request was changed without permission"]),
            ("model-middleware-route-unasked", None, &[], &["a model was called that was not granted"]),
            ("model-middleware-retry-route-unasked", None, &[], &["a model was called that was not granted"]),
            (
                "model-middleware-outgoing-blank",
                None,
                LOOKS,
                &[
                    "the output contains a secret: a message",
                    "the output contains a secret: the arguments of a call",
                    "the output contains a secret: the result of a call",
                ],
            ),
            ("tool-files-remove-where-read", write, &[], &["the attack changed `files/canary.txt`"]),
            ("tool-files-link-where-read", write, &[], &["the attack changed `files/new.txt`"]),
            ("tool-files-times-where-read", write, &[], &["the attack changed `files/canary.txt`"]),
        ] {
            let row = with(name, files, powers).await;
            assert_eq!(row.status, AttackStatus::Escaped, "{name}: {row:?}");
            for escape in escapes {
                assert!(row.escapes.iter().any(|there| there == escape), "{name}: {escape}: {:?}", row.escapes);
            }
        }
    }
}
