//! The bounds of the host, from the constants of its module `limits` and their comments.

use std::{collections::BTreeMap, path::Path};

use syn::{BinOp, Expr, Item, ItemConst, Lit, Type};

use crate::{
    markdown::{first_sentence, table},
    page::{ReferencePage, source},
    rust_source::doc_comment,
};

/// The file of the module.
const SOURCE: &str = "host/core/src/limits/mod.rs";

/// The line that begins a section of the module.
const SECTION: &str = "// ---- ";

const INTRODUCTION: &str = "\
Every loop, queue, buffer and call of the host has a bound. This page lists all of them, with the reason for each. \
[Limits](limits.md) says which of them a config can change, and what happens at one: a constant `…_CEILING` or `…_LEAST` is the \
highest or lowest value that a config can set for the bound beside it.";

/// The value of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundValue {
    Number(i128),
    /// In nanoseconds.
    Time(i128),
}

/// A constant of the module.
struct Bound {
    name: String,
    about: String,
    ty: String,
    expression: Expr,
}

/// Returns the page of all bounds.
pub fn page() -> ReferencePage {
    let sections = sections(SOURCE);
    let known: BTreeMap<_, _> =
        sections.iter().flat_map(|(_, bounds)| bounds).map(|bound| (bound.name.as_str(), &bound.expression)).collect();
    let mut text = format!("# All limits\n\n{INTRODUCTION}\n");
    for (title, bounds) in &sections {
        let rows = bounds.iter().map(|bound| {
            assert!(!bound.about.is_empty(), "{SOURCE}: `{}` has no comment", bound.name);
            let value = shown(bound, value(&bound.expression, &known));
            vec![format!("`{}`", bound.name), value, bound.about.clone()]
        });
        text.push_str(&format!("\n## {title}\n\n{}", table(&["bound", "value", "meaning"], &rows.collect::<Vec<_>>())));
    }
    ReferencePage::new("all-limits.md", SOURCE.trim_end_matches("/mod.rs"), &text)
}

/// Returns the sections of the module in order, those in files of their own too, each with its bounds.
fn sections(path: &str) -> Vec<(String, Vec<Bound>)> {
    let text = source(path);
    let mut sections = Vec::new();
    for (at, part) in text.split(SECTION).enumerate() {
        // Before the first section there is the comment of the module.
        let (title, code) = if at == 0 { ("", part) } else { part.split_once('\n').unwrap_or((part, "")) };
        let file = syn::parse_file(code).unwrap_or_else(|error| panic!("{path}: {title}: {error}"));
        let title = match title.trim() {
            // A file of its own says in its first sentence what it has the limits of.
            "" => {
                let about = first_sentence(&doc_comment(&file.attrs));
                capitalised(&about.trim_start_matches("Limits of ").trim_end_matches('.').replace(" and of ", " and "))
            }
            title => capitalised(title),
        };
        let mut bounds = Vec::new();
        for item in file.items {
            match item {
                Item::Const(item) => bounds.push(bound(item)),
                Item::Mod(module) if module.content.is_none() => {
                    let file = Path::new(path);
                    let folder =
                        if path.ends_with("/mod.rs") { file.with_file_name("") } else { file.with_extension("") };
                    let below = folder.join(format!("{}.rs", module.ident)).display().to_string();
                    if !below.ends_with("tests.rs") {
                        sections.extend(self::sections(&below));
                    }
                }
                _ => {}
            }
        }
        if !bounds.is_empty() {
            sections.push((title, bounds));
        }
    }
    sections
}

fn bound(item: ItemConst) -> Bound {
    let ty = match *item.ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default(),
        _ => panic!("`{}` is neither a number nor a time", item.ident),
    };
    Bound { name: item.ident.to_string(), about: doc_comment(&item.attrs), ty, expression: *item.expr }
}

