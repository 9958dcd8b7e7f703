//! Conversion of JSON arguments to the component's values; errors name the place in the arguments.

use std::{collections::BTreeMap, fmt};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Number, Value, value::RawValue};
use wasmtime::component::Val;

use super::{
    handles::ResourceHandles,
    schema::NOT_NUMBERS,
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
    /// The numbers of the handles that are passed to the component for good.
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
    let raw = serde_json::from_str(json).map_err(not_json)?;
    let value = exact(raw, 2 * limits::VALUE_DEPTH + 2)?;
    let mut reader =
        FunctionArgumentReader { path: String::new(), left: limits::HOSTCALL_BYTES, handles, used: Vec::new() };
    let Value::Object(object) = &value else { return Err(Fault::invalid("the arguments are not a JSON object")) };
    let values = reader.fields(params, object, "argument")?.into_iter().map(|(_, value)| value).collect();
    let given_away = reader.used.into_iter().filter(|(_, is_given_away)| *is_given_away).map(|(number, _)| number);
    Ok(FunctionArguments { values, given_away: given_away.collect() })
}

fn not_json(error: serde_json::Error) -> Fault {
    Fault::invalid(format!("the arguments are not JSON: {error}"))
}

/// Parses a value with its numbers exactly as written: the parser rounds the last digit of some. `depth` is the number
/// of further nested lists and objects that are allowed, at most two per type.
fn exact(raw: &RawValue, depth: usize) -> Result<Value, Fault> {
    let text = raw.get();
    let deeper = || {
        let most = 2 * limits::VALUE_DEPTH + 2;
        let too_deep = || Fault::invalid(format!("the arguments have more than {most} nested lists and objects"));
        depth.checked_sub(1).ok_or_else(too_deep)
    };
    match text.as_bytes().first() {
        Some(b'{') => {
            let depth = deeper()?;
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(not_json)?;
            let fields = fields.into_iter().map(|(name, raw)| Ok((name, exact(raw, depth)?)));
            Ok(Value::Object(fields.collect::<Result<_, Fault>>()?))
        }
        Some(b'[') => {
            let depth = deeper()?;
            let list: Vec<&RawValue> = serde_json::from_str(text).map_err(not_json)?;
            Ok(Value::Array(list.into_iter().map(|raw| exact(raw, depth)).collect::<Result<_, _>>()?))
        }
        Some(b'-' | b'0'..=b'9') => {
            let too_large =
                || Fault::invalid(format!("the number {} is too large", cut(text, limits::NAME_SHOWN_CHARS)));
            let whole = text.parse::<u64>().map(Number::from).or_else(|_| text.parse::<i64>().map(Number::from));
            let number = match whole {
                // `-0` stays a floating point number: as an integer it would lose its sign.
                Ok(whole) if text != "-0" => Some(whole),
                _ => text.parse().ok().and_then(Number::from_f64),
            };
            number.map(Value::Number).ok_or_else(too_large)
        }
        _ => serde_json::from_str(text).map_err(not_json),
    }
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
        object: &Map<String, Value>,
        what: &str,
    ) -> Result<Vec<(String, Val)>, Fault> {
        if let Some(unknown) = object.keys().find(|key| fields.iter().all(|field| field.name != **key)) {
            let known: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
            let shown = cut(unknown, limits::NAME_SHOWN_CHARS);
            return Err(self.wrong(format_args!("unknown {what} `{shown}`{}", instead(unknown, &known))));
        }
        let field = |field: &WitField| {
            let before = self.path.len();
            let value = match object.get(&field.name) {
                Some(value) => {
                    self.step(&field.name);
                    self.value(&field.shape, value)?
                }
                None if field.shape.is_option() => self.paid(0).map(|()| Val::Option(None))?,
                None => {
                    let (name, kind) = (&field.name, called(&field.shape));
                    return Err(self.wrong(format_args!("missing {what} `{name}` of type {kind}")));
                }
            };
            self.path.truncate(before);
            self.paid(field.name.len())?;
            Ok((field.name.clone(), value))
        };
        fields.iter().map(field).collect()
    }

    fn value(&mut self, shape: &WitType, value: &Value) -> Result<Val, Fault> {
        self.paid(0)?;
        let expected = |reader: &Self, what: &str| reader.expected(what, value);
        Ok(match (&shape.form, value) {
            (WitTypeKind::Bool, Value::Bool(it)) => Val::Bool(*it),
            (WitTypeKind::Bool, _) => return Err(expected(self, "true or false")),
            (WitTypeKind::Int(int), _) => self.integer(*int, value)?,
            (WitTypeKind::F32, _) => {
                let wide = self.float(value)?;
                let narrow = wide as f32;
                if wide.is_finite() && narrow.is_infinite() {
                    return Err(expected(self, "a number in the range of f32"));
                }
                Val::Float32(narrow)
            }
            (WitTypeKind::F64, _) => Val::Float64(self.float(value)?),
            (WitTypeKind::Char, Value::String(text)) => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(one), None) => Val::Char(one),
                    _ => return Err(expected(self, "one character")),
                }
            }
            (WitTypeKind::Char, _) => return Err(expected(self, "one character, as a string")),
            (WitTypeKind::String, Value::String(text)) => {
                self.paid(text.len())?;
                Val::String(text.clone())
            }
            (WitTypeKind::String, _) => return Err(expected(self, "a string")),
            (WitTypeKind::List(_), Value::String(text)) if shape.is_bytes() => {
                let bytes = BASE64.decode(text).map_err(|_| expected(self, "bytes in base64"))?;
                self.paid(bytes.len() * size_of::<Val>())?;
                Val::List(bytes.into_iter().map(Val::U8).collect())
            }
            (WitTypeKind::List(element), Value::Array(list)) => {
                Val::List(self.each(list.iter().map(|it| (&**element, it)))?)
            }
            (WitTypeKind::List(_), _) if shape.is_bytes() => {
                return Err(expected(self, "bytes: a string in base64, or a list of numbers"));
            }
            (WitTypeKind::List(_), _) => return Err(expected(self, "a list")),
            (WitTypeKind::Tuple(parts), Value::Array(list)) if parts.len() == list.len() => {
                Val::Tuple(self.each(parts.iter().zip(list))?)
            }
            (WitTypeKind::Tuple(parts), _) => return Err(expected(self, &format!("a list of {}", parts.len()))),
            (WitTypeKind::Record(fields), Value::Object(object)) => Val::Record(self.fields(fields, object, "field")?),
            (WitTypeKind::Record(_), _) => return Err(expected(self, &format!("an object ({})", called(shape)))),
            (WitTypeKind::Variant(cases), _) => {
                let (name, payload) = match value {
                    Value::String(name) => (name, None),
                    Value::Object(object) if object.len() == 1 => {
                        let (name, payload) = object.iter().next().ok_or_else(|| expected(self, "a case"))?;
                        (name, Some(payload))
                    }
                    _ => return Err(expected(self, "the name of a case, or an object of one case and its value")),
                };
                let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
                let case = cases.iter().find(|case| case.name == *name);
                let case = case.ok_or_else(|| self.no_such("case", name, &names))?;
                self.paid(name.len())?;
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
                Val::Variant(name.clone(), payload)
            }
            (WitTypeKind::Enum(cases), Value::String(name)) => {
                let names: Vec<_> = cases.iter().map(String::as_str).collect();
                if !cases.contains(name) {
                    return Err(self.no_such("case", name, &names));
                }
                self.paid(name.len())?;
                Val::Enum(name.clone())
            }
            (WitTypeKind::Enum(cases), _) => return Err(expected(self, &format!("one of {}", listed(cases)))),
            (WitTypeKind::Flags(flags), Value::Array(list)) => Val::Flags(self.flags(flags, list)?),
            (WitTypeKind::Flags(flags), _) => {
                return Err(expected(self, &format!("a list of some of {}", listed(flags))));
            }
            (WitTypeKind::Option(_), Value::Null) => Val::Option(None),
            (WitTypeKind::Option(inner), _) if inner.is_option() => match value.as_object() {
                Some(object) if object.len() == 1 && object.contains_key("some") => {
                    Val::Option(Some(Box::new(self.below("some", inner, &object["some"])?)))
                }
                _ => return Err(expected(self, "null, or {\"some\": …}")),
            },
            (WitTypeKind::Option(inner), _) => Val::Option(Some(Box::new(self.value(inner, value)?))),
            (WitTypeKind::Result { ok, error }, _) => {
                let one = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.iter().next());
                match one {
                    Some((name, value)) if name == "ok" => Val::Result(Ok(self.payload(name, ok, value)?)),
                    Some((name, value)) if name == "error" => Val::Result(Err(self.payload(name, error, value)?)),
                    _ => return Err(expected(self, "{\"ok\": …} or {\"error\": …}")),
                }
            }
            (WitTypeKind::Own(resource), _) => self.handle(resource, value, true)?,
            (WitTypeKind::Borrow(resource), _) => self.handle(resource, value, false)?,
        })
    }

    fn payload(&mut self, name: &str, shape: &Option<Box<WitType>>, value: &Value) -> Result<Option<Box<Val>>, Fault> {
        match (shape, value) {
            (Some(shape), _) => Ok(Some(Box::new(self.below(name, shape, value)?))),
            (None, Value::Null) => Ok(None),
            (None, _) => Err(self.expected(&format!("{{\"{name}\": null}} without a value"), value)),
        }
    }

    /// Converts a value that an object has under this name.
    fn below(&mut self, name: &str, shape: &WitType, value: &Value) -> Result<Val, Fault> {
        let before = self.path.len();
        self.step(name);
        let value = self.value(shape, value)?;
        self.path.truncate(before);
        Ok(value)
    }

    fn each<'v>(&mut self, list: impl Iterator<Item = (&'v WitType, &'v Value)>) -> Result<Vec<Val>, Fault> {
        let before = self.path.len();
        let element = |(at, (shape, value)): (usize, (&WitType, &Value))| {
            self.path.push_str(&format!("[{at}]"));
            let value = self.value(shape, value)?;
            self.path.truncate(before);
            Ok(value)
        };
        list.enumerate().map(element).collect()
    }

    fn flags(&mut self, flags: &[String], list: &[Value]) -> Result<Vec<String>, Fault> {
        let names: Vec<_> = flags.iter().map(String::as_str).collect();
        let mut set = Vec::new();
        for value in list {
            let Value::String(name) = value else {
                return Err(self.expected(&format!("one of {}", listed(flags)), value));
            };
            if !flags.contains(name) {
                return Err(self.no_such("flag", name, &names));
            }
            if set.contains(name) {
                return Err(self.wrong(format_args!("duplicate flag `{name}`")));
            }
            self.paid(name.len())?;
            set.push(name.clone());
        }
        Ok(set)
    }

    fn handle(&mut self, resource: &str, value: &Value, is_given_away: bool) -> Result<Val, Fault> {
        let (Value::String(name), Some(handles)) = (value, self.handles) else {
            return Err(self.expected(&format!("a handle of `{resource}`, as a string"), value));
        };
        let (number, is) = handles.find(name, resource).map_err(|why| self.wrong(format_args!("{why}")))?;
        if self.used.iter().any(|(used, is_gone)| *used == number && (is_given_away || *is_gone)) {
            return Err(self.wrong(format_args!("`{name}` is both used and passed on in one call")));
        }
        self.used.push((number, is_given_away));
        Ok(Val::Resource(is))
    }

    fn integer(&self, int: WitInt, value: &Value) -> Result<Val, Fault> {
        let (kind, least, most) = int.facts();
        let number = match value {
            Value::Number(number) => number.as_i128().or_else(|| whole(number.as_f64()?)),
            Value::String(digits) if int.is_large() && is_decimal(digits) => digits.parse().ok(),
            _ => None,
        };
        let expected = || {
            let or_digits = if int.is_large() { ", as a number or in digits as a string" } else { "" };
            self.expected(&format!("a whole number from {least} to {most} ({kind}){or_digits}"), value)
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

    fn float(&self, value: &Value) -> Result<f64, Fault> {
        match value {
            Value::Number(number) => number.as_f64(),
            Value::String(name) => match NOT_NUMBERS.iter().position(|known| known == name) {
                Some(0) => Some(f64::NAN),
                Some(1) => Some(f64::INFINITY),
                Some(_) => Some(f64::NEG_INFINITY),
                None => None,
            },
            _ => None,
        }
        .ok_or_else(|| self.expected("a number", value))
    }

    /// Counts the memory that a value takes.
    fn paid(&mut self, bytes: usize) -> Result<(), Fault> {
        let left = self.left.checked_sub(bytes.saturating_add(size_of::<Val>()));
        self.left = left.ok_or_else(|| Fault::TooLarge {
            message: format!(
                "the arguments take more than {} MiB in the component's types",
                limits::HOSTCALL_BYTES >> 20
            ),
        })?;
        Ok(())
    }

    fn step(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    fn expected(&self, what: &str, got: &Value) -> Fault {
        let got = match got {
            // Large values are summarised instead of being written out and cut.
            Value::Array(list) => format!("a list of {}", list.len()),
            Value::Object(object) if object.len() > 1 => format!("an object of {} fields", object.len()),
            other => cut(&other.to_string(), limits::NAME_SHOWN_CHARS),
        };
        self.wrong(format_args!("expected {what}, got {got}"))
    }

    fn no_such(&self, what: &str, name: &str, known: &[&str]) -> Fault {
        let shown = cut(name, limits::NAME_SHOWN_CHARS);
        self.wrong(format_args!("unknown {what} `{shown}`{}", instead(name, known)))
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

fn is_decimal(digits: &str) -> bool {
    let digits = digits.strip_prefix('-').unwrap_or(digits);
    (1..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the integer for a number that JSON writes with a fraction or an exponent, if it is whole.
fn whole(number: f64) -> Option<i128> {
    (number.fract() == 0.0 && number.abs() < 2f64.powi(65)).then_some(number as i128)
}
