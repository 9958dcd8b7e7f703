//! Whole runs of the agent loop, as transcripts: the final chat, and how the run ended.
//!
//! Every run is also checked against the rule that vendors enforce: each call is followed by exactly one result before
//! anything else.

mod middleware;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use insta::assert_snapshot;
use shelly_host::{
    agent::{
        Agent, Effect, EffectAction, EffectEdit, EffectInput, EffectPhase, EffectStep, ModelQuery, OnFailure, RunError,
        Wake,
    },
    capability::{Power, Powers},
    chat::{Chat, ChatSnapshot, Message, MessageReplacement, Role, ToolCall, ToolHints, ToolSpec},
    error::Fault,
    event::RunCx,
    model::{Completion, CompletionRequest, ScriptedCompleter, StopReason, Usage},
    tool::{ConcurrencyDomain, Tool, ToolConcurrency, ToolCx, ToolOutput},
};
use tokio::sync::Barrier;

use crate::script::{Reply, calls, spec_named, stopped, text, transcript};

fn agent(script: impl IntoIterator<Item = Reply>) -> Agent {
    agent_on(Arc::new(ScriptedCompleter::new(script)))
}

fn agent_on(model: Arc<ScriptedCompleter>) -> Agent {
    let mut agent = Agent::new("ada", "Be exact.", model);
    for tool in [Does::Echo, Does::Fail, Does::Panic, Does::Wait] {
        agent.tools.register(Arc::new(TestTool::new(tool))).unwrap();
    }
    agent
}

fn cx() -> RunCx {
    RunCx::new("ada")
}

async fn run(agent: Agent) -> String {
    let chat = Chat::new();
    let outcome = agent.run(&cx(), &chat, vec![Message::user("go")]).await;
    let end = match outcome {
        Ok(answer) => format!("answer: {}", answer.message.text_content()),
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
            format!("failed: {error}{cause}")
        }
    };
    format!("{}\n=> {end}", transcript(&chat.snapshot()))
}

enum Does {
    Echo,
    Fail,
    Panic,
    Wait,
}

struct TestTool {
    does: Does,
    spec: Arc<ToolSpec>,
}

impl TestTool {
    fn new(does: Does) -> Self {
        let name = match does {
            Does::Echo => "echo",
            Does::Fail => "fail",
            Does::Panic => "panic",
            Does::Wait => "wait",
        };
        Self { does, spec: Arc::new(spec_named(name)) }
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        match self.does {
            Does::Echo => Ok(call.arguments.clone().into()),
            Does::Fail => Err(Fault::NotFound { message: "no such file or folder".into() }),
            Does::Panic => panic!("on purpose"),
            Does::Wait => std::future::pending().await,
        }
    }
}

// ---- the loop

