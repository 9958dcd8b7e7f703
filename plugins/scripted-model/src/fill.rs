//! Placeholders `{{…}}` in texts, which are replaced by parts of the conversation.
//!
//! | in braces | value |
//! |---|---|
//! | `task` | the newest task |
//! | `from NAME` | the newest message of this sender: an agent, or `user` |
//! | `said` | the newest reply of the model itself that has text |
//! | `result` | the newest result since the task |
//! | `result 2` | the second result since the task, in the order of the calls |
//! | `result TOOL` | the newest result of this tool |
//! | `error`, `error 2`, `error TOOL` | likewise for error results, which `result` refuses |
//! | `note` | the newest note of the host, such as the reason why an answer was rejected |
//! | `system` | the system prompt |
//!
//! A suffix `/a/0` selects a value from JSON by a JSON pointer. A suffix ` ~ PATTERN` selects the first group of a
//! regular expression, or the whole match if it has no group. In `json` and in arguments, a text that consists of a
//! single placeholder for a JSON value becomes that value: a number stays a number.

use guest_kit::Pattern;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value};
use shelly_plugin::{Error, text::short};

use crate::{
    SHOWN,
    heard::{self, Found, Heard},
};

/// A text with placeholders.
pub(crate) struct Template(Vec<Piece>);

enum Piece {
    Words(String),
    Slot(Slot),
}

/// A placeholder.
struct Slot {
    /// The text between the braces.
    written: String,
    source: Source,
    pointer: Option<String>,
    pattern: Option<Pattern>,
}

enum Source {
    Task,
    From(String),
    Said,
    Result(Which),
    Failure(Which),
    Note,
    System,
}

/// The selection among the results since the task.
enum Which {
    Newest,
    Numbered(usize),
    OfTool(String),
}

