//! The choice of the next move: the calls that the task needs and that the conversation does not have yet.

use std::fmt::Write;

use serde_json::Value;
use shelly_plugin::{
    Message, Part,
    types::{Request, Role, ToolChoice, ToolResult},
};

use crate::{
    delegation,
    pages::{self, Whole},
    task::{self, Clause, Task, stem},
    tools::{self, Tool},
};

/// The next move.
pub(crate) enum Next {
    /// Calls to make in parallel.
    Calls(Vec<Call>),
    /// The final answer.
    Answer(String),
}

/// A call to make.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub tool: String,
    pub arguments: Value,
}

/// The maximum number of rounds of calls. A task takes two, reading and working; more indicate an error.
const MAX_ROUNDS: usize = 4;

/// The maximum number of calls in one reply.
const MAX_CALLS: usize = 16;

/// The maximum number of characters of a quoted text.
const MAX_QUOTED: usize = 1_000;

/// Returns the next move of the conversation.
pub(crate) fn next(request: &Request) -> Next {
    let tools: Vec<Tool> = request.tools.iter().map(Tool::new).collect();
    let Some(start) = task_position(&request.messages) else {
        return Next::Answer(introduction(&tools));
    };
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let text = request.messages[start].text();
    let task = task::parse(&text, &names);
    let history = History::new(&request.messages[start..]);
    let steps = steps(&task, &tools, &history);

    let mut open: Vec<Call> = Vec::new();
    for call in steps.iter().filter_map(|step| step.open_call(&history)) {
        if open.len() < MAX_CALLS && !open.contains(call) {
            open.push(call.clone());
        }
    }
    if let Some(page) = open.iter().find(|call| call.tool == pages::READ_RESULT) {
        // Pages are read one at a time: pages of one reply would share the space that each needs.
        open = vec![page.clone()];
    }
    let has_rounds = history.rounds < MAX_ROUNDS && history.turned < pages::MAX_PAGES;
    let may_call = request.tool_choice != ToolChoice::Never && has_rounds;
    if may_call && !open.is_empty() {
        return Next::Calls(open);
    }
    let has = |name: &str| may_call && names.contains(&name);
    if let Some(result) = history.delegated() {
        return say(delegation::report(&pages::text_of(result).0), !result.is_error, has(delegation::COMPLETE));
    }
    let able = steps.iter().any(|step| !matches!(step, Step::Remark(_)));
    if !able
        && has(delegation::DELEGATE)
        && let Some(call) = delegation::hand_on(&text, &task, &request.messages)
    {
        return Next::Calls(vec![call]);
    }
    say(answer(&steps, &history, &tools), able, has(delegation::COMPLETE))
}

/// Returns the last move: an answer, or a report to the agent that delegated the task.
fn say(text: String, done: bool, reports: bool) -> Next {
    match reports {
        true => Next::Calls(vec![delegation::complete(text, done)]),
        false => Next::Answer(text),
    }
}

/// Returns the position of the newest message of a person that is not a note.
fn task_position(messages: &[Message]) -> Option<usize> {
    let is_note = |message: &Message| message.meta.iter().any(|(key, _)| key == "shelly.note");
    messages.iter().rposition(|message| message.role == Role::User && !is_note(message))
}

/// The calls since the task, each with its result.
pub(crate) struct History<'a> {
    calls: Vec<(Call, &'a ToolResult)>,
    /// The number of replies with calls, except for those that read a page.
    rounds: usize,
    /// The number of replies that read a page.
    turned: usize,
}

impl<'a> History<'a> {
    fn new(messages: &'a [Message]) -> History<'a> {
        let parts = || messages.iter().flat_map(|message| &message.parts);
        let result = |id: &str| {
            parts().find_map(|part| match part {
                Part::ToolResult(result) if result.call_id == id => Some(result),
                _ => None,
            })
        };
        let calls = parts().filter_map(|part| {
            let Part::ToolCall(call) = part else { return None };
            let arguments = serde_json::from_str(&call.arguments).ok()?;
            Some((Call { tool: call.name.clone(), arguments }, result(&call.id)?))
        });
        let replies = |turns: bool| {
            let is_so =
                move |part: &Part| matches!(part, Part::ToolCall(call) if (call.name == pages::READ_RESULT) == turns);
            messages.iter().filter(|message| message.parts.iter().any(is_so)).count()
        };
        History { calls: calls.collect(), rounds: replies(false), turned: replies(true) }
    }

    /// Returns the result of the delegation.
    fn delegated(&self) -> Option<&'a ToolResult> {
        self.calls.iter().find(|(made, _)| made.tool == delegation::DELEGATE).map(|(_, result)| *result)
    }

    pub(crate) fn result(&self, call: &Call) -> Option<&'a ToolResult> {
        self.calls.iter().find(|(made, _)| made == call).map(|(_, result)| *result)
    }
}

