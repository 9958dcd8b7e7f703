//! A coordinator for tests, which does what the params say: `{"does": "in-turn"}`. Its words are the arms of [`Coordinator::next`].

use serde::Deserialize;
use shelly_plugin::{
    Content, Error, Message, Part, chat, config,
    coordinator::{Action, Assignment, Coordinator, Member, Moment, Step, handed_over},
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
    fn next(moment: Moment, state: Vec<u8>) -> Result<Step, Error> {
        let params: Params = config()?;
        let first = || moment.members.first().map(|member| Assignment::of(&member.name)).into_iter().collect();
        let run = |assignments| Ok(Step::run(state.clone(), assignments));
        let answer = |content| Ok(Step { state: Vec::new(), action: Action::Done(Some(content)) });
        match params.does.as_str() {
            // Each once, each told how often the state has been handed on.
            "in-turn" => Ok(in_turn(&moment, state)),
            "side-by-side" if moment.step == 0 => {
                run(moment.members.iter().map(|member| Assignment::of(&member.name)).collect())
            }
            "side-by-side" => Ok(Step::answer(reports(&moment))),
            // The first one begins, and whoever is handed over to goes on, up to so often.
            "hand-over" => Ok(match handed_over(&moment) {
                Some(_) if moment.step as usize > params.size => Step::answer("it was handed over too often"),
                Some(member) => Step::run(state, vec![Assignment::of(member)]),
                None if moment.step == 0 => Step::run(state, first()),
                None => Step::done(),
            }),
            // A model says whom.
            "ask" => asked(&params, moment, state),
            "ask-for-ever" => Ok(Step::ask(state, question(&params, "again"))),
            "see" => answer(vec![Content::from(seen(&moment))]),
            "who" => answer(moment.members.iter().map(who).map(Content::from).collect()),
            "json" => answer(vec![Content::Json(r#"{"a":1}"#.into())]),
            "unknown" => run(vec![Assignment::of(&params.text)]),
            "twice" => run([first(), first()].concat()),
            "nobody" => run(Vec::new()),
            "for-ever" => run(first()),
            "task" => run(vec![Assignment::of(&moment.members[0].name).with_task("x".repeat(params.size))]),
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

fn in_turn(moment: &Moment, state: Vec<u8>) -> Step {
    let calls = state.first().copied().unwrap_or(0) + 1;
    match moment.members.get(moment.step as usize) {
        Some(member) => {
            let task = format!("call {calls}, step {}, run {}", moment.step, moment.cx.agent);
            Step::run(vec![calls], vec![Assignment::of(&member.name).with_task(task)])
        }
        None => Step::done(),
    }
}

fn reports(moment: &Moment) -> String {
    let report =
        |failure: &Option<Error>| failure.as_ref().map_or("replied".to_owned(), |error| error.message().into());
    let reports: Vec<_> =
        moment.reports.iter().map(|one| format!("{}: {}", one.member, report(&one.failure))).collect();
    reports.join("; ")
}

/// Whom the model names works, until it names nobody who is there: that is the answer.
fn asked(params: &Params, moment: Moment, state: Vec<u8>) -> Result<Step, Error> {
    let Some(reply) = moment.reply else {
        let question = format!("who after {} steps?", moment.step);
        return Ok(Step::ask([&state[..], b"?"].concat(), self::question(params, &question)));
    };
    let said = Message { parts: reply?.parts, ..Message::new(Role::Assistant, "") }.text();
    match moment.members.iter().any(|member| member.name == said) {
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
fn seen(moment: &Moment) -> String {
    let lines = chat::read(0, chat::length()).into_iter().map(|message| {
        let parts: Vec<_> = message.parts.iter().map(part).collect();
        format!("{:?} {}: {}", message.role, message.sender, parts.join(" | "))
    });
    let lines: Vec<_> = lines.collect();
    format!("{} messages in step {}, {} tools\n{}", lines.len(), moment.step, chat::tools().len(), lines.join("\n"))
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