impl Template {
    pub fn new(text: &str) -> Result<Template, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((words, slot)) = rest.split_once("{{") {
            let (slot, after) =
                slot.split_once("}}").ok_or_else(|| format!("`{{{{` is never closed in `{}`", short(text, SHOWN)))?;
            pieces.push(Piece::Words(words.to_owned()));
            pieces.push(Piece::Slot(Slot::new(slot.trim())?));
            rest = after;
        }
        pieces.push(Piece::Words(rest.to_owned()));
        pieces.retain(|piece| !matches!(piece, Piece::Words(words) if words.is_empty()));
        Ok(Template(pieces))
    }

    pub fn fill(&self, heard: &Heard) -> Result<String, Error> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Words(words) => text.push_str(words),
                Piece::Slot(slot) => text.push_str(&in_words(slot.value(heard)?)),
            }
        }
        Ok(text)
    }

    /// Returns the filled template as a value. A template with a single placeholder has that placeholder's value.
    fn value(&self, heard: &Heard) -> Result<Value, Error> {
        match &self.0[..] {
            [Piece::Slot(slot)] => slot.value(heard),
            _ => self.fill(heard).map(Value::from),
        }
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Template, D::Error> {
        Template::new(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Slot {
    fn new(written: &str) -> Result<Slot, String> {
        let (what, pattern) = match written.split_once(" ~ ") {
            Some((what, pattern)) => (what.trim(), Some(Pattern::new(pattern.trim())?)),
            None => (written, None),
        };
        let (source, pointer) = match what.split_once('/') {
            Some((source, pointer)) => (source.trim(), Some(format!("/{pointer}"))),
            None => (what, None),
        };
        let source = Source::new(source).ok_or_else(|| {
            format!(
                "unknown slot `{{{{{written}}}}}`; use `task`, `from NAME`, `said`, `result`, `result 2`, `result \
                 TOOL`, `error` likewise, `note` or `system`"
            )
        })?;
        Ok(Slot { written: written.to_owned(), source, pointer, pattern })
    }

    fn value(&self, heard: &Heard) -> Result<Value, Error> {
        let missing = |why: String| Error::Invalid(format!("the script says `{{{{{}}}}}`: {why}", self.written));
        let (text, json) = self.source.of(heard).map_err(missing)?;
        let value = match &self.pointer {
            None => Value::from(&*text),
            Some(pointer) => {
                let json = json.or_else(|| serde_json::from_str(&text).ok());
                let json = json.ok_or_else(|| missing(format!("the value is not JSON: {}", short(&text, SHOWN))))?;
                let value = json.pointer(pointer).cloned();
                value.ok_or_else(|| missing(format!("there is no `{pointer}` in {}", short(&text, SHOWN))))?
            }
        };
        let Some(pattern) = &self.pattern else { return Ok(value) };
        let text = in_words(value);
        let found = pattern.capture(&text).map(Value::from);
        found.ok_or_else(|| missing(format!("`{}` is not found in: {}", pattern.as_str(), short(&text, SHOWN))))
    }
}

impl Source {
    fn new(written: &str) -> Option<Source> {
        let (word, name) = written.split_once(' ').map_or((written, ""), |(word, name)| (word, name.trim()));
        Some(match (word, name) {
            ("task", "") => Source::Task,
            ("said", "") => Source::Said,
            ("note", "") => Source::Note,
            ("system", "") => Source::System,
            ("result", name) => Source::Result(Which::new(name)?),
            ("error", name) => Source::Failure(Which::new(name)?),
            ("from", name) if !name.is_empty() => Source::From(name.to_owned()),
            _ => return None,
        })
    }

    /// Returns the value as text and, for a result, as JSON. The error says what exists instead.
    fn of(&self, heard: &Heard) -> Result<(String, Option<Value>), String> {
        let text = |text: Option<String>, why: &str| Ok((text.ok_or(why)?, None));
        match self {
            Source::Task => Ok((heard.task(), None)),
            Source::Said => text(heard.said(), "there is no reply yet"),
            Source::Note => text(heard.note(), "there is no note"),
            Source::System => text(heard.system(), "there is no system prompt"),
            Source::From(name) => text(heard.from(name), &format!("`{name}` has said nothing in this conversation")),
            Source::Result(which) => {
                let (tool, result) = which.of(&heard.results(), "result")?;
                match result.is_error {
                    true => Err(format!(
                        "`{tool}` has failed, and `{{{{error}}}}` is why: {}",
                        short(&result.text(), SHOWN)
                    )),
                    false => Ok((result.in_words(), heard::json(result))),
                }
            }
            Source::Failure(which) => {
                let mut results = heard.results();
                results.retain(|(_, result)| result.is_error);
                let (_, result) = which.of(&results, "error")?;
                Ok((result.text(), heard::json(result)))
            }
        }
    }
}

impl Which {
    fn new(written: &str) -> Option<Which> {
        match (written, written.parse()) {
            ("", _) => Some(Which::Newest),
            (_, Ok(0)) => None,
            (_, Ok(number)) => Some(Which::Numbered(number)),
            (tool, Err(_)) => Some(Which::OfTool(tool.to_owned())),
        }
    }

    fn of<'a>(&self, results: &[Found<'a>], what: &str) -> Result<Found<'a>, String> {
        let found = match self {
            Which::Newest => results.last(),
            Which::Numbered(number) => results.get(number - 1),
            Which::OfTool(tool) => results.iter().rfind(|(name, _)| name == tool),
        };
        found.copied().ok_or_else(|| {
            let tools: Vec<_> = results.iter().map(|(tool, _)| format!("`{tool}`")).collect();
            match tools.is_empty() {
                true => format!("there is no {what} since the task"),
                false => format!("since the task there is one of {}", tools.join(", ")),
            }
        })
    }
}

/// Converts a value to text.
fn in_words(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// A JSON value whose texts are templates.
pub(crate) enum Shape {
    Text(Template),
    List(Vec<Shape>),
    Object(Vec<(String, Shape)>),
    Plain(Value),
}

impl Shape {
    /// Returns an empty object.
    pub fn nothing() -> Shape {
        Shape::Object(Vec::new())
    }

    fn new(value: Value) -> Result<Shape, String> {
        Ok(match value {
            Value::String(text) => Shape::Text(Template::new(&text)?),
            Value::Array(items) => Shape::List(items.into_iter().map(Shape::new).collect::<Result<_, _>>()?),
            Value::Object(fields) => {
                let field = |(name, value)| Ok((name, Shape::new(value)?));
                Shape::Object(fields.into_iter().map(field).collect::<Result<_, String>>()?)
            }
            plain => Shape::Plain(plain),
        })
    }

    pub fn fill(&self, heard: &Heard) -> Result<Value, Error> {
        Ok(match self {
            Shape::Text(template) => template.value(heard)?,
            Shape::List(items) => items.iter().map(|item| item.fill(heard)).collect::<Result<_, _>>()?,
            Shape::Object(fields) => {
                let field = |(name, shape): &(String, Shape)| Ok((name.clone(), shape.fill(heard)?));
                Value::Object(fields.iter().map(field).collect::<Result<Map<_, _>, Error>>()?)
            }
            Shape::Plain(value) => value.clone(),
        })
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Shape, D::Error> {
        Shape::new(Value::deserialize(from)?).map_err(D::Error::custom)
    }
}
