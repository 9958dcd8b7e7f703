//! A provider whose replies come from a script in its params, for examples and for tests of configs. It needs no key and
//! no network, and is deterministic. Replies can contain parts of the request, so that real data flows through.
//!
//! Params: `{"replies": […]}`, one reply after the other. `cases` are further scripts for certain tasks. `at_end` decides
//! what happens at the end of a script: `fail`, the default, or `repeat` its last reply.
//!
//! **Which reply**: the first reply answers a task, the second answers the results of its calls, and so on. The position
//! is counted from the conversation itself, by the replies since the newest task: the model keeps no state, and equal
//! requests have equal replies. A task is a message of a person or another agent that is not a note of the host. In a
//! team, messages of other members since then are the task.
//!
//! **A reply** is a text, or an object with `say` (a text) or `json` (a value that is sent as JSON) and `calls`, each
//! with a `tool` and its `arguments`; or with `fail`: `{"unavailable": "it is down"}`, or another error of the contract.
//!
//! **In texts**, at any depth, `{{…}}` is replaced by a part of the conversation (`fill`): `{{task}}`, `{{result}}`,
//! `{{result/temp}}`, `{{task ~ in (\w+)}}`. A missing part is an error that names it.
//!
//! **A case** has `replies`, and conditions for its tasks: `task`, a pattern for the text of the task; `from`, the name
//! of its sender; `system`, a pattern for the system prompt, which begins with the name of the agent that is asked. The
//! first case that matches is used; if none matches, the `replies` next to `cases` are.

use guest_kit::{at_most, bad, model};
use serde::Deserialize;
use serde_json::Value;
use shelly_plugin::{
    Error, Streamed, config,
    provider::Provider,
    text::short,
    types::{Completion, Request, StopReason, ToolChoice},
};

mod fill;
mod heard;
mod script;

use heard::Heard;
use script::{Call, Case, Reply, replies};

shelly_plugin::export!(provider: ScriptedModel);

/// The maximum number of replies of a script. All scripts are parsed for each request.
const MOST_REPLIES: usize = 1_000;
const MOST_CASES: usize = 100;

/// The maximum number of characters of a task in errors.
const SHOWN: usize = 200;

struct ScriptedModel;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Params {
    replies: Vec<Value>,
    cases: Vec<Value>,
    at_end: AtEnd,
}

/// The behaviour at the end of a script.
#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum AtEnd {
    #[default]
    Fail,
    Repeat,
}

/// The parsed script.
struct Script {
    cases: Vec<Case>,
    otherwise: Vec<Reply>,
    at_end: AtEnd,
}

impl Provider for ScriptedModel {
    fn complete(model: String, request: Request) -> Result<Completion, Error> {
        complete(config()?, &model, &request)
    }
}

fn complete(params: Params, model: &str, request: &Request) -> Result<Completion, Error> {
    let script = Script::read(params)?;
    let heard = Heard::new(&request.messages);
    match script.reply(&heard)? {
        Reply::Fails(failure) => Err(failure.fill(&heard)?),
        Reply::Says { text, calls } => {
            let text = text.as_ref().map_or(Ok(String::new()), |text| text.fill(&heard))?;
            say(&text, calls, &heard, model, request)
        }
    }
}

impl Script {
    /// Parses the whole script, including the parts that are not used now, so that a mistake is found at once.
    fn read(Params { replies: written, cases, at_end }: Params) -> Result<Script, Error> {
        at_most("cases", cases.len(), MOST_CASES)?;
        let read = |(at, case)| Case::read(case).map_err(|why| bad(format_args!("`cases[{at}]`: {why}")));
        let cases = cases.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let otherwise = replies(written).map_err(|why| bad(format_args!("`{why}")))?;
        if cases.is_empty() && otherwise.is_empty() {
            return Err(bad("`replies` is empty; write what the model says, such as `replies: [\"Hello.\"]`"));
        }
        Ok(Script { cases, otherwise, at_end })
    }

    fn reply(&self, heard: &Heard) -> Result<&Reply, Error> {
        let case = self.cases.iter().find(|case| case.fits(heard));
        let replies = case.map_or(&self.otherwise, |case| &case.replies);
        let (task, said) = (short(&heard.task(), SHOWN), heard.replies());
        match (replies.get(said), replies.last(), self.at_end) {
            (Some(reply), ..) | (None, Some(reply), AtEnd::Repeat) => Ok(reply),
            (None, None, _) => Err(Error::Invalid(format!(
                "the script has no reply for this task; add a case that matches it, or `replies` beside the cases: \
                 {task}"
            ))),
            (None, Some(_), AtEnd::Fail) => Err(Error::Invalid(format!(
                "the script has ended: it has {} for this task, but one more is requested (`at_end: repeat` repeats \
                 the last one): {task}",
                if replies.len() == 1 { "one reply".into() } else { format!("{} replies", replies.len()) }
            ))),
        }
    }
}

/// Emits and returns the reply: its text a few words at a time, then its calls. A reply that is cut has no calls.
fn say(text: &str, calls: &[Call], heard: &Heard, model: &str, request: &Request) -> Result<Completion, Error> {
    let (text, mut stop) = model::cut(text.to_owned(), request.max_output_tokens);
    let mut reply = Streamed::new(model);
    model::pieces(&text).try_for_each(|piece| reply.text(piece))?;
    if stop == StopReason::EndTurn {
        for call in calls {
            there_is(&call.tool, request)?;
            reply.call(String::new(), &call.tool, call.arguments.fill(heard)?.to_string())?;
        }
    }
    if reply.has_calls() {
        stop = StopReason::ToolCalls;
    }
    let completion = reply.finish(stop)?;
    Ok(Completion { usage: model::usage(request, &completion.parts), ..completion })
}

/// Checks that a call can be made. Otherwise the script, or the config under test, has a mistake.
fn there_is(tool: &str, request: &Request) -> Result<(), Error> {
    if request.tool_choice == ToolChoice::Never {
        return Err(Error::Invalid(format!("the script calls `{tool}`, but no call is allowed now")));
    }
    if request.tools.iter().any(|there| there.name == tool) {
        return Ok(());
    }
    let names: Vec<_> = request.tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
    let there = if names.is_empty() {
        "this agent has no tools".into()
    } else {
        format!("available tools: {}", names.join(", "))
    };
    Err(Error::Invalid(format!("the script calls `{tool}`, which does not exist; {there}")))
}

#[cfg(test)]
mod tests;
