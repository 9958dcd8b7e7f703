use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::oneshot;

use super::{
    entry::{Entry, fit},
    errand::{Asked, Asker, Order},
    instance::Instance,
};
use crate::{
    agent::{
        Agent, Interaction, Runner,
        registry::{is_same_name, no_agent},
    },
    capability::Budget,
    chat::{Content, ToolSpec},
    error::{Fault, seconds},
    event::Event,
    limits,
    tool::{
        self, Completed, CompletionStatus, Concurrency, Control, FnTool, HandOver, READ_RESULT, Tool, ToolBox, ToolCx,
        ToolOutput, current_call,
    },
};

/// The tools that a run can have because of where it stands. No plugin's tool is called like one of them: it would be called
/// in its place.
pub const RUN_TOOLS: [&str; 7] = [
    "list_agents",
    "delegate",
    "answer_delegation_questions",
    "task_complete",
    "request_input",
    "handoff",
    READ_RESULT,
];

/// The agent's own tools and those that its run has because of where it stands.
pub async fn equip(agent: &Agent, me: &Arc<Instance>) -> ToolBox {
    let mut tools = agent.toolbox();
    // Those of its team come first: nobody else is to hear what is said to who goes on.
    let taken: Vec<_> = me.more_tools.names().filter(|name| tools.contains(name)).map(str::to_owned).collect();
    for name in &taken {
        let message = format!("{}: its own tool `{name}` is left out, since one of its team is called so", agent.name);
        me.cx.events.emit(Event::Warning { message }).await;
    }
    tools = tools.without(&taken);
    let more = me.more_tools.iter().cloned();
    for tool in more.chain(own_tools(agent, me)) {
        if let Err(clash) = tools.register(tool) {
            let message = format!("{clash}: {} cannot work as it should", agent.name);
            me.cx.events.emit(Event::Warning { message }).await;
        }
    }
    tools
}

fn own_tools(agent: &Agent, me: &Arc<Instance>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if me.delegates_to().is_some() {
        tools.push(Arc::new(list_agents(Arc::clone(me))));
        tools.push(Arc::new(delegate(Arc::clone(me))));
        if agent.options.interaction != Interaction::Blocking {
            tools.push(Arc::new(answer_questions(Arc::clone(me))));
        }
    }
    // What middleware may still take out of a report must not be seen, or asked, before it did.
    let quiet = agent.may_replace_answers();
    if me.works_for.assignment().is_some() {
        tools.push(Arc::new(task_complete(quiet)));
        tools.push(Arc::new(request_input(Arc::clone(me), quiet)));
        if me.crew.is_some() && agent.options.max_handoffs > 0 {
            tools.push(Arc::new(hand_off(Arc::clone(me), quiet)));
        }
    }
    tools
}

#[derive(Deserialize, JsonSchema)]
struct NoArgs {}

fn list_agents(me: Arc<Instance>) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<NoArgs>(
            "list_agents",
            "Lists the agents that you can delegate to: their names, what they are good for, what they can do and cost.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |_: ToolCx, NoArgs {}| {
        let others = me.crew.as_ref().map(|crew| crew.registry.others(&me.agent, &me.ceiling)).unwrap_or_default();
        async move { ToolOutput::json(&others) }
    })
    .repeatable()
    .with_concurrency(Concurrency::Independent)
}

/// Tasks for other agents.
#[derive(Deserialize, JsonSchema)]
struct Delegate {
    /// All of them are worked on at once. The results come in the same order.
    tasks: Vec<Task>,
    /// Whether the others are stopped as soon as one fails. Usually not.
    #[serde(default)]
    fail_fast: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Task {
    /// The agent's name, as list_agents has it.
    agent: String,
    /// What it is to do, and how you will know that it is done.
    task: String,
    /// All that it must know: it sees nothing of your conversation. Files, decisions, constraints.
    context: String,
    /// The id of a task on the shared board, which is then claimed and updated for it.
    #[serde(default)]
    task_id: Option<String>,
    /// What it may spend at most. Left out: an equal share of what you have.
    #[serde(default)]
    budget: Option<Budget>,
    /// Whether you answer its questions (interactive) or its context does (blocking).
    #[serde(default)]
    mode: Option<Mode>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Blocking,
    Interactive,
}

fn delegate(me: Arc<Instance>) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<Delegate>(
            "delegate",
            "Gives tasks to other agents and waits for all of them. Each is done by a fresh agent with tools of its own. \
             Independent tasks belong into one call: they are worked on at once. An entry with `error` failed, the \
             others are not affected. An entry with `pending_question` waits for you: use answer_delegation_questions.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |_: ToolCx, args: Delegate| {
        let me = Arc::clone(&me);
        async move {
            let crew = me.delegates_to().ok_or_else(|| Fault::other("this agent cannot delegate"))?;
            told(me.delegate(crew, Delegation::of(&me, args)?).await)
        }
    })
    .repeatable()
    .with_concurrency(Concurrency::Delegation { conversation: None })
    .with_time_limit(limits::DELEGATION_TIME)
    .with_result_chars(RESULT_CHARS)
}

