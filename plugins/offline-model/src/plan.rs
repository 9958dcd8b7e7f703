//! The choice of the next move: the calls that the task needs and that the conversation does not have yet.

use std::fmt::Write;

use serde_json::Value;
use shelly_plugin::{
    Message, Part,
    types::{Request, Role, ToolChoice, ToolResult},
};

use crate::{
    delegation, introduction, own_work,
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
    let messages = &request.messages;
    let Some(newest) = task_position(messages, |_| true) else {
        return Next::Answer(introduction::text(&tools));
    };
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let counts_itself = !names.contains(&delegation::DELEGATE) || !delegation::has_others(messages);
    let plan = |start: usize| {
        let text = messages[start].text();
        let (task, history) = (task::parse(&text, &names), History::new(&messages[start..]));
        let steps = steps(&task, &tools, counts_itself, &history);
        (text, task, history, steps)
    };
    let mut planned = plan(newest);
    // The step of a team such as "Make the plan." names nothing to do: then the task of the person counts.
    if !is_able(&planned.3)
        && !is_of_person(&messages[newest])
        && let Some(first) = task_position(messages, is_of_person)
    {
        planned = plan(first);
    }
    let (text, task, history, steps) = planned;

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
    let able = is_able(&steps);
    if !able
        && has(delegation::DELEGATE)
        && let Some(call) = delegation::hand_on(&text, &task, messages)
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

/// Returns the position of the newest task that is not a note and for which `is_wanted` holds.
fn task_position(messages: &[Message], is_wanted: impl Fn(&Message) -> bool) -> Option<usize> {
    let is_note = |message: &Message| message.meta.iter().any(|(key, _)| key == "shelly.note");
    messages.iter().rposition(|message| message.role == Role::User && !is_note(message) && is_wanted(message))
}

/// Returns `true` if a person wrote the message, and not a team or another agent.
fn is_of_person(message: &Message) -> bool {
    message.sender.is_empty() || message.sender == "user"
}

/// Returns `true` if something can be done.
fn is_able(steps: &[Step]) -> bool {
    steps.iter().any(|step| !matches!(step, Step::Remark(_)))
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
    /// Work on a text for which no tool is needed, and its result.
    Own { what: String, clause: Clause, result: Value },
    /// The names in a folder.
    List { what: String, call: Call },
    /// The places of a text.
    Search { what: String, call: Call },
    /// A note on something that cannot be done, or only in part.
    Remark(String),
}

impl Step {
    fn open_call(&self, history: &History) -> Option<&Call> {
        match self {
            Step::Read { read: call, .. }
            | Step::Work { call, .. }
            | Step::List { call, .. }
            | Step::Search { call, .. } => history.result(call).is_none().then_some(call),
            Step::Own { .. } | Step::Remark(_) => None,
        }
    }
}

/// Returns the steps of the task that are known so far. A step that works on a text is added once the text was read.
/// `counts_itself` is set if the model counts where no tool does.
fn steps(task: &Task, tools: &[Tool], counts_itself: bool, history: &History) -> Vec<Step> {
    let mut steps = Vec::new();
    for clause in &task.clauses {
        // A clause without a path refers to the paths named before: "… and which are its longest lines?".
        let paths = if clause.paths.is_empty() { &task.paths } else { &clause.paths };
        let only_folders = !paths.is_empty() && paths.iter().all(|path| path.ends_with('/'));
        let listed = steps.iter().any(|step| matches!(step, Step::List { .. }));
        let counts_own = counts_itself && own_work::is_possible(clause);
        // A tool that knows lines and does not count is worse than the model itself.
        let is_better = |tool: &&Tool| !(counts_own && clause.counts) || tool.knows("count");
        let worker = tools::worker(tools, clause).filter(|_| !clause.keywords.is_empty()).filter(is_better);
        if clause.counts && clause.required.is_empty() && listed {
            // The listing answers it already: "List the files and tell me how many there are".
        } else if clause.searches {
            search(paths, &clause.quotes, tools, &mut steps);
        } else if clause.lists || clause.shows && only_folders {
            list(&clause.paths, tools, &mut steps);
        } else if let Some(tool) = worker {
            work(paths, &task.quotes, clause, Some(tool), tools, history, &mut steps);
        } else if counts_own {
            work(paths, &task.quotes, clause, None, tools, history, &mut steps);
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

fn search(paths: &[String], quotes: &[String], tools: &[Tool], steps: &mut Vec<Step>) {
    let Some(tool) = tools::searcher(tools) else {
        return steps.push(Step::Remark("I see no tool that searches files.".into()));
    };
    for quote in quotes {
        let places: Vec<_> = match paths.is_empty() {
            true => vec![None],
            false => paths.iter().map(|path| Some(path.as_str())).collect(),
        };
        for place in places {
            let what = place.map_or(format!("\"{quote}\""), |place| format!("\"{quote}\" in {place}"));
            let call = Call { tool: tool.name.clone(), arguments: tool.for_search(quote, place) };
            steps.push(Step::Search { what, call });
        }
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

/// Adds a step for each file or, if none is named, each quoted text. Without a tool the model does the work itself.
fn work(
    paths: &[String],
    quotes: &[String],
    clause: &Clause,
    tool: Option<&Tool>,
    tools: &[Tool],
    history: &History,
    steps: &mut Vec<Step>,
) {
    let takes_text = tool.is_none_or(|tool| tool.text.is_some());
    let step = |what: &str, path: Option<&str>, text: Option<&str>| {
        let (what, clause) = (what.to_owned(), clause.clone());
        match tool {
            Some(tool) => {
                let arguments = tool.arguments(path, text, clause.number);
                Step::Work { what, clause, call: Call { tool: tool.name.clone(), arguments } }
            }
            None => {
                let result = own_work::result(&clause, text.unwrap_or_default());
                Step::Own { what, clause, result }
            }
        }
    };
    if paths.is_empty() && quotes.is_empty() {
        let able = tool.map_or("I can do that".to_owned(), |tool| format!("`{}` would do it", tool.name));
        return steps.push(Step::Remark(format!("{able}, but you name no file and quote no text.")));
    }
    for path in paths {
        if !takes_text {
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
    if paths.is_empty() && takes_text {
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
                Some(result) => {
                    let text = result.text();
                    let found = finding(what, clause, &serde_json::from_str(&text).unwrap_or_default());
                    found.unwrap_or_else(|| {
                        let shown: String = text.chars().take(MAX_QUOTED).collect();
                        format!("`{}` says of {what}: {shown}", call.tool)
                    })
                }
            },
            Step::Own { what, clause, result } => finding(what, clause, result).unwrap_or_default(),
            Step::Search { what, call } => match history.result(call) {
                None => format!("I was not allowed to search for {what}."),
                Some(result) if result.is_error => format!("I could not search for {what}: {}", result.text()),
                Some(result) => {
                    let shown: String = result.text().chars().take(4 * MAX_QUOTED).collect();
                    format!("Where I find {what}:\n\n{}", shown.trim_end())
                }
            },
            Step::Remark(text) => text.clone(),
        };
        if !paragraphs.contains(&paragraph) {
            paragraphs.push(paragraph);
        }
    }
    if !is_able(steps) {
        paragraphs.push(introduction::text(tools));
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
    let entries: Vec<String> = match serde_json::from_str(text) {
        Ok(Value::Array(entries)) => entries.iter().map(entry).collect(),
        _ => text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect(),
    };
    let names = if entries.len() == 1 { "one entry" } else { &format!("{} entries", entries.len()) };
    let shown: String = entries.join("\n").chars().take(4 * MAX_QUOTED).collect();
    format!("{folder} has {names}:\n\n{}", shown.trim_end())
}

/// Formats an entry of a folder: `src/`, `main.rs (10 bytes)`.
fn entry(entry: &Value) -> String {
    let Some(name) = entry["name"].as_str().or(entry.as_str()) else { return entry.to_string() };
    match (entry["type"].as_str(), entry["size"].as_u64()) {
        (Some("folder" | "directory"), _) => format!("{name}/"),
        (_, Some(size)) => format!("{name} ({size} bytes)"),
        (_, None) => name.to_owned(),
    }
}

/// Describes a result of a known shape in a sentence.
fn finding(what: &str, clause: &Clause, result: &Value) -> Option<String> {
    let counts: Vec<String> = clause
        .words
        .iter()
        .filter_map(|word| {
            let number = tools::number_about(result, word)?;
            Some(format!("{number} {}", agree(word, number == 1)))
        })
        .collect();
    if clause.counts && !counts.is_empty() {
        return Some(format!("{what} has {}.", counts.join(" and ")));
    }
    let (superlative, noun) = clause.superlative.as_ref()?;
    let rows = result.as_object()?.values().find_map(Value::as_array)?;
    let number = if rows.len() == 1 { String::new() } else { format!("{} ", rows.len()) };
    let verb = if rows.len() == 1 { "is" } else { "are" };
    let noun = agree(noun, rows.len() == 1);
    let mut text = format!("The {number}{superlative} {noun} of {what} {verb}:\n");
    for row in rows {
        let _ = write!(text, "\n- {}", describe(row, &stem(&noun)));
    }
    Some(text)
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
