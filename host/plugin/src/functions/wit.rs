//! The WIT signature of a function. It is always shown to a model, since it also describes the result.

use std::{collections::HashSet, fmt::Write as _};

use super::{
    docs::TypeDocs,
    exported_functions::{ExportedFunction, FunctionAction},
    wit_types::{WitCase, WitField, WitType, WitTypeKind},
};
use crate::convert;
use shelly_core::limits;

/// Returns the signature of a function, followed by the types that it names with their doc comments, cut at
/// [`limits::SIGNATURE_BYTES`]. The comments are left out if types would be cut because of them.
pub fn signature(function: &ExportedFunction) -> String {
    let FunctionAction::Call = function.act else { return String::new() };
    let params: Vec<_> = function.params.iter().map(|it| format!("{}: {}", it.name, called(&it.shape))).collect();
    let own = function.path.function.split(['.', ']']).next_back().unwrap_or_default();
    let mut text = format!("{own}: func({})", params.join(", "));
    if let Some(result) = &function.result {
        let _ = write!(text, " -> {}", called(result));
    }
    let documented = with_types(text.clone(), function, true);
    let all = if documented.len() > limits::SIGNATURE_BYTES { with_types(text, function, false) } else { documented };
    convert::bounded(all, limits::SIGNATURE_BYTES)
}

/// Appends the types that a signature names, up to the first that ends beyond the bound.
fn with_types(mut text: String, function: &ExportedFunction, is_documented: bool) -> String {
    let mut seen = HashSet::new();
    for shape in function.params.iter().map(|param| &param.shape).chain(&function.result) {
        shape.each(&mut |shape| {
            let Some(name) = shape.name.as_ref().filter(|_| text.len() <= limits::SIGNATURE_BYTES) else { return };
            let docs = shape.docs.as_deref().filter(|_| is_documented);
            let definition = defined(name, &shape.form, docs);
            if seen.insert(definition.clone()) {
                let _ = write!(text, "\n{definition}");
            }
        });
    }
    text
}

/// Returns the name of a type, or its structure if it has no name.
pub fn called(shape: &WitType) -> String {
    shape.name.as_ref().map_or_else(|| form(&shape.form), ToString::to_string)
}

fn optional(payload: &Option<Box<WitType>>) -> String {
    payload.as_ref().map_or_else(|| "_".to_owned(), |payload| called(payload))
}

fn form(form: &WitTypeKind) -> String {
    match form {
        WitTypeKind::Bool => "bool".into(),
        WitTypeKind::Int(int) => int.facts().0.into(),
        WitTypeKind::F32 => "f32".into(),
        WitTypeKind::F64 => "f64".into(),
        WitTypeKind::Char => "char".into(),
        WitTypeKind::String => "string".into(),
        WitTypeKind::List(element) => format!("list<{}>", called(element)),
        WitTypeKind::Stream(element) => format!("stream<{}>", called(element)),
        WitTypeKind::Future(value) => format!("future<{}>", called(value)),
        WitTypeKind::Map { key, value } => format!("map<{}, {}>", called(key), called(value)),
        WitTypeKind::Tuple(parts) => format!("tuple<{}>", parts.iter().map(called).collect::<Vec<_>>().join(", ")),
        WitTypeKind::Option(inner) => format!("option<{}>", called(inner)),
        WitTypeKind::Result { ok: None, error: None } => "result".into(),
        WitTypeKind::Result { ok: Some(ok), error: None } => format!("result<{}>", called(ok)),
        WitTypeKind::Result { ok, error } => format!("result<{}, {}>", optional(ok), optional(error)),
        WitTypeKind::Own(resource) => resource.to_string(),
        WitTypeKind::Borrow(resource) => format!("borrow<{resource}>"),
        // Valid components name these types.
        WitTypeKind::Record(_) => "record".into(),
        WitTypeKind::Variant(_) => "variant".into(),
        WitTypeKind::Enum(_) => "enum".into(),
        WitTypeKind::Flags(_) => "flags".into(),
    }
}