fn orders(me: &Instance, tasks: Vec<Task>) -> Result<Vec<Order>, Fault> {
    if tasks.len() > limits::TASKS_PER_DELEGATION {
        let most = limits::TASKS_PER_DELEGATION;
        return Err(Fault::invalid(format!("{} tasks are too many: at most {most} in one call", tasks.len())));
    }
    let order = |(at, task): (usize, Task)| {
        if is_same_name(&task.agent, &me.agent) {
            return Err(Fault::invalid(format!("tasks[{at}]: you are {}; delegate to another agent", me.agent)));
        }
        for (name, text) in [("agent", &task.agent), ("task", &task.task), ("context", &task.context)] {
            if text.trim().is_empty() {
                return Err(Fault::invalid(format!("tasks[{at}]: `{name}` is empty")));
            }
        }
        let asks = match (me.options.interaction, task.mode) {
            (Interaction::Blocking, _) | (_, Some(Mode::Blocking)) | (Interaction::Auto, None) => false,
            (_, Some(Mode::Interactive)) | (Interaction::Interactive, None) => true,
        };
        let Task { agent, task, context, task_id, budget, .. } = task;
        Ok(Order { agent, task, context, task_id, budget: budget.unwrap_or_default(), asks })
    };
    tasks.into_iter().enumerate().map(order).collect()
}

/// What one call orders.
pub(super) struct Delegation {
    pub orders: Vec<Order>,
    pub fail_fast: bool,
}

impl Delegation {
    fn of(me: &Instance, args: Delegate) -> Result<Self, Fault> {
        Ok(Self { orders: orders(me, args.tasks)?, fail_fast: args.fail_fast })
    }

    /// What a call with these arguments has ordered.
    pub fn read(me: &Instance, arguments: &str) -> Option<Self> {
        Self::of(me, serde_json::from_str(arguments).ok()?).ok()
    }
}

fn told(mut entries: Vec<Entry>) -> Result<ToolOutput, Fault> {
    fit(&mut entries, limits::DELEGATION_ANSWER_CHARS);
    let told = ToolOutput::json(&entries)?;
    if told.chars() <= RESULT_CHARS {
        return Ok(told);
    }
    // Quotes and backslashes are two characters each: whoever writes nothing else must not push others out.
    let few = limits::DELEGATION_RESULT_CHARS / entries.len().max(1) / 16;
    fit(&mut entries, few);
    ToolOutput::json(&entries)
}

/// Characters of the JSON of all entries of a call.
const RESULT_CHARS: usize = limits::DELEGATION_RESULT_CHARS * 3;

/// Answers for agents that asked.
#[derive(Deserialize, JsonSchema)]
struct Answers {
    /// One for each question that you answer now.
    answers: Vec<QuestionAnswer>,
}

#[derive(Deserialize, JsonSchema)]
struct QuestionAnswer {
    /// The `delegation_id` of the entry with the question.
    delegation_id: String,
    /// What the agent is told.
    answer: String,
}

fn answer_questions(me: Arc<Instance>) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<Answers>(
            "answer_delegation_questions",
            "Answers questions of agents that you delegated to, and waits until each of them has ended or asks again.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |_: ToolCx, args: Answers| {
        let me = Arc::clone(&me);
        async move {
            let answers = args.answers.into_iter().map(|answer| (answer.delegation_id, answer.answer)).collect();
            told(me.answer(answers).await.map_err(Fault::invalid)?)
        }
    })
    .repeatable()
    .with_concurrency(Concurrency::Delegation { conversation: None })
    .with_time_limit(limits::DELEGATION_TIME)
    .with_result_chars(RESULT_CHARS)
}

/// How your task has ended.
#[derive(Deserialize, JsonSchema)]
struct TaskComplete {
    /// Whether it was done.
    status: CompletionStatus,
    /// What you did and found, or why it could not be done. This is all that is read of your work.
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

fn task_complete(quiet: bool) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<TaskComplete>(
            "task_complete",
            "Ends your task and reports to the agent that gave it to you. Call it once, when you are done or cannot go on.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), |_: ToolCx, args: TaskComplete| async move {
        let TaskComplete { status, summary, files_modified, tests_run, caveats } = args;
        let caveats = caveats.filter(|caveats| !caveats.trim().is_empty());
        // Whoever reads of it is told something in any case.
        let summary = match (summary.trim().is_empty(), &caveats) {
            (false, _) => summary,
            (true, Some(caveats)) => format!("{}: {caveats}", word(status)),
            (true, None) => return Err(Fault::invalid("`summary` is empty: say what was done, or why it was not")),
        };
        let completed = Completed { status, summary, files_modified, tests_run, caveats };
        let text = Content::Text("The completion of your task is recorded.".into());
        Ok(ToolOutput::Control(vec![text], Control::Complete(completed)))
    })
    .uncounted()
    .repeatable()
    .with_concurrency(Concurrency::Independent)
    .with_hidden_arguments(quiet)
}

