//! Conversion of JSON arguments to the component's values; errors name the place in the arguments.

use std::{
    collections::HashSet,
    fmt::{self, Write as _},
    str::FromStr,
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::value::RawValue;
use wasmtime::component::Val;

use super::{
    handles::ResourceHandles,
    json_numbers::{is_decimal, whole},
    map_keys::key_text,
    schema::NOT_NUMBERS,
    shallow_json::ShallowJson,
    wit::called,
    wit_types::{WitField, WitInt, WitType, WitTypeKind},
};
use shelly_core::{
    error::{Fault, cut},
    limits,
};

/// Base64 with or without padding: the schema's `contentEncoding: base64` allows both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The arguments of a call.
#[derive(Debug)]
pub struct FunctionArguments {
    /// The values in the order of the parameters.
    pub values: Vec<Val>,
    /// The numbers of the handles whose ownership is passed to the component.
    pub given_away: Vec<u32>,
}

/// Converts the arguments of a function: an object with the parameters by name.
///
/// # Errors
///
/// A [`Fault`] that names the place of the mistake, and what was expected.
pub fn arguments(
    params: &[WitField],
    json: &str,
    handles: Option<&ResourceHandles>,
) -> Result<FunctionArguments, Fault> {
    let raw: &RawValue =
        serde_json::from_str(json).map_err(|error| Fault::invalid(format!("the arguments are not JSON: {error}")))?;
    let mut reader =
        FunctionArgumentReader { path: String::new(), left: limits::HOSTCALL_BYTES, handles, used: Vec::new() };
    let ShallowJson::Object(object) = reader.parsed(raw)? else {
        return Err(Fault::invalid("the arguments are not a JSON object"));
    };
    let values = reader.fields(params, &object, "argument")?.into_iter().map(|(_, value)| value).collect();
    let given_away = reader.used.into_iter().filter(|(_, is_given_away)| *is_given_away).map(|(number, _)| number);
    Ok(FunctionArguments { values, given_away: given_away.collect() })
}

struct FunctionArgumentReader<'a> {
    /// The place of the current value: `items[3].price`.
    path: String,
    /// The bytes of memory that values may still take.
    left: usize,
    handles: Option<&'a ResourceHandles>,
    /// The numbers of the handles that are used; `true` for one that is given away.
    used: Vec<(u32, bool)>,
}

