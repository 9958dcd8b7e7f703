//! Conversion of results to JSON text, which is bounded while it is written, escapes included.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use wasmtime::component::Val;

use super::{
    handles::{ResourceHandles, TooManyHandles},
    map_keys::key_text,
    schema::SAFE,
    wit_types::{WitType, WitTypeKind},
};
use shelly_core::{error::Fault, limits};

/// The result of a function, for the model.
#[derive(Debug, PartialEq, Eq)]
pub enum FunctionOutput {
    /// A plain string, unchanged.
    Text(String),
    /// Any other value as JSON.
    Json(String),
}

/// Converts a value of this type. Handles in it are registered in `handles`.
///
/// # Errors
///
/// A [`Fault`] if the result is too large or contains too many handles.
pub fn written(shape: &WitType, value: &Val, handles: Option<&mut ResourceHandles>) -> Result<FunctionOutput, Fault> {
    if let Val::String(text) = value {
        return match text.len() > limits::RESULT_BYTES {
            true => Err(too_large()),
            false => Ok(FunctionOutput::Text(text.clone())),
        };
    }
    let mut writer = ValJsonWriter { out: String::new(), handles };
    writer.value(shape, value)?;
    Ok(FunctionOutput::Json(writer.out))
}

fn too_large() -> Fault {
    Fault::TooLarge { message: format!("the result has more than {} MiB", limits::RESULT_BYTES >> 20) }
}

struct ValJsonWriter<'a> {
    out: String,
    handles: Option<&'a mut ResourceHandles>,
}