/// A part of the answer.
enum Step {
    /// A text that is needed; `read` gets it.
    Read { what: String, read: Call, shown: bool },
    /// The result of a tool.
    Work { what: String, clause: Clause, call: Call },
    /// The names in a folder.
    List { what: String, call: Call },
    /// A note on something that cannot be done, or only in part.
    Remark(String),
}

impl Step {
    fn open_call(&self, history: &History) -> Option<&Call> {
        match self {
            Step::Read { read: call, .. } | Step::Work { call, .. } | Step::List { call, .. } => {
                history.result(call).is_none().then_some(call)
            }
            Step::Remark(_) => None,
        }
    }
}

/// Returns the steps of the task that are known so far. A step that works on a text is added once the text was read.
fn steps(task: &Task, tools: &[Tool], history: &History) -> Vec<Step> {
    let mut steps = Vec::new();
    for clause in &task.clauses {
        // A clause without a path refers to the paths named before: "… and which are its longest lines?".
        let paths = if clause.paths.is_empty() { &task.paths } else { &clause.paths };
        let only_folders = !paths.is_empty() && paths.iter().all(|path| path.ends_with('/'));
        let listed = steps.iter().any(|step| matches!(step, Step::List { .. }));
        if clause.counts && clause.required.is_empty() && listed {
            // The listing answers it already: "List the files and tell me how many there are".
        } else if clause.lists || clause.shows && only_folders {
            list(&clause.paths, tools, &mut steps);
        } else if let Some(tool) = tools::worker(tools, clause).filter(|_| !clause.keywords.is_empty()) {
            work(paths, &task.quotes, clause, tool, tools, history, &mut steps);
        } else if clause.shows {
            show(paths, tools, &mut steps);
        } else if clause.counts || clause.superlative.is_some() || !paths.is_empty() && !clause.keywords.is_empty() {
            steps.push(Step::Remark(format!("I see no tool for \"{}\".", clause.words.join(" "))));
        }
    }
    steps
}

fn list(paths: &[String], tools: &[Tool], steps: &mut Vec<Step>) {
    let Some(tool) = tools::lister(tools) else {
        return steps.push(Step::Remark("I see no tool that lists folders.".into()));
    };
    let top = [".".to_owned()];
    for what in if paths.is_empty() { &top } else { paths } {
        let call = Call { tool: tool.name.clone(), arguments: tool.for_path(what) };
        steps.push(Step::List { what: what.clone(), call });
    }
}

fn show(paths: &[String], tools: &[Tool], steps: &mut Vec<Step>) {
    for path in paths {
        match read_call(tools, path) {
            Some(read) => steps.push(Step::Read { what: path.clone(), read, shown: true }),
            None => return steps.push(Step::Remark("I see no tool that reads files.".into())),
        }
    }
}

fn read_call(tools: &[Tool], path: &str) -> Option<Call> {
    tools::reader(tools).map(|tool| Call { tool: tool.name.clone(), arguments: tool.for_path(path) })
}

/// Adds a step for each file or, if none is named, each quoted text.
fn work(
    paths: &[String],
    quotes: &[String],
    clause: &Clause,
    tool: &Tool,
    tools: &[Tool],
    history: &History,
    steps: &mut Vec<Step>,
) {
    let step = |what: &str, path: Option<&str>, text: Option<&str>| Step::Work {
        what: what.to_owned(),
        clause: clause.clone(),
        call: Call { tool: tool.name.clone(), arguments: tool.arguments(path, text, clause.number) },
    };
    if paths.is_empty() && quotes.is_empty() {
        return steps
            .push(Step::Remark(format!("`{}` would do it, but you name no file and quote no text.", tool.name)));
    }
    for path in paths {
        if tool.text.is_none() {
            steps.push(step(path, Some(path), None));
            continue;
        }
        let Some(read) = read_call(tools, path) else {
            return steps.push(Step::Remark("I see no tool that reads files.".into()));
        };
        let can_turn = tools.iter().any(|tool| tool.name == pages::READ_RESULT);
        let read_so_far = history.result(&read).filter(|result| !result.is_error);
        match read_so_far.map(|result| pages::whole(result, history, can_turn)) {
            Some(Whole::Text(text, cut)) => {
                steps.push(step(path, None, Some(&text)));
                steps.extend(cut.map(|cut| Step::Remark(format!("I could read only the beginning of {path}: {cut}"))));
            }
            Some(Whole::Next(page)) => steps.push(Step::Read { what: path.clone(), read: page, shown: false }),
            None => steps.push(Step::Read { what: path.clone(), read, shown: false }),
        }
    }
    if paths.is_empty() && tool.text.is_some() {
        for quote in quotes {
            steps.push(step(&format!("\"{quote}\""), None, Some(quote)));
        }
    }
}

