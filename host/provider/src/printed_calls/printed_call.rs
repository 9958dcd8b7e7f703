//! Conversion of JSON into printed calls.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::literal;

/// A call that was found in a text.
#[derive(Debug, PartialEq, Eq)]
pub struct PrintedCall {
    /// The id that the model printed; usually empty.
    pub id: String,
    /// The name that the model wrote, or that of the offered tool.
    pub name: String,
    /// A JSON object, or an empty string.
    pub arguments: String,
}

/// The fields that models write. An object with any other field is not a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrintedCallJson<'a> {
    #[serde(alias = "tool_name", alias = "function_name")]
    name: Option<String>,
    tool: Option<String>,
    /// A name, or an object with the fields of this type.
    #[serde(borrow)]
    function: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(rename = "type", borrow)]
    _type: Option<&'a RawValue>,
    #[serde(alias = "tool_call_id", borrow)]
    id: Option<&'a RawValue>,
}

/// An object around calls, in the form that servers send.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrintedCallsEnvelope<'a> {
    #[serde(alias = "tool_call", alias = "function_call", alias = "function_calls", borrow)]
    tool_calls: &'a RawValue,
}

/// Appends the calls in this JSON: one or a list, possibly with superfluous commas. Returns `None` for anything else.
/// Without a mark, a call must have arguments, because an object with only a name does not look like a call.
pub fn read(json: &str, is_marked: bool, calls: &mut Vec<PrintedCall>) -> Option<()> {
    if serde_json::from_str::<&RawValue>(json).is_ok() {
        return read_strict(json, is_marked, calls);
    }
    read_strict(&strict(json)?, is_marked, calls)
}

fn read_strict(json: &str, is_marked: bool, calls: &mut Vec<PrintedCall>) -> Option<()> {
    if let Ok(PrintedCallsEnvelope { tool_calls }) = serde_json::from_str(json) {
        // This field name shows that calls are meant.
        return read_list(tool_calls.get(), true, calls);
    }
    read_list(json, is_marked, calls)
}

fn read_list(json: &str, is_marked: bool, calls: &mut Vec<PrintedCall>) -> Option<()> {
    if json.starts_with('[') {
        let list: Vec<PrintedCallJson<'_>> =
            serde_json::from_str(json).ok().filter(|list: &Vec<_>| !list.is_empty())?;
        for wire in list {
            calls.push(wire.call(is_marked)?);
        }
    } else {
        calls.push(serde_json::from_str::<PrintedCallJson<'_>>(json).ok()?.call(is_marked)?);
    }
    Some(())
}

/// Converts text that is nearly JSON to JSON.
fn strict(json: &str) -> Option<String> {
    let mut strict = String::new();
    match literal::read(json, &mut strict) {
        literal::LiteralOutcome::Whole(bytes) if json[bytes..].trim().is_empty() => Some(strict),
        _ => None,
    }
}

impl PrintedCallJson<'_> {
    fn call(self, is_marked: bool) -> Option<PrintedCall> {
        let Self { name, tool, function, arguments, parameters, args, input, _type, id } = self;
        let mut arguments = [arguments, parameters, args, input].into_iter().flatten();
        let (given, another) = (arguments.next(), arguments.next());
        let name = match (name, tool, function.map(RawValue::get)) {
            (Some(name), None, None) | (None, Some(name), None) => name,
            (None, None, Some(function)) if function.starts_with('"') => serde_json::from_str(function).ok()?,
            (None, None, Some(function)) if given.is_none() => {
                let inner: PrintedCallJson<'_> = serde_json::from_str(function).ok()?;
                let inner = if inner.function.is_none() { inner.call(is_marked)? } else { return None };
                let id = if inner.id.is_empty() { word(id) } else { inner.id };
                return Some(PrintedCall { id, ..inner });
            }
            _ => return None,
        };
        let arguments = match (given, another) {
            (Some(given), None) => object(given.get())?,
            (None, _) if is_marked => String::new(),
            _ => return None,
        };
        Some(PrintedCall { id: word(id), name, arguments })
    }
}

/// Returns the object in this JSON: the value itself, or the content of a JSON string.
pub fn object(json: &str) -> Option<String> {
    let json = if json.starts_with('"') { serde_json::from_str(json).ok()? } else { json.to_owned() };
    if !json.trim_start().starts_with('{') {
        return None;
    }
    if serde_json::from_str::<&RawValue>(&json).is_ok() { Some(json) } else { strict(json.trim()) }
}

/// Returns the string in this JSON; empty if it is anything else.
fn word(json: Option<&RawValue>) -> String {
    json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
}