impl FunctionArgumentReader<'_> {
    fn fields(
        &mut self,
        fields: &[WitField],
        object: &[(String, &RawValue)],
        what: &str,
    ) -> Result<Vec<(String, Val)>, Fault> {
        if let Some((unknown, _)) = object.iter().find(|(name, _)| fields.iter().all(|field| field.name != *name)) {
            let known: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
            return Err(self.no_such(what, unknown, &known));
        }
        let field = |field: &WitField| {
            let value = match object.iter().find(|(name, _)| *name == field.name) {
                Some((_, raw)) => self.below(&field.name, &field.shape, raw)?,
                None if field.shape.is_option() => self.charge(0).map(|()| Val::Option(None))?,
                None => {
                    let (name, kind) = (&field.name, called(&field.shape));
                    return Err(self.wrong(format_args!("missing {what} `{name}` of type {kind}")));
                }
            };
            self.charge(field.name.len())?;
            Ok((field.name.clone(), value))
        };
        fields.iter().map(field).collect()
    }

    /// Parses the outermost level of a value.
    fn parsed<'j>(&self, raw: &'j RawValue) -> Result<ShallowJson<'j>, Fault> {
        ShallowJson::parse(raw).map_err(|why| self.wrong(format_args!("{why}")))
    }

    fn value(&mut self, shape: &WitType, raw: &RawValue) -> Result<Val, Fault> {
        self.charge(0)?;
        if let WitTypeKind::Option(inner) = &shape.form
            && !inner.is_option()
            && raw.get() != "null"
        {
            return Ok(Val::Option(Some(Box::new(self.value(inner, raw)?))));
        }
        let json = self.parsed(raw)?;
        let expected = |reader: &Self, what: &str| reader.expected(what, &json);
        Ok(match (&shape.form, &json) {
            (WitTypeKind::Bool, ShallowJson::Bool(it)) => Val::Bool(*it),
            (WitTypeKind::Bool, _) => return Err(expected(self, "true or false")),
            (WitTypeKind::Int(int), _) => self.integer(*int, &json)?,
            (WitTypeKind::F32, _) => Val::Float32(self.float(&json, "f32", f32::is_finite)?),
            (WitTypeKind::F64, _) => Val::Float64(self.float(&json, "f64", f64::is_finite)?),
            (WitTypeKind::Char, ShallowJson::String(text)) => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(one), None) => Val::Char(one),
                    _ => return Err(expected(self, "one character")),
                }
            }
            (WitTypeKind::Char, _) => return Err(expected(self, "one character, as a string")),
            (WitTypeKind::String, ShallowJson::String(text)) => {
                self.charge(text.len())?;
                Val::String(text.clone())
            }
            (WitTypeKind::String, _) => return Err(expected(self, "a string")),
            (WitTypeKind::List(_) | WitTypeKind::Stream(_), ShallowJson::String(text)) if shape.is_bytes() => {
                let bytes = BASE64.decode(text).map_err(|_| expected(self, "bytes in base64"))?;
                self.charge(bytes.len() * size_of::<Val>())?;
                Val::List(bytes.into_iter().map(Val::U8).collect())
            }
            (WitTypeKind::List(element) | WitTypeKind::Stream(element), ShallowJson::List(list)) => {
                Val::List(self.each(list.iter().map(|raw| (&**element, *raw)))?)
            }
            (WitTypeKind::List(_) | WitTypeKind::Stream(_), _) if shape.is_bytes() => {
                return Err(expected(self, "bytes: a string in base64, or a list of numbers"));
            }
            (WitTypeKind::List(_) | WitTypeKind::Stream(_), _) => return Err(expected(self, "a list")),
            // `send_streams` makes a future of this value when the function is called.
            (WitTypeKind::Future(inner), _) => self.value(inner, raw)?,
            (WitTypeKind::Map { key, value }, ShallowJson::Object(fields)) if key.form == WitTypeKind::String => {
                Val::Map(self.named_entries(value, fields)?)
            }
            (WitTypeKind::Map { key, .. }, _) if key.form == WitTypeKind::String => {
                return Err(expected(self, "an object: its names are the keys of the map"));
            }
            (WitTypeKind::Map { key, value }, ShallowJson::List(list)) => Val::Map(self.entries(key, value, list)?),
            (WitTypeKind::Map { .. }, _) => return Err(expected(self, "a list of pairs, each of a key and its value")),
            (WitTypeKind::Tuple(parts), ShallowJson::List(list)) if parts.len() == list.len() => {
                Val::Tuple(self.each(parts.iter().zip(list.iter().copied()))?)
            }
            (WitTypeKind::Tuple(parts), _) => return Err(expected(self, &format!("a list of {}", parts.len()))),
            (WitTypeKind::Record(fields), ShallowJson::Object(object)) => {
                Val::Record(self.fields(fields, object, "field")?)
            }
            (WitTypeKind::Record(_), _) => return Err(expected(self, &format!("an object ({})", called(shape)))),
            (WitTypeKind::Variant(cases), _) => {
                let (name, payload) = match (&json, json.only_field()) {
                    (ShallowJson::String(name), _) => (name.as_str(), None),
                    (_, Some((name, payload))) => (name, Some(payload)),
                    _ => return Err(expected(self, "the name of a case, or an object of one case and its value")),
                };
                let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
                let case = cases.iter().find(|case| case.name == *name);
                let case = case.ok_or_else(|| self.no_such("case", name, &names))?;
                self.charge(name.len())?;
                let payload = match (&case.payload, payload) {
                    (None, None) => None,
                    (Some(shape), Some(payload)) => Some(Box::new(self.below(name, shape, payload)?)),
                    (None, Some(_)) => return Err(expected(self, &format!("\"{name}\" alone: the case has no value"))),
                    (Some(shape), None) => {
                        return Err(expected(
                            self,
                            &format!("{{\"{name}\": …}} with a value of type {}", called(shape)),
                        ));
                    }
                };
                Val::Variant(name.to_owned(), payload)
            }
            (WitTypeKind::Enum(cases), ShallowJson::String(name)) => {
                let names: Vec<_> = cases.iter().map(String::as_str).collect();
                if !cases.contains(name) {
                    return Err(self.no_such("case", name, &names));
                }
                self.charge(name.len())?;
                Val::Enum(name.clone())
            }
            (WitTypeKind::Enum(cases), _) => return Err(expected(self, &format!("one of {}", listed(cases)))),
            (WitTypeKind::Flags(flags), ShallowJson::List(list)) => Val::Flags(self.flags(flags, list)?),
            (WitTypeKind::Flags(flags), _) => {
                return Err(expected(self, &format!("a list of some of {}", listed(flags))));
            }
            (WitTypeKind::Option(inner), _) => match (&json, json.only_field()) {
                (ShallowJson::Null, _) => Val::Option(None),
                (_, Some(("some", raw))) => Val::Option(Some(Box::new(self.below("some", inner, raw)?))),
                _ => return Err(expected(self, "null, or {\"some\": …}")),
            },
            (WitTypeKind::Result { ok, error }, _) => match json.only_field() {
                Some(("ok", raw)) => Val::Result(Ok(self.payload("ok", ok, raw)?)),
                Some(("error", raw)) => Val::Result(Err(self.payload("error", error, raw)?)),
                _ => return Err(expected(self, "{\"ok\": …} or {\"error\": …}")),
            },
            (WitTypeKind::Own(resource), _) => self.handle(resource, &json, true)?,
            (WitTypeKind::Borrow(resource), _) => self.handle(resource, &json, false)?,
        })
    }

    fn payload(&mut self, name: &str, shape: &Option<Box<WitType>>, raw: &RawValue) -> Result<Option<Box<Val>>, Fault> {
        match shape {
            Some(shape) => Ok(Some(Box::new(self.below(name, shape, raw)?))),
            None if raw.get() == "null" => Ok(None),
            None => Err(self.expected(&format!("{{\"{name}\": null}} without a value"), &self.parsed(raw)?)),
        }
    }

    /// Converts a value that an object has under this name.
    fn below(&mut self, name: &str, shape: &WitType, raw: &RawValue) -> Result<Val, Fault> {
        let before = self.path.len();
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
        let value = self.value(shape, raw)?;
        self.path.truncate(before);
        Ok(value)
    }

    /// Converts the element of a list.
    fn element(&mut self, at: usize, shape: &WitType, raw: &RawValue) -> Result<Val, Fault> {
        let before = self.path.len();
        let _ = write!(self.path, "[{at}]");
        let value = self.value(shape, raw)?;
        self.path.truncate(before);
        Ok(value)
    }

    fn each<'v>(&mut self, list: impl Iterator<Item = (&'v WitType, &'v RawValue)>) -> Result<Vec<Val>, Fault> {
        list.enumerate().map(|(at, (shape, raw))| self.element(at, shape, raw)).collect()
    }

    /// Converts the entries of a map whose keys are strings.
    fn named_entries(&mut self, value: &WitType, fields: &[(String, &RawValue)]) -> Result<Vec<(Val, Val)>, Fault> {
        let entry = |(name, raw): &(String, &RawValue)| -> Result<(Val, Val), Fault> {
            self.charge(name.len())?;
            let held = self.below(&cut(name, limits::NAME_SHOWN_CHARS), value, raw)?;
            Ok((Val::String(name.clone()), held))
        };
        fields.iter().map(entry).collect()
    }

    /// Converts the entries of a map whose keys are not strings.
    fn entries(&mut self, key: &WitType, value: &WitType, list: &[&RawValue]) -> Result<Vec<(Val, Val)>, Fault> {
        let (mut entries, mut seen, before) = (Vec::new(), HashSet::new(), self.path.len());
        for (at, raw) in list.iter().enumerate() {
            let _ = write!(self.path, "[{at}]");
            let json = self.parsed(raw)?;
            let pair = if let ShallowJson::List(pair) = &json { pair.as_slice() } else { &[] };
            let &[key_raw, value_raw] = pair else {
                return Err(self.expected("a list of a key and its value", &json));
            };
            let held_key = self.element(0, key, key_raw)?;
            let text = key_text(&held_key).unwrap_or_default().into_owned();
            if seen.contains(&text) {
                return Err(self.wrong(format_args!("duplicate key `{text}`")));
            }
            seen.insert(text);
            entries.push((held_key, self.element(1, value, value_raw)?));
            self.path.truncate(before);
        }
        Ok(entries)
    }

    fn flags(&mut self, flags: &[String], list: &[&RawValue]) -> Result<Vec<String>, Fault> {
        let names: Vec<_> = flags.iter().map(String::as_str).collect();
        let mut set = Vec::new();
        for raw in list {
            let json = self.parsed(raw)?;
            let ShallowJson::String(name) = &json else {
                return Err(self.expected(&format!("one of {}", listed(flags)), &json));
            };
            if !flags.contains(name) {
                return Err(self.no_such("flag", name, &names));
            }
            if set.contains(name) {
                return Err(self.wrong(format_args!("duplicate flag `{name}`")));
            }
            self.charge(name.len())?;
            set.push(name.clone());
        }
        Ok(set)
    }

    fn handle(&mut self, resource: &str, json: &ShallowJson<'_>, is_given_away: bool) -> Result<Val, Fault> {
        let (ShallowJson::String(name), Some(handles)) = (json, self.handles) else {
            return Err(self.expected(&format!("a handle of `{resource}`, as a string"), json));
        };
        let (number, is) = handles.find(name, resource).map_err(|why| self.wrong(format_args!("{why}")))?;
        if self.used.iter().any(|(used, is_gone)| *used == number && (is_given_away || *is_gone)) {
            return Err(self.wrong(format_args!("`{name}` is both used and passed on in one call")));
        }
        self.used.push((number, is_given_away));
        Ok(Val::Resource(is))
    }

    fn integer(&self, int: WitInt, json: &ShallowJson<'_>) -> Result<Val, Fault> {
        let (kind, least, most) = int.facts();
        let number = match json {
            ShallowJson::Number(number) => whole(number),
            ShallowJson::String(digits) if int.is_large() && is_decimal(digits) => digits.parse().ok(),
            _ => None,
        };
        let expected = || {
            let or_digits = if int.is_large() { ", as a number or in digits as a string" } else { "" };
            self.expected(&format!("a whole number from {least} to {most} ({kind}){or_digits}"), json)
        };
        let number = number.filter(|number| (least..=most).contains(number)).ok_or_else(expected)?;
        // In range, so the casts lose nothing.
        Ok(match int {
            WitInt::U8 => Val::U8(number as u8),
            WitInt::S8 => Val::S8(number as i8),
            WitInt::U16 => Val::U16(number as u16),
            WitInt::S16 => Val::S16(number as i16),
            WitInt::U32 => Val::U32(number as u32),
            WitInt::S32 => Val::S32(number as i32),
            WitInt::U64 => Val::U64(number as u64),
            WitInt::S64 => Val::S64(number as i64),
        })
    }

    /// Converts a number of the type `kind` from its digits, so that it is rounded once: not to an `f64` before.
    fn float<F: FromStr + From<f32> + Copy>(
        &self,
        json: &ShallowJson<'_>,
        kind: &str,
        is_finite: fn(F) -> bool,
    ) -> Result<F, Fault> {
        match json {
            ShallowJson::Number(digits) => {
                let number = digits.parse::<F>().ok().filter(|number| is_finite(*number));
                number.ok_or_else(|| self.expected(&format!("a number in the range of {kind}"), json))
            }
            ShallowJson::String(name) => match NOT_NUMBERS.iter().position(|known| known == name) {
                Some(0) => Ok(F::from(f32::NAN)),
                Some(1) => Ok(F::from(f32::INFINITY)),
                Some(_) => Ok(F::from(f32::NEG_INFINITY)),
                None => Err(self.expected("a number", json)),
            },
            _ => Err(self.expected("a number", json)),
        }
    }

    /// Counts the memory of a value, beyond that of the [`Val`] itself, against the limit of the call.
    fn charge(&mut self, bytes: usize) -> Result<(), Fault> {
        let left = self.left.checked_sub(bytes.saturating_add(size_of::<Val>()));
        self.left = left.ok_or_else(|| Fault::TooLarge {
            message: format!(
                "the arguments take more than {} MiB in the component's types",
                limits::HOSTCALL_BYTES >> 20
            ),
        })?;
        Ok(())
    }

    fn expected(&self, what: &str, got: &ShallowJson<'_>) -> Fault {
        self.wrong(format_args!("expected {what}, got {got}"))
    }

    fn no_such(&self, what: &str, name: &str, known: &[&str]) -> Fault {
        // The comparison with the known names takes memory for each pair of characters, so it gets no more than is shown.
        let shown = cut(name, limits::NAME_SHOWN_CHARS);
        self.wrong(format_args!("unknown {what} `{shown}`{}", instead(&shown, known)))
    }

    fn wrong(&self, what: fmt::Arguments<'_>) -> Fault {
        Fault::invalid(if self.path.is_empty() { what.to_string() } else { format!("{}: {what}", self.path) })
    }
}

/// Returns a suggestion for a message: `; did you mean …?`, or the known names.
fn instead(name: &str, known: &[&str]) -> String {
    let score = |known: &str| strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let near = known.iter().map(|known| (score(known), known)).filter(|(score, _)| *score >= 0.5);
    match near.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((_, near)) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => "; none is expected".into(),
        None => format!("; expected one of {}", listed(known)),
    }
}

fn listed(names: &[impl AsRef<str>]) -> String {
    let shown = names.iter().take(limits::NAMES_SHOWN).map(|name| format!("`{}`", name.as_ref()));
    let more = if names.len() > limits::NAMES_SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
}
