use std::{
    pin::pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::oneshot;

use super::{
    delegate_args::{DELEGATE_TOOL, DelegateArgs, DelegateCall},
    delegate_calls::{answer_children, delegate_tasks},
};
use crate::{
    agent::{
        context::{DelegateQuestion, InteractionMode, QuestionRoute, RunState, is_same_name, no_agent},
        journal::{DelegationReport, fit},
    },
    chat::{ToolResultContent, ToolSpec},
    error::{Fault, seconds},
    limits,
    skill::LoadSkill,
    tool::{
        self, CompletionStatus, FnTool, READ_RESULT, RunControl, TaskCompletion, TaskHandoff, Tool, ToolConcurrency,
        ToolCx, ToolOutput,
    },
};

/// The tools that the host adds to a run that needs them: most depend on its position, such as its parent, `ask_user` on a
/// person, and `load_skill` on skills. No plugin's tool may have one of these names, since it would be called in their
/// place.
pub const RUN_TOOLS: [&str; 9] = [
    "list_agents",
    DELEGATE_TOOL,
    "answer_delegation_questions",
    "task_complete",
    "request_input",
    "handoff",
    READ_RESULT,
    "ask_user",
    LoadSkill::NAME,
];

/// Returns the tools that depend on the position of a run. `answers_may_be_replaced`: middleware around the run may still
/// change an answer. `has_parked_children`: the run was interrupted, and agents had asked it; it can answer them even if it may
/// not delegate any more.
pub(crate) fn run_tools(
    me: &Arc<RunState>,
    answers_may_be_replaced: bool,
    has_parked_children: bool,
) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    let delegates = me.delegates_to().is_some();
    if delegates {
        tools.push(Arc::new(list_agents(Arc::clone(me))));
        tools.push(Arc::new(delegate(Arc::clone(me))));
    }
    if has_parked_children || (delegates && me.options.interaction != InteractionMode::Blocking) {
        tools.push(Arc::new(answer_questions(Arc::clone(me))));
    }
    if me.run_origin.assignment().is_some() {
        tools.push(Arc::new(task_complete(answers_may_be_replaced)));
        tools.push(Arc::new(request_input(Arc::clone(me), answers_may_be_replaced)));
        if me.agent_group.is_some() && me.options.may_hand_over() {
            tools.push(Arc::new(handoff(Arc::clone(me), answers_may_be_replaced)));
        }
    }
    tools
}

#[derive(Deserialize, JsonSchema)]
struct ListAgentsArgs {}

fn list_agents(me: Arc<RunState>) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<ListAgentsArgs>(
            "list_agents",
            "Lists the agents that you can delegate to: names, purposes, capabilities and costs.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |_: ToolCx, ListAgentsArgs {}| {
        let others = me
            .agent_group
            .as_ref()
            .map(|agent_group| agent_group.registry.others(&me.agent, &me.ceiling))
            .unwrap_or_default();
        async move { ToolOutput::json(&others) }
    })
    .repeatable()
    .with_concurrency(ToolConcurrency::Independent)
}

fn delegate(me: Arc<RunState>) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<DelegateArgs>(
            DELEGATE_TOOL,
            "Gives tasks to other agents and waits for all of them. Each task runs in a fresh agent with its own \
             tools. Put independent tasks into one call: they run in parallel. An entry with `error` failed; the \
             others are not affected. An entry with `pending_question` waits for you: use answer_delegation_questions.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |cx: ToolCx, args: DelegateArgs| {
        let me = Arc::clone(&me);
        async move {
            let agent_group = me.delegates_to().ok_or_else(|| Fault::other("this agent cannot delegate"))?;
            reports_as_output(delegate_tasks(&me, agent_group, &cx.call, DelegateCall::of(&me, &cx, args)?).await)
        }
    })
    .repeatable()
    .with_concurrency(ToolConcurrency::Delegation { conversation: None })
    .with_time_limit(limits::DELEGATION_TIME)
    .with_result_chars(RESULT_CHARS)
}