fn answer(steps: &[Step], history: &History, tools: &[Tool]) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    for step in steps {
        let paragraph = match step {
            Step::Read { what, read, shown } => match history.result(read) {
                None => format!("I was not allowed to read {what}."),
                Some(result) if result.is_error => format!("I could not read {what}: {}", result.text()),
                Some(result) if *shown => quote(what, result),
                Some(_) => continue,
            },
            Step::List { what, call } => match history.result(call) {
                None => format!("I was not allowed to list {what}."),
                Some(result) if result.is_error => format!("I could not list {what}: {}", result.text()),
                Some(result) => listing(what, &result.text()),
            },
            Step::Work { what, clause, call } => match history.result(call) {
                None => format!("I was not allowed to call `{}` for {what}.", call.tool),
                Some(result) if result.is_error => format!("`{}` failed for {what}: {}", call.tool, result.text()),
                Some(result) => finding(what, clause, call, &result.text()),
            },
            Step::Remark(text) => text.clone(),
        };
        if !paragraphs.contains(&paragraph) {
            paragraphs.push(paragraph);
        }
    }
    if steps.is_empty() {
        return introduction(tools);
    }
    if steps.iter().all(|step| matches!(step, Step::Remark(_))) {
        paragraphs.push(introduction(tools));
    }
    paragraphs.join("\n\n")
}

fn quote(what: &str, result: &ToolResult) -> String {
    let (text, cut) = pages::text_of(result);
    let length = text.chars().count();
    let shown: String = text.chars().take(MAX_QUOTED).collect();
    let mut said = format!("{what} says:\n\n{}", shown.trim_end());
    if length > MAX_QUOTED || cut.is_some() {
        let more = if cut.is_some() { "more than " } else { "" };
        let _ = write!(said, "\n\n(These are the first {} of {more}{length} characters.)", length.min(MAX_QUOTED));
    }
    said
}

fn listing(what: &str, text: &str) -> String {
    let folder = if what == "." { "The folder" } else { what };
    let count = text.lines().filter(|line| !line.trim().is_empty()).count();
    let names = if count == 1 { "one entry" } else { &format!("{count} entries") };
    let shown: String = text.chars().take(4 * MAX_QUOTED).collect();
    format!("{folder} has {names}:\n\n{}", shown.trim_end())
}

/// Describes the result of a tool; in a sentence if the result is JSON of a known shape.
fn finding(what: &str, clause: &Clause, call: &Call, text: &str) -> String {
    let result: Value = serde_json::from_str(text).unwrap_or_default();
    let counts: Vec<String> = clause
        .words
        .iter()
        .filter_map(|word| {
            let number = tools::number_about(&result, word)?;
            Some(format!("{number} {}", agree(word, number == 1)))
        })
        .collect();
    if clause.counts && !counts.is_empty() {
        return format!("{what} has {}.", counts.join(" and "));
    }
    let rows = result.as_object().and_then(|object| object.values().find_map(Value::as_array));
    if let (Some((superlative, noun)), Some(rows)) = (&clause.superlative, rows) {
        let number = if rows.len() == 1 { String::new() } else { format!("{} ", rows.len()) };
        let verb = if rows.len() == 1 { "is" } else { "are" };
        let noun = agree(noun, rows.len() == 1);
        let mut text = format!("The {number}{superlative} {noun} of {what} {verb}:\n");
        for row in rows {
            let _ = write!(text, "\n- {}", describe(row, &stem(&noun)));
        }
        return text;
    }
    format!("`{}` says of {what}: {}", call.tool, text.chars().take(MAX_QUOTED).collect::<String>())
}

/// Returns the singular or plural of a noun: `line`, `lines`.
fn agree(noun: &str, singular: bool) -> String {
    let stem = stem(noun);
    if singular {
        stem
    } else if noun.ends_with('s') {
        noun.to_lowercase()
    } else {
        format!("{stem}s")
    }
}

/// Describes a row of a result: `line 12, characters 80: the text`.
fn describe(row: &Value, noun: &str) -> String {
    let Some(fields) = row.as_object() else {
        return row.as_str().map_or_else(|| row.to_string(), str::to_owned);
    };
    let is_position = |key: &str| ["number", "line", "line_number", "index", "position"].contains(&key);
    // The position comes first.
    let positions = fields.iter().filter(|(key, _)| is_position(key));
    let rest = fields.iter().filter(|(key, value)| !is_position(key) && !value.is_string());
    let facts: Vec<String> = positions
        .map(|(_, value)| format!("{noun} {value}"))
        .chain(rest.map(|(key, value)| format!("{value} {key}")))
        .collect();
    let texts: Vec<&str> = fields.values().filter_map(Value::as_str).collect();
    let text: String = texts.join(" ").chars().take(MAX_QUOTED).collect();
    format!("{}: {text}", facts.join(", ")).trim_end().to_owned()
}

fn introduction(tools: &[Tool]) -> String {
    let names: Vec<String> = tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
    let seen =
        if names.is_empty() { "I see no tools.".to_owned() } else { format!("The tools I see: {}.", names.join(", ")) };
    format!(
        "I am offline-model, a small stand-in for a language model: a few rules, no understanding. I can quote a file, \
         list a folder, and hand a file or a quoted text to a tool that counts or finds something in it. {seen} Try: \
         How many words are in README.md, and which are its five longest lines?"
    )
}