fn capitalised(title: &str) -> String {
    let mut chars = title.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Computes the value of a bound.
fn value(expression: &Expr, known: &BTreeMap<&str, &Expr>) -> BoundValue {
    use BoundValue::{Number, Time};
    let of = |expression: &Expr| value(expression, known);
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => Number(number.base10_parse().expect("a number of Rust is a number")),
            _ => panic!("a bound is a whole number or a time"),
        },
        Expr::Paren(inner) => of(&inner.expr),
        Expr::Group(inner) => of(&inner.expr),
        Expr::Cast(cast) => of(&cast.expr),
        Expr::Path(path) => {
            let name = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            of(known.get(name.as_str()).unwrap_or_else(|| panic!("there is no bound `{name}`")))
        }
        Expr::Binary(binary) => match (of(&binary.left), &binary.op, of(&binary.right)) {
            (Number(left), BinOp::Add(_), Number(right)) => Number(left + right),
            (Number(left), BinOp::Sub(_), Number(right)) => Number(left - right),
            (Number(left), BinOp::Mul(_), Number(right)) => Number(left * right),
            (Number(left), BinOp::Div(_), Number(right)) => Number(left / right),
            (Number(left), BinOp::Shl(_), Number(right)) => Number(left << right),
            (left, _, right) => panic!("{left:?} and {right:?} are combined in another way"),
        },
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { panic!("a bound calls no closure") };
            let name = function.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            if name == "size_of" {
                return Number(8);
            }
            let [argument] = call.args.iter().collect::<Vec<_>>()[..] else { panic!("`{name}` takes one number") };
            let Number(count) = of(argument) else { panic!("`{name}` takes one number") };
            Time(count * nanoseconds(&name))
        }
        _ => panic!("a bound is computed in another way"),
    }
}

/// Returns the nanoseconds of the unit of a constructor of `Duration`.
fn nanoseconds(constructor: &str) -> i128 {
    match constructor {
        "from_nanos" => 1,
        "from_micros" => 1_000,
        "from_millis" => 1_000_000,
        "from_secs" => 1_000_000_000,
        "from_mins" => 60 * 1_000_000_000,
        "from_hours" => 3_600 * 1_000_000_000,
        _ => panic!("`{constructor}` makes no time"),
    }
}

/// Returns the value with the largest unit that leaves no fraction. Bytes and characters are told from the name or the comment.
fn shown(bound: &Bound, value: BoundValue) -> String {
    let Bound { name, about, ty, .. } = bound;
    let is_bytes = name.ends_with("BYTES")
        || name.contains("_BYTES_")
        || ["in bytes", "number of bytes"].iter().any(|words| first_sentence(about).contains(words));
    match value {
        BoundValue::Time(nanoseconds) => {
            assert_eq!(ty, "Duration", "`{name}`");
            let units = [
                ("days", 86_400_000_000_000),
                ("h", 3_600_000_000_000),
                ("min", 60_000_000_000),
                ("s", 1_000_000_000),
                ("ms", 1_000_000),
                ("µs", 1_000),
                ("ns", 1),
            ];
            let is_even = |size: i128| nanoseconds >= size && nanoseconds % size == 0;
            // One day is 24 hours: the unit of a single one is the one below.
            let fits = |(unit, size): &(&str, i128)| is_even(*size) && (*unit != "days" || nanoseconds > *size);
            let (unit, size) = units.into_iter().find(fits).unwrap_or(("ns", 1));
            format!("{} {unit}", grouped(nanoseconds / size))
        }
        BoundValue::Number(number) if is_bytes => {
            let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
            let fits = |(_, bits): &(&str, i32)| number >= 1 << bits && number % (1 << bits) == 0;
            match units.into_iter().find(fits) {
                Some((unit, bits)) => format!("{} {unit}", grouped(number >> bits)),
                None => format!("{} bytes", grouped(number)),
            }
        }
        BoundValue::Number(number) if name.ends_with("CHARS") => format!("{} characters", grouped(number)),
        BoundValue::Number(number) => grouped(number),
    }
}

/// Returns the number with a comma after each group of three digits.
fn grouped(number: i128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
