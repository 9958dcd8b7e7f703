//! What a model that coordinates says, read.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    super::{
        super::{Assignment, Profile},
        names,
        quote::on_one_line,
    },
    tools::{ASSIGN, AssignArgs, FINISH, FinishArgs, Look, NoArgs, OLDER, OlderArgs, STATUS},
};
use crate::{
    chat::{Part, ToolCall},
    error::cut,
    limits,
    model::Completion,
};

/// Of the reply. Names are not listed in it: vendors take only so many words in a schema, and they are checked here.
pub const SCHEMA: &str = r#"{"type":"object","properties":{"members":{"type":"array","items":{"type":"string"}},"done":{"type":"boolean"},"reasoning":{"type":"string"}},"required":["members","done","reasoning"],"additionalProperties":false}"#;

/// What a reply comes to.
#[derive(Debug)]
pub enum Heard {
    Decided(Decision),
    /// It wants to see something first.
    Look(Vec<Look>),
}

/// Who works next, or nobody.
#[derive(Debug)]
pub struct Decision {
    pub what: What,
    pub reasoning: Option<String>,
}

#[derive(Debug)]
pub enum What {
    Run(Vec<Assignment>),
    Done(Option<Vec<Part>>),
}

/// Reads a reply.
///
/// # Errors
///
/// What is wrong with it, for the model.
pub fn heard<'a>(completion: &'a Completion, members: &[Profile], has_tools: bool) -> Result<Heard, String> {
    let call = |part: &'a Part| if let Part::ToolCall(call) = part { Some(call) } else { None };
    let calls: Vec<_> = completion.parts.iter().filter_map(call).collect();
    match has_tools && !calls.is_empty() {
        true => called(&calls, members),
        // A model that does not call may have said it in words.
        false => said(&super::text(completion), members, has_tools).map(Heard::Decided),
    }
}

#[derive(Deserialize)]
struct Said {
    members: Option<Vec<Value>>,
    done: Option<bool>,
    reasoning: Option<Value>,
}

fn said(text: &str, members: &[Profile], has_tools: bool) -> Result<Decision, String> {
    let said: Said = object(text).map_err(|error| match has_tools {
        true => format!("it calls neither {ASSIGN} nor {FINISH}"),
        false => format!("it is not the JSON object that was asked for: {error}"),
    })?;
    let reasoning = said.reasoning.as_ref().and_then(Value::as_str).and_then(given);
    if said.done == Some(true) {
        return Ok(Decision { what: What::Done(None), reasoning });
    }
    let run = said.members.unwrap_or_default().into_iter().map(|member| (member, None));
    Ok(Decision { what: What::Run(assignments(run, members)?), reasoning })
}

/// The object that the text is, which may stand in a fence. One among words is none: they may quote one of somebody else.
fn object<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(unfenced(text)).map_err(|error| cut(&error.to_string(), limits::COORDINATOR_SAID_CHARS))
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    // What stands behind the opening of a fence names the language.
    inner.split_once('\n').filter(|(word, _)| !word.contains('{')).map_or(inner, |(_, inner)| inner)
}

