//! A printed call out of its JSON.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A call that stood in a text.
#[derive(Debug, PartialEq, Eq)]
pub struct PrintedCall {
    /// As it was printed; mostly empty.
    pub id: String,
    /// As the model wrote it.
    pub name: String,
    /// A JSON object, or nothing.
    pub arguments: String,
}

/// What models write. Anything beside it makes it something else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    name: Option<String>,
    tool: Option<String>,
    /// A name, or an object of this kind.
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
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Adds the calls that this JSON is: one, or a list. None if it is anything else. Without a mark, a call has arguments: an
/// object with a name alone says nothing of a call.
pub fn read(json: &str, is_marked: bool, calls: &mut Vec<PrintedCall>) -> Option<()> {
    if json.starts_with('[') {
        let list: Vec<Wire<'_>> = serde_json::from_str(json).ok()?;
        for wire in list {
            calls.push(wire.call(is_marked)?);
        }
    } else {
        calls.push(serde_json::from_str::<Wire<'_>>(json).ok()?.call(is_marked)?);
    }
    Some(())
}

impl PrintedCall {
    /// A call of a function whose arguments are this JSON.
    pub fn of_function(name: &str, json: &str) -> Option<Self> {
        Some(Self { id: String::new(), name: name.into(), arguments: object(json)? })
    }
}

impl Wire<'_> {
    fn call(self, is_marked: bool) -> Option<PrintedCall> {
        let Self { name, tool, function, arguments, parameters, args, input, _type, id } = self;
        let mut arguments = [arguments, parameters, args, input].into_iter().flatten();
        let (given, another) = (arguments.next(), arguments.next());
        let name = match (name, tool, function.map(RawValue::get)) {
            (Some(name), None, None) | (None, Some(name), None) => name,
            (None, None, Some(function)) if function.starts_with('"') => serde_json::from_str(function).ok()?,
            (None, None, Some(function)) if given.is_none() => {
                let inner: Wire<'_> = serde_json::from_str(function).ok()?;
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

/// The object that this JSON is, or holds as text.
fn object(json: &str) -> Option<String> {
    let json = if json.starts_with('"') { serde_json::from_str(json).ok()? } else { json.to_owned() };
    let is_object = json.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(&json).is_ok();
    is_object.then_some(json)
}

/// A word that may be anything else too.
fn word(json: Option<&RawValue>) -> String {
    json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
}