/// Returns the definition of a type: on one line, or with a line per part if parts have comments.
fn defined(name: &str, of: &WitTypeKind, docs: Option<&TypeDocs>) -> String {
    let (keyword, parts): (_, Vec<(&str, String)>) = match of {
        WitTypeKind::Record(fields) => {
            let field = |it: &WitField| format!("{}: {}", it.name, called(&it.shape));
            ("record", fields.iter().map(|it| (it.name.as_str(), field(it))).collect())
        }
        WitTypeKind::Variant(cases) => {
            let payload = |it: &WitCase| it.payload.as_ref().map_or(String::new(), |of| format!("({})", called(of)));
            let case = |it: &WitCase| format!("{}{}", it.name, payload(it));
            ("variant", cases.iter().map(|it| (it.name.as_str(), case(it))).collect())
        }
        WitTypeKind::Enum(cases) => ("enum", cases.iter().map(|it| (it.as_str(), it.clone())).collect()),
        WitTypeKind::Flags(flags) => ("flags", flags.iter().map(|it| (it.as_str(), it.clone())).collect()),
        other => return format!("{}type {name} = {}", comment(docs.map(|docs| &docs.about), ""), form(other)),
    };
    let about = comment(docs.map(|docs| &docs.about), "");
    let docs_of = |part: &str| docs.and_then(|docs| docs.items.get(part));
    if parts.iter().all(|(part, _)| docs_of(part).is_none()) {
        let parts: Vec<_> = parts.into_iter().map(|(_, text)| text).collect();
        return format!("{about}{keyword} {name} {{ {} }}", parts.join(", "));
    }
    let part = |(part, text): &(&str, String)| format!("{}  {text},\n", comment(docs_of(part), "  "));
    format!("{about}{keyword} {name} {{\n{}}}", parts.iter().map(part).collect::<String>())
}

/// Returns the lines of a doc comment, each with a line end.
fn comment(text: Option<&String>, indent: &str) -> String {
    let lines = text.into_iter().flat_map(|text| text.lines());
    lines.map(|line| format!("{indent}/// {line}").trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::FunctionPath;

    fn function(cases: usize) -> ExportedFunction {
        let payload = Some(WitType::of(WitTypeKind::List(Box::new(WitType::of(WitTypeKind::Bool)))));
        let case = |at: usize| WitCase { name: format!("case-{at}"), payload: payload.clone().filter(|_| at > 0) };
        let form = WitTypeKind::Variant((0..cases).map(case).collect());
        let shape = WitType { name: Some("choice".into()), ..WitType::of(form) };
        ExportedFunction {
            tool: "box_choose".into(),
            path: FunctionPath { interface: None, function: "[method]box.choose".into() },
            params: vec![
                WitField { name: "self".into(), shape: WitType::of(WitTypeKind::Borrow("box".into())) },
                WitField { name: "one".into(), shape: shape.clone() },
            ],
            result: Some(WitType::of(WitTypeKind::Result { ok: None, error: Some(Box::new(shape)) })),
            docs: None,
            act: FunctionAction::Call,
        }
    }

    #[test]
    fn wit_signature_lists_each_named_type_once() {
        let expected = "choose: func(self: borrow<box>, one: choice) -> result<_, choice>\n\
                        variant choice { case-0, case-1(list<bool>) }";
        assert_eq!(signature(&function(2)), expected);
    }

    #[test]
    fn wit_signature_is_cut_at_its_limit() {
        let text = signature(&function(1_000));
        assert!(text.len() <= limits::SIGNATURE_BYTES && text.ends_with('…'), "{}", text.len());
    }

    fn documented(cases: usize, about: &str, items: &[(&str, &str)]) -> ExportedFunction {
        let items = items.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let mut function = function(cases);
        function.params[1].shape.docs = Some(TypeDocs { about: about.into(), items }.into());
        function.result = None;
        function
    }

    #[test]
    fn wit_signature_includes_doc_comments_of_types() {
        let expected = "choose: func(self: borrow<box>, one: choice)\n\
                        /// What to take.\n\
                        ///\n\
                        /// One of them.\n\
                        variant choice { case-0, case-1(list<bool>) }";
        assert_eq!(signature(&documented(2, "What to take.\n\nOne of them.", &[])), expected);
        let expected = "choose: func(self: borrow<box>, one: choice)\n\
                        variant choice {\n  case-0,\n  /// The second.\n  case-1(list<bool>),\n}";
        assert_eq!(signature(&documented(2, "", &[("case-1", "The second."), ("other", "Nothing.")])), expected);
    }

    #[test]
    fn wit_signature_drops_comments_before_types() {
        let text = signature(&documented(2, &"x".repeat(limits::SIGNATURE_BYTES), &[]));
        assert!(text.ends_with("\nvariant choice { case-0, case-1(list<bool>) }") && !text.contains("///"), "{text}");
    }
}
