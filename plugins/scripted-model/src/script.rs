//! The syntax of a script.

use guest_kit::Pattern;
use serde::Deserialize;
use serde_json::Value;
use shelly_plugin::{Error, types::Retry};

use crate::{
    MOST_REPLIES,
    fill::{Shape, Template},
    heard::Heard,
};

/// A reply of the script.
pub(crate) enum Reply {
    Says { text: Option<Text>, calls: Vec<Call> },
    Fails(Failure),
}

pub(crate) enum Text {
    Words(Template),
    Json(Shape),
}

impl Text {
    pub fn fill(&self, heard: &Heard) -> Result<String, Error> {
        match self {
            Text::Words(words) => words.fill(heard),
            Text::Json(shape) => shape.fill(heard).map(|value| value.to_string()),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub tool: String,
    #[serde(default = "Shape::nothing")]
    pub arguments: Shape,
}

/// An error of the contract, with its text.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Failure {
    Invalid(Template),
    Denied(Template),
    NotFound(Template),
    TooLarge(Template),
    Exhausted(Template),
    Timeout(Template),
    RateLimited(Template),
    Unavailable(Template),
    Other(Template),
}

impl Failure {
    pub fn fill(&self, heard: &Heard) -> Result<Error, Error> {
        Ok(match self {
            Failure::Invalid(words) => Error::Invalid(words.fill(heard)?),
            Failure::Denied(words) => Error::Denied(words.fill(heard)?),
            Failure::NotFound(words) => Error::NotFound(words.fill(heard)?),
            Failure::TooLarge(words) => Error::TooLarge(words.fill(heard)?),
            Failure::Exhausted(words) => Error::Exhausted(words.fill(heard)?),
            Failure::Timeout(words) => Error::Timeout(words.fill(heard)?),
            Failure::RateLimited(words) => Error::RateLimited(Retry { message: words.fill(heard)?, after_ms: None }),
            Failure::Unavailable(words) => Error::unavailable(words.fill(heard)?),
            Failure::Other(words) => Error::Other(words.fill(heard)?),
        })
    }
}

/// A reply that is written as an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    say: Option<Template>,
    json: Option<Shape>,
    #[serde(default)]
    calls: Vec<Call>,
    fail: Option<Failure>,
}

impl Reply {
    fn read(written: Value) -> Result<Reply, String> {
        if let Value::String(text) = written {
            return Ok(Reply::Says { text: Some(Text::Words(Template::new(&text)?)), calls: Vec::new() });
        }
        let written = serde_json::from_value(written).map_err(|error| error.to_string())?;
        Ok(match written {
            Written { say: None, json: None, calls, fail: Some(failure) } if calls.is_empty() => Reply::Fails(failure),
            Written { fail: Some(_), .. } => return Err("a reply with `fail` must have nothing else".into()),
            Written { say: Some(_), json: Some(_), .. } => {
                return Err("a reply must not have both `say` and `json`".into());
            }
            Written { say: None, json: None, calls, .. } if calls.is_empty() => {
                return Err("the reply is empty; write `say`, `json`, `calls` or `fail`".into());
            }
            Written { say, json, calls, fail: None } => {
                Reply::Says { text: say.map(Text::Words).or(json.map(Text::Json)), calls }
            }
        })
    }
}

/// Parses a list of replies.
///
/// # Errors
///
/// Returns what is wrong with a reply, after its position: `replies[2]`: …
pub(crate) fn replies(written: Vec<Value>) -> Result<Vec<Reply>, String> {
    if written.len() > MOST_REPLIES {
        return Err(format!("replies` has {} entries, the maximum is {MOST_REPLIES}", written.len()));
    }
    let read = |(at, reply)| Reply::read(reply).map_err(|why| format!("replies[{at}]`: {why}"));
    written.into_iter().enumerate().map(read).collect()
}

/// A script for certain tasks.
pub(crate) struct Case {
    task: Option<Pattern>,
    from: Option<String>,
    system: Option<Pattern>,
    pub replies: Vec<Reply>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCase {
    task: Option<Pattern>,
    from: Option<String>,
    system: Option<Pattern>,
    replies: Vec<Value>,
}

impl Case {
    pub fn read(written: Value) -> Result<Case, String> {
        let WrittenCase { task, from, system, replies: written } =
            serde_json::from_value(written).map_err(|error| error.to_string())?;
        if task.is_none() && from.is_none() && system.is_none() {
            return Err("the case matches every task; set `task`, `from` or `system`".into());
        }
        let replies = replies(written).map_err(|why| format!("`{why}"))?;
        if replies.is_empty() {
            return Err("the `replies` of the case are empty".into());
        }
        Ok(Case { task, from, system, replies })
    }

    pub fn fits(&self, heard: &Heard) -> bool {
        self.task.as_ref().is_none_or(|task| task.matches(&heard.task()))
            && self.from.as_ref().is_none_or(|from| from == heard.sender())
            && self.system.as_ref().is_none_or(|system| heard.system().is_some_and(|said| system.matches(&said)))
    }
}
