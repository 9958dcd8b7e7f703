//! Parses the replies of a model that coordinates.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    super::{
        super::{MemberAssignment, MemberProfile},
        quote::on_one_line,
        step_checks::names,
    },
    coordinator_lookup::CoordinatorLookup,
    coordinator_tools::{
        ASSIGN, AssignArgs, FINISH, FinishArgs, OLDER, OlderMessagesArgs, STATUS, TeamStatusArgs, name_schema,
    },
};
use crate::{
    chat::{Part, ToolCall},
    error::cut,
    limits,
    model::Completion,
};

/// Returns the JSON Schema of a reply.
pub fn schema(members: &[MemberProfile]) -> String {
    json!({
        "type": "object",
        "properties": {
            "members": {"type": "array", "items": name_schema(members)},
            "done": {"type": "boolean"},
            "reasoning": {"type": "string"},
        },
        "required": ["members", "done", "reasoning"],
        "additionalProperties": false,
    })
    .to_string()
}

/// Returns the text of a reply, with its calls.
pub fn text(completion: &Completion) -> String {
    let texts = completion.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(Cow::Borrowed(text.as_str())),
        Part::ToolCall(call) => Some(Cow::Owned(format!("{} {}", call.name, call.arguments))),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A parsed reply.
#[derive(Debug)]
pub enum CoordinatorReply {
    Decided(ModelDecision),
    /// The model requests information first.
    Look(Vec<CoordinatorLookup>),
}

/// A decision: the members that work next, or the end.
#[derive(Debug)]
pub struct ModelDecision {
    pub what: ModelDecisionKind,
    pub reasoning: Option<String>,
}

#[derive(Debug)]
pub enum ModelDecisionKind {
    Run(Vec<MemberAssignment>),
    Done(Option<Vec<Part>>),
}

/// Parses a reply.
///
/// # Errors
///
/// Returns the reason why it cannot be used, for the model.
pub fn heard<'a>(
    completion: &'a Completion,
    members: &[MemberProfile],
    has_tools: bool,
) -> Result<CoordinatorReply, String> {
    let call = |part: &'a Part| if let Part::ToolCall(call) = part { Some(call) } else { None };
    let calls: Vec<_> = completion.parts.iter().filter_map(call).collect();
    match has_tools && !calls.is_empty() {
        true => called(&calls, members),
        // A model that makes no call may have written its decision as text.
        false => said(without_thought(&text(completion)), members, has_tools).map(CoordinatorReply::Decided),
    }
}

#[derive(Deserialize)]
struct DecisionJson {
    members: Option<Vec<Value>>,
    done: Option<bool>,
    reasoning: Option<Value>,
}

fn said(text: &str, members: &[MemberProfile], has_tools: bool) -> Result<ModelDecision, String> {
    let said = object(text).map_err(|error| match has_tools {
        true => format!("the answer calls neither {ASSIGN} nor {FINISH}"),
        false => format!("the answer is not the requested JSON object: {error}"),
    })?;
    let reasoning = said.reasoning.as_ref().and_then(Value::as_str).and_then(given);
    if said.done == Some(true) {
        return Ok(ModelDecision { what: ModelDecisionKind::Done(None), reasoning });
    }
    let run = said.members.unwrap_or_default().into_iter().map(|member| (member, None));
    Ok(ModelDecision { what: ModelDecisionKind::Run(assignments(run, members)?), reasoning })
}

/// Parses the text as an object, or else the last object in it that contains a decision: models explain before they decide,
/// and may quote earlier decisions on the way.
fn object(text: &str) -> Result<DecisionJson, String> {
    let whole = match serde_json::from_str(text.trim()) {
        Ok(said) => return Ok(said),
        Err(error) => error,
    };
    let decides = |said: &DecisionJson| said.members.is_some() || said.done.is_some();
    let objects = objects(text).into_iter().rev();
    let mut said = objects.filter_map(|object| serde_json::from_str(object).ok()).filter(decides);
    said.next().ok_or_else(|| cut(&whole.to_string(), limits::COORDINATOR_SAID_CHARS))
}

/// Returns the outermost JSON objects in a text, in order. Only the end of a long text is searched.
fn objects(text: &str) -> Vec<&str> {
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(limits::COORDINATOR_REPLY_BYTES))..];
    let (mut objects, mut at) = (Vec::new(), 0);
    while let Some(start) = text[at..].find('{').map(|found| at + found) {
        // Parsed into values, not just skipped: that bounds the depth, and so the work for a text of nothing but braces.
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        at = match values.next() {
            Some(Ok(_)) => {
                let end = start + values.byte_offset();
                objects.push(&text[start..end]);
                end
            }
            _ => start + 1,
        };
    }
    objects
}

/// Returns a reply without the thought before it. Servers that do not separate the two put the thought first, some without
/// the opening tag. A thought that is never closed takes the whole text.
pub fn without_thought(text: &str) -> &str {
    let text = text.trim();
    match text.split_once("</think>") {
        Some((_, said)) if !text.starts_with('{') => said.trim_start(),
        None if text.starts_with("<think>") => "",
        _ => text,
    }
}