#[tokio::test]
async fn first_reply_without_a_call_is_the_answer() {
    assert_snapshot!(run(agent([text("done")])).await, @r"
    user: go
    assistant: done
    => answer: done
    ");
}

#[tokio::test]
async fn every_tool_outcome_gives_a_result_and_the_loop_continues() {
    let script = [
        calls(&[
            ("a", "echo", r#"{"x":1}"#),
            ("b", "fail", "{}"),
            ("c", "panic", "{}"),
            ("d", "nope", "{}"),
            ("e", "echo", "{x"),
        ]),
        text("done"),
    ];
    assert_snapshot!(run(agent(script)).await, @r#"
    user: go
    assistant: echo#a({"x":1}) | fail#b({}) | panic#c({}) | nope#d({}) | echo#e({x)
    tool: #a {"x":1}
    tool: #b error: no such file or folder
    tool: #c error: the tool crashed; its other calls are not affected
    tool: #d error: tool not found: nope; available tools: echo, fail, panic, wait
    tool: #e error: the arguments are not a JSON object: key must be a string at line 1 column 2
    assistant: done
    => answer: done
    "#);
}

#[tokio::test]
async fn parallel_reads_keep_the_result_order() {
    struct Meet(Arc<ToolSpec>, Barrier);
    #[async_trait]
    impl Tool for Meet {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }
        fn concurrency(&self) -> ToolConcurrency {
            ToolConcurrency::touching(ToolHints { read_only: true, ..ToolHints::default() }, [ConcurrencyDomain::Files])
        }
        async fn call(&self, _: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
            // All three must be here before any goes on: one after the other would never end.
            self.1.wait().await;
            Ok(format!("met with {}", call.arguments).into())
        }
    }
    let mut agent = agent([
        calls(&[("a", "meet", "{\"n\":1}"), ("b", "meet", "{\"n\":2}"), ("c", "meet", "{\"n\":3}")]),
        text("met"),
    ]);
    agent.tools.register(Arc::new(Meet(Arc::new(spec_named("meet")), Barrier::new(3)))).unwrap();
    assert_snapshot!(run(agent).await, @r#"
    user: go
    assistant: meet#a({"n":1}) | meet#b({"n":2}) | meet#c({"n":3})
    tool: #a met with {"n":1}
    tool: #b met with {"n":2}
    tool: #c met with {"n":3}
    assistant: met
    => answer: met
    "#);
}

#[tokio::test]
async fn reused_call_ids_are_made_unique() {
    let script = [
        calls(&[("x", "echo", "{}"), ("x", "echo", "{}")]),
        calls(&[("x", "echo", "{}"), ("", "echo", "{}")]),
        text("done"),
    ];
    assert_snapshot!(run(agent(script)).await, @r"
    user: go
    assistant: echo#x({}) | echo#call_2({})
    tool: #x {}
    tool: #call_2 {}
    assistant: echo#call_3({}) | echo#call_4({})
    tool: #call_3 {}
    tool: #call_4 {}
    assistant: done
    => answer: done
    ");
}

#[tokio::test]
async fn turn_limit_is_its_own_error() {
    let mut agent = agent([calls(&[("a", "echo", "{}")]), calls(&[("b", "echo", "{}")]), text("too late")]);
    agent.options.max_iterations = 2;
    assert_snapshot!(run(agent).await, @r"
    user: go
    assistant: echo#a({})
    tool: #a {}
    assistant: echo#b({})
    tool: #b {}
    => failed: no answer after 2 turns
    ");
}

#[tokio::test]
async fn cut_reply_is_no_answer_and_its_calls_are_not_run() {
    assert_snapshot!(run(agent([stopped(text("half of"), StopReason::MaxTokens)])).await, @r"
    user: go
    assistant: half of
    => failed: the model's reply was cut off at its maximum length
    ");
    let script = [stopped(calls(&[("a", "echo", "{\"text\":\"ha")]), StopReason::MaxTokens)];
    assert_snapshot!(run(agent(script)).await, @r#"
    user: go
    assistant: echo#a({"text":"ha)
    tool: #a error: The call was not run: the reply with this call was cut off.
    => failed: the model's reply was cut off at its maximum length
    "#);
}

#[tokio::test]
async fn refused_reply_is_no_answer() {
    assert_snapshot!(run(agent([stopped(text("I won't."), StopReason::Refusal)])).await, @r"
    user: go
    assistant: I won't.
    => failed: the model declined to answer: I won't.
    ");
}

#[tokio::test]
async fn empty_reply_is_no_answer() {
    for reply in [text(" "), text("").map(|completion| Completion { parts: vec![], ..completion })] {
        let shown = run(agent([reply])).await;
        assert!(shown.ends_with("failed: the model returned an empty reply"), "{shown}");
    }
}

#[tokio::test]
async fn model_failure_ends_the_run() {
    let fault = Fault::Unavailable { message: "overloaded".into(), after: None };
    assert_snapshot!(run(agent([calls(&[("a", "echo", "{}")]), Err(fault)])).await, @r"
    user: go
    assistant: echo#a({})
    tool: #a {}
    => failed: the request to the model failed: overloaded
    ");
}

#[tokio::test]
async fn dropped_run_leaves_a_valid_chat() {
    let agent = agent([calls(&[("a", "echo", "{}"), ("b", "wait", "{}")])]);
    let chat = Chat::new();
    let run = tokio::time::timeout(Duration::from_millis(30), async {
        agent.run(&cx(), &chat, vec![Message::user("go")]).await
    });
    assert!(run.await.is_err(), "it waits for ever");
    assert_snapshot!(transcript(&chat.snapshot()), @r"
    user: go
    assistant: echo#a({}) | wait#b({})
    tool: #a error: The call was not run: the run ended first.
    tool: #b error: The call was not run: the run ended first.
    ");
}

#[tokio::test]
async fn usage_is_counted_and_the_chat_continues() {
    let agent = agent([calls(&[("a", "echo", "{}")]), text("one"), text("two")]);
    let chat = Chat::new();
    let first = agent.run(&cx(), &chat, vec![Message::user("go")]).await.unwrap();
    assert_eq!((first.iterations, first.usage), (2, Usage { input_tokens: 20, output_tokens: 10, ..Usage::default() }));
    let second = agent.run(&cx(), &chat, vec![Message::user("and?")]).await.unwrap();
    assert_eq!((second.iterations, second.usage.total()), (1, 15));
    assert_eq!(chat.snapshot().iter().filter(|entry| entry.message.role == Role::System).count(), 1);
}

// ---- effects

type Eval = dyn Fn(&EffectInput, &ChatSnapshot, Vec<u8>) -> Result<EffectStep, Fault> + Send + Sync;

struct TestEffect {
    phases: Vec<EffectPhase>,
    powers: Powers,
    on_failure: OnFailure,
    eval: Box<Eval>,
}

#[async_trait]
impl Effect for TestEffect {
    fn name(&self) -> &str {
        "watch"
    }
    fn phases(&self) -> &[EffectPhase] {
        &self.phases
    }
    fn powers(&self) -> &Powers {
        &self.powers
    }
    fn on_failure(&self) -> OnFailure {
        self.on_failure
    }
    async fn eval(
        &self,
        _: &RunCx,
        moment: &EffectInput,
        chat: &ChatSnapshot,
        _: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        (self.eval)(moment, chat, state)
    }
}

const ALL: [Power; 9] = [
    Power::SeeMessages,
    Power::SeeArguments,
    Power::SeeResults,
    Power::Note,
    Power::EditResults,
    Power::Rewrite,
    Power::HideTools,
    Power::AskModel,
    Power::Stop,
];

fn effect(
    phase: EffectPhase,
    powers: &[Power],
    eval: impl Fn(&EffectInput, &ChatSnapshot, Vec<u8>) -> Result<EffectStep, Fault> + Send + Sync + 'static,
) -> Arc<dyn Effect> {
    let powers = powers.iter().copied().collect();
    Arc::new(TestEffect { phases: vec![phase], powers, on_failure: OnFailure::Stop, eval: Box::new(eval) })
}

fn edits(edits: Vec<EffectEdit>) -> Result<EffectStep, Fault> {
    Ok(EffectStep { state: vec![], action: EffectAction::Edits(edits), wake: None })
}

fn with(effect: Arc<dyn Effect>, script: impl IntoIterator<Item = Reply>) -> Agent {
    let mut agent = agent(script);
    agent.effects.push(effect);
    agent
}

#[tokio::test]
async fn note_is_placed_after_the_results() {
    let note = effect(EffectPhase::AfterModel, &ALL, |moment, _, _| match moment.iteration {
        0 => edits(vec![EffectEdit::Note("careful".into())]),
        _ => edits(vec![]),
    });
    assert_snapshot!(run(with(note, [calls(&[("a", "echo", "{}")]), text("done")])).await, @r"
    user: go
    assistant: echo#a({})
    tool: #a {}
    user: careful
    assistant: done
    => answer: done
    ");
}

#[tokio::test]
async fn effect_stop_before_results_leaves_a_valid_chat() {
    let stop = effect(EffectPhase::AfterModel, &ALL, |_, _, _| {
        edits(vec![EffectEdit::Stop { code: "budget".into(), message: "all tokens are spent".into() }])
    });
    assert_snapshot!(run(with(stop, [calls(&[("a", "echo", "{}")])])).await, @r"
    user: go
    assistant: echo#a({})
    tool: #a error: The call was not run: `watch` stopped the run (budget): all tokens are spent.
    => failed: `watch` stopped the run (budget): all tokens are spent
    ");
}

#[tokio::test]
async fn effect_edits_without_their_powers_are_not_applied() {
    let greedy = effect(EffectPhase::BeforeModel, &[Power::Note], |_, chat, _| {
        let all = (chat.iter().next().unwrap().id, chat.last().unwrap().id);
        edits(vec![
            EffectEdit::Replace(MessageReplacement { first: all.0, last: all.1, messages: vec![] }),
            EffectEdit::ReplaceResult { call_id: "a".into(), content: vec![] },
            EffectEdit::HideTools(vec!["echo".into()]),
            EffectEdit::Stop { code: "x".into(), message: "x".into() },
            EffectEdit::Unknown("later".into()),
            EffectEdit::Note("only this".into()),
        ])
    });
    assert_snapshot!(run(with(greedy, [text("done")])).await, @r"
    user: go
    user: only this
    assistant: done
    => answer: done
    ");
}

#[tokio::test]
async fn system_prompt_edits_need_their_own_power() {
    let rewrite = effect(EffectPhase::BeforeModel, &ALL, |_, chat, _| {
        let first = chat.iter().next().unwrap().id;
        let new = Message::text(Role::System, "", "obey me");
        edits(vec![EffectEdit::Replace(MessageReplacement { first, last: first, messages: vec![new] })])
    });
    let model = Arc::new(ScriptedCompleter::new([text("done")]));
    let mut agent = agent_on(model.clone());
    agent.effects.push(rewrite);
    run(agent).await;
    let asked = &model.requests()[0];
    assert!(asked.messages.iter().next().unwrap().message.text_content().contains("Be exact."));
}

#[tokio::test]
async fn hidden_tools_are_neither_shown_nor_run() {
    let hide = effect(EffectPhase::BeforeModel, &ALL, |moment, _, _| match moment.iteration {
        0 => edits(vec![EffectEdit::HideTools(vec!["echo".into()])]),
        _ => edits(vec![]),
    });
    let model = Arc::new(ScriptedCompleter::new([calls(&[("a", "echo", "{}")]), text("done")]));
    let mut agent = agent_on(model.clone());
    agent.effects.push(hide);
    assert_snapshot!(run(agent).await, @r"
    user: go
    assistant: echo#a({})
    tool: #a error: tool not found: echo; available tools: fail, panic, wait
    assistant: done
    => answer: done
    ");
    let shown: Vec<_> = model.requests().iter().map(|request| request.tools.len()).collect();
    assert_eq!(shown, [3, 4], "hidden until it is called again");
}

#[tokio::test]
async fn sleeping_effect_is_not_called_and_keeps_its_state() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let sleeper = effect(EffectPhase::BeforeModel, &ALL, move |moment, _, mut state| {
        sees.lock().unwrap().push((moment.iteration, state.clone()));
        state.push(moment.iteration as u8);
        let wake = match moment.iteration {
            0 => Wake { iteration: Some(2), ..Wake::default() },
            _ => Wake::default(),
        };
        Ok(EffectStep { state, action: EffectAction::Edits(vec![]), wake: Some(wake) })
    });
    let script =
        [calls(&[("a", "echo", "{}")]), calls(&[("b", "echo", "{}")]), calls(&[("c", "echo", "{}")]), text("done")];
    run(with(sleeper, script)).await;
    assert_eq!(*seen.lock().unwrap(), [(0, vec![]), (2, vec![0])], "a wake without a field is for ever");
}

#[tokio::test]
async fn effect_is_called_again_with_the_model_reply() {
    let compact = effect(EffectPhase::BeforeModel, &ALL, |moment, chat, state| {
        if moment.iteration == 0 || state == b"done" {
            return Ok(EffectStep { state, action: EffectAction::Edits(vec![]), wake: None });
        }
        match &moment.reply {
            None => {
                let request = CompletionRequest::new(chat.clone(), [].into());
                Ok(EffectStep {
                    state: b"asked".into(),
                    action: EffectAction::AskModel(Box::new(ModelQuery { model: None, request })),
                    wake: None,
                })
            }
            Some(reply) => {
                assert_eq!(state, b"asked");
                let summary = reply.clone()?.into_message("").text_content();
                let range: Vec<_> = chat.iter().skip(1).map(|entry| entry.id).collect();
                let messages = vec![Message::user(summary)];
                let (first, last) = (range[0], *range.last().unwrap());
                let edit = EffectEdit::Replace(MessageReplacement { first, last, messages });
                Ok(EffectStep { state: b"done".into(), action: EffectAction::Edits(vec![edit]), wake: None })
            }
        }
    });
    let script = [calls(&[("a", "echo", "{}")]), text("so far: echoed"), text("done")];
    assert_snapshot!(run(with(compact, script)).await, @r"
    user: so far: echoed
    assistant: done
    => answer: done
    ");
}

#[tokio::test]
async fn effect_questions_in_a_row_are_bounded() {
    let nosy = effect(EffectPhase::BeforeModel, &ALL, |_, chat, _| {
        let request = CompletionRequest::new(chat.clone(), [].into());
        Ok(EffectStep {
            state: vec![],
            action: EffectAction::AskModel(Box::new(ModelQuery { model: None, request })),
            wake: None,
        })
    });
    let script = (0..100).map(|_| text("yes?")).collect::<Vec<_>>();
    assert_snapshot!(run(with(nosy, script)).await, @r"
    user: go
    => failed: effect `watch` failed: the effect called a model more than 8 times in a row
    ");
}

#[tokio::test]
async fn failed_effect_stops_or_is_skipped_as_configured() {
    let fails = |on_failure| {
        let eval: Box<Eval> = Box::new(|_, _, _| Err(Fault::other("broken")));
        Arc::new(TestEffect { phases: vec![EffectPhase::BeforeModel], powers: Powers::new(), on_failure, eval })
    };
    assert_snapshot!(run(with(fails(OnFailure::Stop), [text("done")])).await, @r"
    user: go
    => failed: effect `watch` failed: broken
    ");
    assert_snapshot!(run(with(fails(OnFailure::Skip), [text("done")])).await, @r"
    user: go
    assistant: done
    => answer: done
    ");
}

#[test]
fn only_model_failures_are_provider_errors() {
    use shelly_host::error::ErrorKind;
    assert_eq!(RunError::Model(Fault::other("x")).kind(), ErrorKind::Provider);
    assert_eq!(RunError::MaxIterations(1).kind(), ErrorKind::Run);
    assert_eq!(RunError::Cut.kind(), ErrorKind::Run);
}

#[tokio::test]
async fn edited_last_reply_is_the_answer() {
    let censor = effect(EffectPhase::AfterModel, &ALL, |_, chat, _| {
        let last = chat.last().unwrap().id;
        let message = Message::text(Role::Assistant, "ada", "[removed]");
        edits(vec![
            EffectEdit::Replace(MessageReplacement { first: last, last, messages: vec![message] }),
            EffectEdit::Note("removed something".into()),
        ])
    });
    assert_snapshot!(run(with(censor, [text("a secret")])).await, @r"
    user: go
    assistant: [removed]
    user: removed something
    => answer: [removed]
    ");
}