/// Returns the reports as one JSON array, whose texts are cut to fit into [`RESULT_CHARS`].
fn reports_as_output(mut reports: Vec<DelegationReport>) -> Result<ToolOutput, Fault> {
    fit(&mut reports, limits::DELEGATION_ANSWER_CHARS);
    let output = ToolOutput::json(&reports)?;
    if output.chars() <= RESULT_CHARS {
        return Ok(output);
    }
    // Escapes of JSON can make a text six times as long. If the array is still too long, each text gets a sixteenth of its
    // share.
    let few = limits::DELEGATION_RESULT_CHARS / reports.len().max(1) / 16;
    fit(&mut reports, few);
    ToolOutput::json(&reports)
}

/// The maximum number of characters of the JSON of all reports of a call.
const RESULT_CHARS: usize = limits::DELEGATION_RESULT_CHARS * 3;

/// Answers for agents that asked.
#[derive(Deserialize, JsonSchema)]
struct AnswerQuestionsArgs {
    /// One answer for each question that you answer now.
    answers: Vec<QuestionAnswer>,
}

#[derive(Deserialize, JsonSchema)]
struct QuestionAnswer {
    /// The `delegation_id` of the entry with the question.
    delegation_id: String,
    /// The answer for the agent.
    answer: String,
}

fn answer_questions(me: Arc<RunState>) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<AnswerQuestionsArgs>(
            "answer_delegation_questions",
            "Answers questions of agents that you delegated to, and waits until each of them has ended or asks again.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |cx: ToolCx, args: AnswerQuestionsArgs| {
        let me = Arc::clone(&me);
        async move {
            let answers = args.answers.into_iter().map(|answer| (answer.delegation_id, answer.answer)).collect();
            reports_as_output(answer_children(&me, &cx.call, answers).await.map_err(Fault::invalid)?)
        }
    })
    .repeatable()
    .with_concurrency(ToolConcurrency::Delegation { conversation: None })
    .with_time_limit(limits::DELEGATION_TIME)
    .with_result_chars(RESULT_CHARS)
}

/// How your task has ended.
#[derive(Deserialize, JsonSchema)]
struct TaskCompleteArgs {
    /// The outcome of the task.
    status: CompletionStatus,
    /// What you did and found, or why the task could not be done. The agent that gave you the task reads only this.
    summary: String,
    /// Files that you changed.
    #[serde(default)]
    files_modified: Vec<String>,
    /// Tests that you ran.
    #[serde(default)]
    tests_run: Vec<String>,
    /// What is missing or doubtful.
    #[serde(default)]
    caveats: Option<String>,
}

fn task_complete(answers_may_be_replaced: bool) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<TaskCompleteArgs>(
            "task_complete",
            "Ends your task and reports to the agent that gave it to you. Call it once, when you are done or cannot \
             continue.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), |_: ToolCx, args: TaskCompleteArgs| async move {
        let TaskCompleteArgs { status, summary, files_modified, tests_run, caveats } = args;
        let caveats = caveats.filter(|caveats| !caveats.trim().is_empty());
        // The report must not be empty.
        let summary = match (summary.trim().is_empty(), &caveats) {
            (false, _) => summary,
            (true, Some(caveats)) => format!("{}: {caveats}", word(status)),
            (true, None) => return Err(Fault::invalid("`summary` is empty; say what was done, or why it was not")),
        };
        let completed = TaskCompletion { status, summary, files_modified, tests_run, caveats };
        let text = ToolResultContent::Text("The completion of your task is recorded.".into());
        Ok(ToolOutput::Control(vec![text], RunControl::Complete(completed)))
    })
    .uncounted()
    .repeatable()
    .with_concurrency(ToolConcurrency::Independent)
    .with_hidden_arguments(answers_may_be_replaced)
}

fn word(status: CompletionStatus) -> &'static str {
    match status {
        CompletionStatus::Completed => "completed",
        CompletionStatus::Failed => "failed",
    }
}

/// A question.
#[derive(Deserialize, JsonSchema)]
struct RequestInputArgs {
    /// What you need to know, with the choices that you see.
    question: String,
}

fn request_input(me: Arc<RunState>, answers_may_be_replaced: bool) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<RequestInputArgs>(
            "request_input",
            "Asks the agent that gave you your task a question, and waits for the answer. Use it when you cannot \
             continue without the answer.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |cx: ToolCx, args: RequestInputArgs| {
        let me = Arc::clone(&me);
        async move { ask(&me, &cx.call, args.question, answers_may_be_replaced).await }
    })
    .repeatable()
    .with_concurrency(ToolConcurrency::Independent)
    .with_hidden_arguments(answers_may_be_replaced)
    .with_time_limit(limits::DELEGATION_TIME)
}

