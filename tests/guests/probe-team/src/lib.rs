//! A coordinator for tests, which does what the params say: `{"does": "in-turn"}`. Its words are the arms of [`Coordinator::next`].

use serde::Deserialize;
use shelly_plugin::{
    Content, Error, Message, Part, chat, config,
    coordinator::{
        Action, Assignment, Coordinator, CoordinatorInput, Member, MemberOutcome, Step, TeamAnswer, handed_over,
    },
    types::{Ask, Request, Role, ToolChoice},
};

shelly_plugin::export!(coordinator: Probe);

/// What to do. Unknown words are errors: a test that misspells one must not pass.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Params {
    does: String,
    /// For whatever says something, or names somebody.
    text: String,
    /// The model that is asked.
    model: Option<String>,
    /// How much: `state`, `task`, `answer`; how many: `pieces`.
    size: usize,
}

struct Probe;

impl Coordinator for Probe {
    fn next(input: CoordinatorInput, state: Vec<u8>) -> Result<Step, Error> {
        let params: Params = config()?;
        let first = || input.members.first().map(|member| Assignment::of(&member.name)).into_iter().collect();
        let run = |assignments| Ok(Step::run(state.clone(), assignments));
        let answer = |content| Ok(Step { state: Vec::new(), action: Action::Done(TeamAnswer::Content(content)) });
        match params.does.as_str() {
            // Each once, each told how often the state has been handed on.
            "in-turn" => Ok(in_turn(&input, state)),
            "side-by-side" if input.step == 0 => {
                run(input.members.iter().map(|member| Assignment::of(&member.name)).collect())
            }
            "side-by-side" => Ok(Step::answer(reports(&input))),
            // The first one begins, and whoever is handed over to goes on, up to so often.
            "hand-over" => Ok(match handed_over(&input) {
                Some(_) if input.step as usize > params.size => Step::answer("it was handed over too often"),
                Some(member) => Step::run(state, vec![Assignment::of(member)]),
                None if input.step == 0 => Step::run(state, first()),
                None => Step::done(),
            }),
            // A model says whom.
            "ask" => asked(&params, input, state),
            "ask-for-ever" => Ok(Step::ask(state, question(&params, "again"))),
            "see" => answer(vec![Content::from(seen(&input))]),
            "who" => answer(input.members.iter().map(who).map(Content::from).collect()),
            "json" => answer(vec![Content::Json(r#"{"a":1}"#.into())]),
            "unknown" => run(vec![Assignment::of(&params.text)]),
            "twice" => run([first(), first()].concat()),
            "nobody" => run(Vec::new()),
            "for-ever" => run(first()),
            "task" => run(vec![Assignment::of(&input.members[0].name).with_task("x".repeat(params.size))]),
            "state" => Ok(Step::run(vec![1; params.size], first())),
            "answer" => answer(vec![Content::from("x".repeat(params.size))]),
            "pieces" => answer(vec![Content::from("x"); params.size]),
            "error" => Err(Error::Exhausted(params.text)),
            "panic" => panic!("asked to panic"),
            "spin" => loop {
                std::hint::black_box(0);
            },
            word => Err(Error::Invalid(format!("probe-team: it cannot `{word}`"))),
        }
    }
}

fn in_turn(input: &CoordinatorInput, state: Vec<u8>) -> Step {
    let calls = state.first().copied().unwrap_or(0) + 1;
    match input.members.get(input.step as usize) {
        Some(member) => {
            let task = format!("call {calls}, step {}, run {}", input.step, input.cx.agent);
            Step::run(vec![calls], vec![Assignment::of(&member.name).with_task(task)])
        }
        None => Step::done(),
    }
}

fn reports(input: &CoordinatorInput) -> String {
    let report = |outcome: &MemberOutcome| match outcome {
        MemberOutcome::Replied => "replied".to_owned(),
        MemberOutcome::HandedOver(member) => format!("handed over to {member}"),
        MemberOutcome::Failed(error) => error.message().into(),
    };
    let reports: Vec<_> = input.reports.iter().map(|one| format!("{}: {}", one.member, report(&one.outcome))).collect();
    reports.join("; ")
}

/// Whom the model names works, until it names nobody who is there: that is the answer.
fn asked(params: &Params, input: CoordinatorInput, state: Vec<u8>) -> Result<Step, Error> {
    let Some(reply) = input.reply else {
        let question = format!("who after {} steps?", input.step);
        return Ok(Step::ask([&state[..], b"?"].concat(), self::question(params, &question)));
    };
    let said = Message { parts: reply?.parts, ..Message::new(Role::Assistant, "") }.text();
    match input.members.iter().any(|member| member.name == said) {
        true => {
            let task = format!("asked {}", String::from_utf8_lossy(&state));
            Ok(Step::run(state, vec![Assignment::of(said).with_task(task)]))
        }
        false => Ok(Step::answer(said)),
    }
}

fn question(params: &Params, question: &str) -> Ask {
    let request = Request {
        messages: vec![Message::new(Role::User, question)],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        response_schema: None,
        meta: Vec::new(),
    };
    Ask { model: params.model.clone(), request }
}

/// All that can be seen of the chat, for tests of what is blank without a power.
fn seen(input: &CoordinatorInput) -> String {
    let lines = chat::read(0, chat::length()).into_iter().map(|message| {
        let parts: Vec<_> = message.parts.iter().map(part).collect();
        format!("{:?} {}: {}", message.role, message.sender, parts.join(" | "))
    });
    let lines: Vec<_> = lines.collect();
    format!("{} messages in step {}, {} tools\n{}", lines.len(), input.step, chat::tools().len(), lines.join("\n"))
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => format!("text {text}"),
        Part::ToolCall(call) => format!("call {} {}", call.name, call.arguments),
        Part::ToolResult(result) => format!("result {}", result.text()),
        other => format!("{other:?}"),
    }
}

fn who(Member { name, role, description }: &Member) -> String {
    format!("{name} ({role}): {description}")
}