fn called(calls: &[&ToolCall], members: &[MemberProfile]) -> Result<CoordinatorReply, String> {
    let (mut looks, mut run, mut reasons) = (Vec::new(), None::<Vec<_>>, Vec::new());
    let mut answer = None;
    for call in calls {
        match call.name.as_str() {
            STATUS => {
                let TeamStatusArgs {} = arguments(call)?;
                looks.push(CoordinatorLookup::Status);
            }
            OLDER => {
                looks.push(CoordinatorLookup::Older(arguments::<OlderMessagesArgs>(call)?.page.unwrap_or(1).max(1)))
            }
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
                return Err(format!(
                    "unknown tool {shown:?}; available tools: {ASSIGN}, {FINISH}, {STATUS} and {OLDER}"
                ));
            }
        }
    }
    let what = match (run, answer) {
        (None, None) => return Ok(CoordinatorReply::Look(looks)),
        (Some(_), Some(_)) => return Err(format!("the answer calls both {ASSIGN} and {FINISH}")),
        (None, Some(answer)) => ModelDecisionKind::Done(answer.map(|text| vec![Part::Text(text)])),
        (Some(run), None) => ModelDecisionKind::Run(assignments(run, members)?),
    };
    Ok(CoordinatorReply::Decided(ModelDecision { what, reasoning: given(&reasons.join(" ")) }))
}

fn arguments<T: DeserializeOwned>(call: &ToolCall) -> Result<T, String> {
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    serde_json::from_str(text).map_err(|error| {
        format!(
            "the arguments of {} do not match the schema: {}",
            call.name,
            cut(&error.to_string(), limits::COORDINATOR_SAID_CHARS)
        )
    })
}

fn assignments(
    named: impl IntoIterator<Item = (Value, Option<String>)>,
    members: &[MemberProfile],
) -> Result<Vec<MemberAssignment>, String> {
    let (mut run, mut chosen) = (Vec::new(), HashSet::new());
    for (named, task) in named {
        let member = member(&named, members)?;
        if !chosen.insert(&member.name) {
            return Err(format!("the answer names {:?} twice", &*member.name));
        }
        let task = task.as_deref().and_then(given);
        if let Some(chars) = task.as_ref().map(|task| task.chars().count())
            && chars > limits::ASSIGNMENT_CHARS
        {
            let most = limits::ASSIGNMENT_CHARS;
            return Err(format!("the task for {:?} has {chars} characters, the maximum is {most}", &*member.name));
        }
        run.push(MemberAssignment { member: Arc::clone(&member.name), task });
    }
    match run.is_empty() {
        true => Err(format!(
            "the answer names no member and does not say that the task is done; members: {}",
            names(members)
        )),
        false => Ok(run),
    }
}

/// Returns the member with this name; otherwise the one whose name differs only in case, or the one at this index.
fn member<'a>(named: &Value, members: &'a [MemberProfile]) -> Result<&'a MemberProfile, String> {
    let place = |at: u64| usize::try_from(at).ok().and_then(|at| members.get(at));
    let found = match named {
        Value::String(name) => {
            let exact = members.iter().find(|member| *member.name == **name);
            exact.or_else(|| like(name, members)).or_else(|| name.trim().parse().ok().and_then(place))
        }
        Value::Number(number) => number.as_u64().and_then(place),
        _ => None,
    };
    found.ok_or_else(|| {
        let shown = match named {
            Value::String(name) => format!("{:?}", cut(name, limits::NAME_SHOWN_CHARS)),
            other => cut(&other.to_string(), limits::NAME_SHOWN_CHARS),
        };
        format!("the answer names {shown}, which is not a member of the team; members: {}", names(members))
    })
}

/// Returns the only member whose name equals this one apart from case and surrounding space.
fn like<'a>(name: &str, members: &'a [MemberProfile]) -> Option<&'a MemberProfile> {
    let folded = name.trim().to_lowercase();
    let mut alike = members.iter().filter(|member| member.name.trim().to_lowercase() == folded);
    alike.next().filter(|_| alike.next().is_none())
}

/// Returns the trimmed text, if it is not empty.
fn given(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

impl ModelDecision {
    /// Returns the decision as later requests show it to the model.
    pub fn said(&self) -> String {
        let short = |text: &str| on_one_line(text, limits::COORDINATOR_SAID_CHARS);
        let mut said = match &self.what {
            ModelDecisionKind::Done(_) => json!({ "done": true }),
            ModelDecisionKind::Run(run) if run.iter().all(|one| one.task.is_none()) => {
                json!({ "members": run.iter().map(|one| &*one.member).collect::<Vec<_>>() })
            }
            ModelDecisionKind::Run(run) => {
                let one =
                    |one: &MemberAssignment| json!({ "member": &*one.member, "task": one.task.as_deref().map(short) });
                json!({ "assignments": run.iter().map(one).collect::<Vec<_>>() })
            }
        };
        if let Some(reasoning) = &self.reasoning {
            said["reasoning"] = short(reasoning).into();
        }
        said.to_string()
    }
}