async fn ask(me: &RunState, call: &str, question: String, answers_may_be_replaced: bool) -> Result<String, Fault> {
    let assignment =
        me.run_origin.assignment().ok_or_else(|| Fault::other("no agent gave you a task, so there is none to ask"))?;
    if question.trim().is_empty() {
        return Err(Fault::invalid("`question` is empty"));
    }
    // If middleware may rewrite answers, a question would reach the parent unchecked. The agent is then answered from its
    // context, even in interactive mode.
    let parent = match &assignment.question_route {
        QuestionRoute::Parent(parent) if !answers_may_be_replaced => Some(parent),
        _ => None,
    };
    let Some(parent) = parent else {
        return Ok(format!(
            "No agent can answer questions now. The context of your task:\n\n{}\n\nDecide from it as well as you can, \
             and say in your report what you decided.",
            assignment.context
        ));
    };
    let gone = || {
        Fault::other(
            "the agent that gave you your task no longer answers; decide as well as you can, and say in your report \
             what you decided",
        )
    };
    let ((answer, receiver), timed_out) = (oneshot::channel(), Arc::<AtomicBool>::default());
    let answered = async {
        let (agent, call) = (me.cx.agent.clone(), call.to_owned());
        let question = DelegateQuestion { agent, call, question, answer, timed_out: Arc::clone(&timed_out) };
        parent.send(question).await.map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())
    };
    let Some(limit) = assignment.question_time else { return me.permit.wait_for(answered).await };
    let in_time = async {
        let mut answered = pin!(answered);
        let answer = tokio::time::timeout(limit, answered.as_mut()).await;
        // Set before `answered` is dropped, which closes the question.
        timed_out.store(answer.is_err(), Ordering::Relaxed);
        answer
    };
    me.permit.wait_for(in_time).await.unwrap_or_else(|_| {
        Err(Fault::Timeout {
            message: format!(
                "no answer within {}; decide as well as you can, and say in your report what you decided",
                seconds(limit)
            ),
        })
    })
}

/// The agent to hand your task over to.
#[derive(Deserialize, JsonSchema)]
struct HandoffArgs {
    /// The agent's name.
    target_agent: String,
    /// Why that agent is better suited.
    reason: String,
    /// What you have done and found so far, and what is left to do.
    context: String,
}

fn handoff(me: Arc<RunState>, answers_may_be_replaced: bool) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<HandoffArgs>(
            "handoff",
            "Hands your whole task over to another agent, which reports in your place. Your own work ends with this \
             call.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |_: ToolCx, args: HandoffArgs| {
        let me = Arc::clone(&me);
        async move {
            let HandoffArgs { target_agent, reason, context } = args;
            for (name, text) in [("target_agent", &target_agent), ("reason", &reason), ("context", &context)] {
                if text.trim().is_empty() {
                    return Err(Fault::invalid(format!("`{name}` is empty")));
                }
            }
            if is_same_name(&target_agent, &me.agent) {
                return Err(Fault::invalid(format!(
                    "you are {} and cannot hand over to yourself; choose another agent",
                    me.agent
                )));
            }
            let list = me
                .agent_group
                .as_ref()
                .map(|agent_group| agent_group.registry.others(&me.agent, &me.ceiling))
                .unwrap_or_default();
            if !list.iter().any(|entry| *entry.name == target_agent) {
                return Err(Fault::invalid(no_agent(&target_agent, &list)));
            }
            if me.run_origin.assignment().is_none_or(|assignment| assignment.handoffs_left == 0) {
                return Err(Fault::Exhausted {
                    message: "this task has reached its maximum number of handoffs; finish it yourself".into(),
                });
            }
            let text = ToolResultContent::Text(format!("{target_agent} takes over your task."));
            let to = TaskHandoff { agent: target_agent, reason, context };
            Ok(ToolOutput::Control(vec![text], RunControl::Handoff(to)))
        }
    })
    .uncounted()
    .repeatable()
    .with_concurrency(ToolConcurrency::Independent)
    .with_hidden_arguments(answers_may_be_replaced)
}