impl ValJsonWriter<'_> {
    fn put(&mut self, text: &str) -> Result<(), Fault> {
        if self.out.len() + text.len() > limits::RESULT_BYTES {
            return Err(too_large());
        }
        self.out.push_str(text);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        if self.out.len() + text.len() > limits::RESULT_BYTES {
            return Err(too_large());
        }
        let quoted = serde_json::to_string(text).map_err(|error| Fault::other(error.to_string()))?;
        self.put(&quoted)
    }

    fn value(&mut self, shape: &WitType, value: &Val) -> Result<(), Fault> {
        match (&shape.form, value) {
            (WitTypeKind::Bool, Val::Bool(it)) => self.put(if *it { "true" } else { "false" }),
            (WitTypeKind::Int(_), Val::U8(it)) => self.put(&it.to_string()),
            (WitTypeKind::Int(_), Val::S8(it)) => self.put(&it.to_string()),
            (WitTypeKind::Int(_), Val::U16(it)) => self.put(&it.to_string()),
            (WitTypeKind::Int(_), Val::S16(it)) => self.put(&it.to_string()),
            (WitTypeKind::Int(_), Val::U32(it)) => self.put(&it.to_string()),
            (WitTypeKind::Int(_), Val::S32(it)) => self.put(&it.to_string()),
            (WitTypeKind::Int(_), Val::U64(it)) => self.large((*it).into()),
            (WitTypeKind::Int(_), Val::S64(it)) => self.large((*it).into()),
            // `{:?}` writes the shortest digits that identify the number among those of its own type.
            (WitTypeKind::F32, Val::Float32(it)) => self.float(it.is_finite(), (*it).into(), it),
            (WitTypeKind::F64, Val::Float64(it)) => self.float(it.is_finite(), *it, it),
            (WitTypeKind::Char, Val::Char(it)) => self.text(it.encode_utf8(&mut [0; 4])),
            (WitTypeKind::String, Val::String(it)) => self.text(it),
            (WitTypeKind::List(_) | WitTypeKind::Stream(_), Val::List(list)) if shape.is_bytes() => {
                let byte = |value: &Val| if let Val::U8(byte) = value { Ok(*byte) } else { Err(mismatch()) };
                let bytes = list.iter().map(byte).collect::<Result<Vec<_>, _>>()?;
                self.text(&STANDARD.encode(bytes))
            }
            (WitTypeKind::List(element) | WitTypeKind::Stream(element), Val::List(list)) => {
                self.list(list.iter().map(|value| (&**element, value)))
            }
            // `receive_streams` has replaced the future by its value.
            (WitTypeKind::Future(inner), value) => self.value(inner, value),
            (WitTypeKind::Map { key, value }, Val::Map(entries)) => self.map(key, value, entries),
            (WitTypeKind::Tuple(shapes), Val::Tuple(parts)) if shapes.len() == parts.len() => {
                self.list(shapes.iter().zip(parts))
            }
            (WitTypeKind::Record(fields), Val::Record(values)) if fields.len() == values.len() => {
                self.put("{")?;
                for (at, (field, (_, value))) in fields.iter().zip(values).enumerate() {
                    self.put(if at == 0 { "" } else { "," })?;
                    self.text(&field.name)?;
                    self.put(":")?;
                    self.value(&field.shape, value)?;
                }
                self.put("}")
            }
            (WitTypeKind::Variant(cases), Val::Variant(name, payload)) => {
                let case = cases.iter().find(|case| case.name == *name).ok_or_else(mismatch)?;
                match (&case.payload, payload) {
                    (None, None) => self.text(name),
                    (Some(shape), Some(payload)) => self.only(name, Some((shape, payload))),
                    _ => Err(mismatch()),
                }
            }
            (WitTypeKind::Enum(_), Val::Enum(name)) => self.text(name),
            (WitTypeKind::Flags(_), Val::Flags(names)) => {
                self.put("[")?;
                for (at, name) in names.iter().enumerate() {
                    self.put(if at == 0 { "" } else { "," })?;
                    self.text(name)?;
                }
                self.put("]")
            }
            (WitTypeKind::Option(_), Val::Option(None)) => self.put("null"),
            // A `null` inside must not be taken for a missing value.
            (WitTypeKind::Option(inner), Val::Option(Some(value))) if inner.is_option() => {
                self.only("some", Some((inner, value)))
            }
            (WitTypeKind::Option(inner), Val::Option(Some(value))) => self.value(inner, value),
            (WitTypeKind::Result { ok, .. }, Val::Result(Ok(value))) => {
                self.payload("ok", ok.as_deref(), value.as_deref())
            }
            (WitTypeKind::Result { error, .. }, Val::Result(Err(value))) => {
                self.payload("error", error.as_deref(), value.as_deref())
            }
            (WitTypeKind::Own(resource), Val::Resource(is)) => {
                let handles = self.handles.as_mut().ok_or_else(mismatch)?;
                let name = handles.give(resource, *is).map_err(|TooManyHandles| Fault::Exhausted {
                    message: format!(
                        "the function returned more than {} handles in one run; release some first",
                        limits::FUNCTION_HANDLES
                    ),
                })?;
                self.text(&name)
            }
            _ => Err(mismatch()),
        }
    }

    fn payload(&mut self, name: &str, shape: Option<&WitType>, value: Option<&Val>) -> Result<(), Fault> {
        match (shape, value) {
            (Some(shape), Some(value)) => self.only(name, Some((shape, value))),
            (None, None) => self.only(name, None),
            _ => Err(mismatch()),
        }
    }

    /// Writes an object with one field.
    fn only(&mut self, name: &str, value: Option<(&WitType, &Val)>) -> Result<(), Fault> {
        self.put("{")?;
        self.text(name)?;
        self.put(":")?;
        match value {
            Some((shape, value)) => self.value(shape, value)?,
            None => self.put("null")?,
        }
        self.put("}")
    }

    fn list<'v>(&mut self, list: impl Iterator<Item = (&'v WitType, &'v Val)>) -> Result<(), Fault> {
        self.put("[")?;
        for (at, (shape, value)) in list.enumerate() {
            self.put(if at == 0 { "" } else { "," })?;
            self.value(shape, value)?;
        }
        self.put("]")
    }

    /// Writes a map: as an object if its keys are strings, otherwise as a list of pairs. Of entries with equal keys the last
    /// one counts, as the component model defines it.
    fn map(&mut self, key: &WitType, value: &WitType, entries: &[(Val, Val)]) -> Result<(), Fault> {
        let keys = entries.iter().map(|(key, _)| key_text(key).ok_or_else(mismatch)).collect::<Result<Vec<_>, _>>()?;
        let last: HashMap<&str, usize> = keys.iter().enumerate().map(|(at, key)| (&**key, at)).collect();
        if last.len() < entries.len() && value.holds_own() {
            // The handles in the dropped entries would be lost.
            return Err(Fault::other("the component returned a map of handles with a duplicate key"));
        }
        let is_object = key.form == WitTypeKind::String;
        self.put(if is_object { "{" } else { "[" })?;
        let mut separator = "";
        for (at, (text, entry)) in keys.iter().zip(entries).enumerate() {
            if last.get(&**text) != Some(&at) {
                continue;
            }
            self.put(separator)?;
            separator = ",";
            if is_object {
                self.text(text)?;
                self.put(":")?;
                self.value(value, &entry.1)?;
            } else {
                self.list([(key, &entry.0), (value, &entry.1)].into_iter())?;
            }
        }
        self.put(if is_object { "}" } else { "]" })
    }

    fn large(&mut self, number: i128) -> Result<(), Fault> {
        match number.abs() <= SAFE {
            true => self.put(&number.to_string()),
            false => self.put(&format!("\"{number}\"")),
        }
    }

    fn float(&mut self, is_finite: bool, wide: f64, shown: &dyn std::fmt::Debug) -> Result<(), Fault> {
        match wide {
            _ if is_finite => self.put(&format!("{shown:?}")),
            _ if wide.is_nan() => self.put("\"NaN\""),
            wide if wide > 0.0 => self.put("\"Infinity\""),
            _ => self.put("\"-Infinity\""),
        }
    }
}

/// Returns the error for a value of the wrong type. The engine checks the types of results, so it should never appear.
fn mismatch() -> Fault {
    Fault::other("the component returned a value of the wrong type")
}
