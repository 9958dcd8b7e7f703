//! A function as WIT writes it: what a model is always shown, so that it also knows what comes back.

use std::{collections::HashSet, fmt::Write as _};

use super::{
    exported::{Act, Function},
    shape::{Form, Shape},
};
use crate::{limits, plugin::convert};

/// The signature of a function, and below it the types that it names, cut at [`limits::SIGNATURE_BYTES`].
pub fn signature(function: &Function) -> String {
    let mut text = String::new();
    if let Act::Call = function.act {
        let params: Vec<_> = function.params.iter().map(|it| format!("{}: {}", it.name, called(&it.shape))).collect();
        let own = function.path.function.split(['.', ']']).next_back().unwrap_or_default();
        let _ = write!(text, "{own}: func({})", params.join(", "));
        if let Some(result) = &function.result {
            let _ = write!(text, " -> {}", called(result));
        }
        let mut seen = HashSet::new();
        for shape in function.params.iter().map(|param| &param.shape).chain(&function.result) {
            shape.each(&mut |shape| {
                let Some(name) = shape.name.as_ref().filter(|_| text.len() < limits::SIGNATURE_BYTES) else { return };
                let definition = defined(name, &shape.form);
                if seen.insert(definition.clone()) {
                    let _ = write!(text, "\n{definition}");
                }
            });
        }
    }
    convert::bounded(text, limits::SIGNATURE_BYTES)
}

/// What a type is called: its name, or what it is made of.
pub fn called(shape: &Shape) -> String {
    shape.name.as_ref().map_or_else(|| form(&shape.form), ToString::to_string)
}

fn optional(payload: &Option<Box<Shape>>) -> String {
    payload.as_ref().map_or_else(|| "_".to_owned(), |payload| called(payload))
}

fn form(form: &Form) -> String {
    match form {
        Form::Bool => "bool".into(),
        Form::Int(int) => int.facts().0.into(),
        Form::F32 => "f32".into(),
        Form::F64 => "f64".into(),
        Form::Char => "char".into(),
        Form::String => "string".into(),
        Form::List(element) => format!("list<{}>", called(element)),
        Form::Tuple(parts) => format!("tuple<{}>", parts.iter().map(called).collect::<Vec<_>>().join(", ")),
        Form::Option(inner) => format!("option<{}>", called(inner)),
        Form::Result { ok: None, error: None } => "result".into(),
        Form::Result { ok: Some(ok), error: None } => format!("result<{}>", called(ok)),
        Form::Result { ok, error } => format!("result<{}, {}>", optional(ok), optional(error)),
        Form::Own(resource) => resource.to_string(),
        Form::Borrow(resource) => format!("borrow<{resource}>"),
        // These always have a name.
        Form::Record(_) => "record".into(),
        Form::Variant(_) => "variant".into(),
        Form::Enum(_) => "enum".into(),
        Form::Flags(_) => "flags".into(),
    }
}

fn defined(name: &str, of: &Form) -> String {
    match of {
        Form::Record(fields) => {
            let fields: Vec<_> = fields.iter().map(|it| format!("{}: {}", it.name, called(&it.shape))).collect();
            format!("record {name} {{ {} }}", fields.join(", "))
        }
        Form::Variant(cases) => {
            let case =
                |payload: &Option<Shape>| payload.as_ref().map_or(String::new(), |it| format!("({})", called(it)));
            let cases: Vec<_> = cases.iter().map(|it| format!("{}{}", it.name, case(&it.payload))).collect();
            format!("variant {name} {{ {} }}", cases.join(", "))
        }
        Form::Enum(cases) => format!("enum {name} {{ {} }}", cases.join(", ")),
        Form::Flags(flags) => format!("flags {name} {{ {} }}", flags.join(", ")),
        other => format!("type {name} = {}", form(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::functions::{
        Path,
        shape::{Case, Field},
    };

    fn function(cases: usize) -> Function {
        let payload = Some(Shape::of(Form::List(Box::new(Shape::of(Form::Bool)))));
        let case = |at: usize| Case { name: format!("case-{at}"), payload: payload.clone().filter(|_| at > 0) };
        let form = Form::Variant((0..cases).map(case).collect());
        let shape = Shape { name: Some("choice".into()), form };
        Function {
            tool: "box_choose".into(),
            path: Path { interface: None, function: "[method]box.choose".into() },
            params: vec![
                Field { name: "self".into(), shape: Shape::of(Form::Borrow("box".into())) },
                Field { name: "one".into(), shape: shape.clone() },
            ],
            result: Some(Shape::of(Form::Result { ok: None, error: Some(Box::new(shape)) })),
            docs: None,
            act: Act::Call,
        }
    }

    #[test]
    fn a_function_is_shown_with_the_types_that_it_names_each_once() {
        let expected = "choose: func(self: borrow<box>, one: choice) -> result<_, choice>\n\
                        variant choice { case-0, case-1(list<bool>) }";
        assert_eq!(signature(&function(2)), expected);
    }

    #[test]
    fn what_is_shown_of_a_function_is_bounded() {
        let text = signature(&function(1_000));
        assert!(text.len() <= limits::SIGNATURE_BYTES && text.ends_with('…'), "{}", text.len());
    }
}