fn called(calls: &[&ToolCall], members: &[Profile]) -> Result<Heard, String> {
    let (mut looks, mut run, mut reasons) = (Vec::new(), None::<Vec<_>>, Vec::new());
    let mut answer = None;
    for call in calls {
        match call.name.as_str() {
            STATUS => {
                let NoArgs {} = arguments(call)?;
                looks.push(Look::Status);
            }
            OLDER => looks.push(Look::Older(arguments::<OlderArgs>(call)?.page.unwrap_or(1).max(1))),
            ASSIGN => {
                let AssignArgs { assignments, reasoning } = arguments(call)?;
                run.get_or_insert_default().extend(assignments.into_iter().map(|one| (one.member, one.task)));
                reasons.extend(reasoning);
            }
            FINISH => {
                let args: FinishArgs = arguments(call)?;
                answer = Some(args.answer.as_deref().and_then(given));
                reasons.extend(args.reasoning);
            }
            other => {
                let shown = cut(other, limits::NAME_SHOWN_CHARS);
                return Err(format!("there is no tool {shown:?}: there are {ASSIGN}, {FINISH}, {STATUS} and {OLDER}"));
            }
        }
    }
    let what = match (run, answer) {
        (None, None) => return Ok(Heard::Look(looks)),
        (Some(_), Some(_)) => return Err(format!("it calls both {ASSIGN} and {FINISH}")),
        (None, Some(answer)) => What::Done(answer.map(|text| vec![Part::Text(text)])),
        (Some(run), None) => What::Run(assignments(run, members)?),
    };
    Ok(Heard::Decided(Decision { what, reasoning: given(&reasons.join(" ")) }))
}

fn arguments<T: DeserializeOwned>(call: &ToolCall) -> Result<T, String> {
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    serde_json::from_str(text).map_err(|error| {
        format!(
            "the arguments of {} do not fit: {}",
            call.name,
            cut(&error.to_string(), limits::COORDINATOR_SAID_CHARS)
        )
    })
}

fn assignments(
    named: impl IntoIterator<Item = (Value, Option<String>)>,
    members: &[Profile],
) -> Result<Vec<Assignment>, String> {
    let (mut run, mut chosen) = (Vec::new(), HashSet::new());
    for (named, task) in named {
        let member = member(&named, members)?;
        if !chosen.insert(&member.name) {
            return Err(format!("it names {:?} twice", &*member.name));
        }
        let task = task.as_deref().and_then(given);
        if let Some(chars) = task.as_ref().map(|task| task.chars().count())
            && chars > limits::ASSIGNMENT_CHARS
        {
            let most = limits::ASSIGNMENT_CHARS;
            return Err(format!("the task for {:?} has {chars} characters, at most {most} are taken", &*member.name));
        }
        run.push(Assignment { member: Arc::clone(&member.name), task });
    }
    match run.is_empty() {
        true => Err(format!("it is not done and names nobody: there are {}", names(members))),
        false => Ok(run),
    }
}

/// The one with this name or, if nobody has it, at this place.
fn member<'a>(named: &Value, members: &'a [Profile]) -> Result<&'a Profile, String> {
    let place = |at: u64| usize::try_from(at).ok().and_then(|at| members.get(at));
    let found = match named {
        Value::String(name) => {
            members.iter().find(|member| *member.name == **name).or_else(|| name.parse().ok().and_then(place))
        }
        Value::Number(number) => number.as_u64().and_then(place),
        _ => None,
    };
    found.ok_or_else(|| {
        let shown = match named {
            Value::String(name) => format!("{:?}", cut(name, limits::NAME_SHOWN_CHARS)),
            other => cut(&other.to_string(), limits::NAME_SHOWN_CHARS),
        };
        format!("it names {shown}, who is not in the team: there are {}", names(members))
    })
}

/// The text, if there is any.
fn given(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

impl Decision {
    /// As it is told the model again.
    pub fn said(&self) -> String {
        let short = |text: &str| on_one_line(text, limits::COORDINATOR_SAID_CHARS);
        let mut said = match &self.what {
            What::Done(_) => json!({ "done": true }),
            What::Run(run) if run.iter().all(|one| one.task.is_none()) => {
                json!({ "members": run.iter().map(|one| &*one.member).collect::<Vec<_>>() })
            }
            What::Run(run) => {
                let one = |one: &Assignment| json!({ "member": &*one.member, "task": one.task.as_deref().map(short) });
                json!({ "assignments": run.iter().map(one).collect::<Vec<_>>() })
            }
        };
        if let Some(reasoning) = &self.reasoning {
            said["reasoning"] = short(reasoning).into();
        }
        said.to_string()
    }
}