fn word(status: CompletionStatus) -> &'static str {
    match status {
        CompletionStatus::Completed => "completed",
        CompletionStatus::Failed => "failed",
    }
}

/// A question.
#[derive(Deserialize, JsonSchema)]
struct RequestInput {
    /// What you need to know, with the choices that you see.
    question: String,
}

fn request_input(me: Arc<Instance>, quiet: bool) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<RequestInput>(
            "request_input",
            "Asks the agent that gave you your task, and waits for the answer. Use it when you cannot go on without.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |_: ToolCx, args: RequestInput| {
        let me = Arc::clone(&me);
        async move { ask(&me, args.question, quiet).await }
    })
    .repeatable()
    .with_concurrency(Concurrency::Independent)
    .with_hidden_arguments(quiet)
    .with_time_limit(limits::DELEGATION_TIME)
}

async fn ask(me: &Instance, question: String, quiet: bool) -> Result<String, Fault> {
    let assignment = me.works_for.assignment().ok_or_else(|| Fault::other("nobody gave you a task"))?;
    if question.trim().is_empty() {
        return Err(Fault::invalid("`question` is empty"));
    }
    let parent = match &assignment.asker {
        Asker::Parent(parent) if !quiet => Some(parent),
        _ => None,
    };
    let Some(parent) = parent else {
        return Ok(format!(
            "Nobody can be asked now. What you were given for your task:\n\n{}\n\nDecide by it as well as you can, and say \
             in your report what you decided.",
            assignment.context
        ));
    };
    let gone = || Fault::other("the agent that gave you your task does not listen any more");
    let (answer, answered) = oneshot::channel();
    let asked = async {
        let (by, call) = (me.cx.agent.clone(), current_call().map(|call| call.call).unwrap_or_default());
        parent.send(Asked { by, call, question, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    };
    let Some(limit) = assignment.question_time else { return me.place.wait_for(asked).await };
    me.place.wait_for(tokio::time::timeout(limit, asked)).await.unwrap_or_else(|_| {
        Err(Fault::Timeout {
            message: format!(
                "no answer came within {}; decide as well as you can, and say in your report what you decided",
                seconds(limit)
            ),
        })
    })
}

/// To whom you hand your task over.
#[derive(Deserialize, JsonSchema)]
struct HandOff {
    /// The agent's name.
    target_agent: String,
    /// Why it is better suited.
    reason: String,
    /// What you have done and found so far, and what is left to do.
    context: String,
}

fn hand_off(me: Arc<Instance>, quiet: bool) -> impl Tool {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        tool::spec::<HandOff>(
            "handoff",
            "Hands your whole task over to another agent, which reports in your place. Your own work ends with it.",
        )
        .into()
    });
    FnTool::with_spec(Arc::clone(&SPEC), move |_: ToolCx, args: HandOff| {
        let me = Arc::clone(&me);
        async move {
            let HandOff { target_agent, reason, context } = args;
            for (name, text) in [("target_agent", &target_agent), ("reason", &reason), ("context", &context)] {
                if text.trim().is_empty() {
                    return Err(Fault::invalid(format!("`{name}` is empty")));
                }
            }
            if is_same_name(&target_agent, &me.agent) {
                return Err(Fault::invalid(format!("you are {}: hand over to another agent", me.agent)));
            }
            let list = me.crew.as_ref().map(|crew| crew.registry.others(&me.agent, &me.ceiling)).unwrap_or_default();
            if !list.iter().any(|entry| *entry.name == target_agent) {
                return Err(Fault::invalid(no_agent(&target_agent, &list)));
            }
            if me.works_for.assignment().is_none_or(|assignment| assignment.hand_overs == 0) {
                return Err(Fault::Exhausted {
                    message: "this task has been handed over as often as it may be: finish it yourself".into(),
                });
            }
            let text = Content::Text(format!("{target_agent} takes your task over."));
            let to = HandOver { agent: target_agent, reason, context };
            Ok(ToolOutput::Control(vec![text], Control::HandOver(to)))
        }
    })
    .uncounted()
    .repeatable()
    .with_concurrency(Concurrency::Independent)
    .with_hidden_arguments(quiet)
}
