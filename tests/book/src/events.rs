//! The events of a run, from their enum and the types in it: names and fields as `serde` writes them, and their comments.

use std::{collections::BTreeMap, fs};

use serde_json::Value;
use syn::{Attribute, Fields, GenericArgument, Item, PathArguments, Type, TypePath};

use crate::{
    markdown::{first_sentence, plural, table},
    page::{ReferencePage, root, source},
    rust_source::{doc_comment, serde_arguments, snake_case},
};

/// The folder of the modules.
const FOLDER: &str = "host/core/src";

/// The type that the page is about.
const EVENT: &str = "Event";

/// The type of the first line of the stream.
const FIRST_LINE: &str = "StreamStart";

/// The types whose fields all events have, in the order of a line.
const OF_ALL_EVENTS: [&str; 2] = ["StreamLine", "StreamEvent"];

const INTRODUCTION: &str = "\
`shelly-host run --output events` prints a stream of JSON objects, one a line: a [first line](#the-first-line) with the version \
of the stream, each event of a run in the order in which they happen, and the [result](#the-result) last. Each line has its \
name in `event`. Every field is always there, unless its row says that it can be absent. \
[events.schema.json](events.schema.json) is the JSON Schema of a line.";

const VERSIONS: &str = "\
Within a version there may come new events, new fields and new cases of a value. A reader ignores the events and fields that it \
does not know, and takes a case that it does not know for any other. Everything else raises the version: a field that is \
there stays, with its type and its meaning. A reader refuses a version that it does not know.";

const FIELDS_OF_ALL: &str = "\
Each agent has a run with an id of its own, whether a person has started it, another agent has delegated a task to it or calls \
it as a tool, or it is a member of a team. An interrupted run that is resumed has a new id. So ids are unique in a session, and \
`parent` leads from each run to the one that a person has started.

Each event has the number after that of the event before it. A gap means that the reader has missed events. No line shows a \
credential: a piece of a reply that may be the beginning of one is an empty `model_delta`, and its text comes later, with the \
number of the event that shows that it is none. Two lines can have that number.";

const RESULT: &str = "\
The last line has `result` in `event`, and `true` or `false` in `ok`. With an answer it has the text in `answer`, and in \
`value` the JSON that a [schema](operating.md#input-and-output) has asked for; else it has an `error` with its `kind`, \
`message`, `causes` and `hint`, and the `exit_code`. `spent` is what the run has used with all that worked for it: tokens in \
`usage`, dollars in `usd`. `agents` has the same for each agent. `usd` is `null` where no price of a model is known. A run \
that could not begin has no other line between the first and this one.";

/// A type that is serialized, with its attributes.
enum SerializedType {
    Struct(syn::ItemStruct),
    Enum(syn::ItemEnum),
    Alias(Box<Type>),
}

/// The types that an event can contain, by name.
struct EventTypes(BTreeMap<String, SerializedType>);

/// Returns the page of all events.
pub fn page() -> ReferencePage {
    let types = EventTypes::read(FOLDER);
    let Some(SerializedType::Enum(event)) = types.0.get(EVENT) else { panic!("{FOLDER} has no enum `{EVENT}`") };
    let mut used = Vec::new();
    let (mut rows, mut sections) = (Vec::new(), String::new());
    for variant in &event.variants {
        let name = snake_case(&variant.ident.to_string());
        let about = in_json(&doc_comment(&variant.attrs));
        rows.push(vec![format!("[`{name}`](#{name})"), first_sentence(&about)]);
        sections.push_str(&format!("### `{name}`\n\n{about}\n\n{}\n", types.fields(&variant.fields, &mut used)));
    }
    let mut values = String::new();
    let mut at = 0;
    // A type's own fields may name further ones.
    while at < used.len() {
        let name = used[at].clone();
        values.push_str(&format!("### {name}\n\n{}\n", types.section(&name, &mut used)));
        at += 1;
    }
    let of_first = types.fields_of(&[FIRST_LINE], &mut used);
    let of_all = types.fields_of(&OF_ALL_EVENTS, &mut used);
    let text = format!(
        "# Events\n\n{INTRODUCTION}\n\n{}\n## Versions\n\n{VERSIONS}\n\n## The first line\n\n\
         The name of this line is `stream_started`.\n\n{of_first}\n## Fields of all events\n\n{of_all}\n{FIELDS_OF_ALL}\n\n\
         ## The result\n\n{RESULT}\n\n## Each event\n\n{sections}## Values\n\n{values}",
        table(&["event", "when"], &rows)
    );
    ReferencePage::new("events.md", &sources_of(FOLDER, "event")[0], &text)
}

/// Returns the JSON Schema of a line of the stream, as a file of the book.
pub fn schema_file(schema: &Value) -> ReferencePage {
    ReferencePage { path: "events.schema.json".into(), text: format!("{schema:#}\n") }
}

impl EventTypes {
    /// Reads the types of the module of events and of the module of messages.
    fn read(folder: &str) -> Self {
        let mut types = BTreeMap::new();
        for path in ["event", "chat"].into_iter().flat_map(|module| sources_of(folder, module)) {
            let file = syn::parse_file(&source(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            for item in file.items {
                match item {
                    Item::Struct(item) => types.insert(item.ident.to_string(), SerializedType::Struct(item)),
                    Item::Enum(item) => types.insert(item.ident.to_string(), SerializedType::Enum(item)),
                    Item::Type(item) => types.insert(item.ident.to_string(), SerializedType::Alias(item.ty)),
                    _ => None,
                };
            }
        }
        Self(types)
    }

    /// Returns one table of the fields of these structs.
    fn fields_of(&self, names: &[&str], used: &mut Vec<String>) -> String {
        let rows = names.iter().flat_map(|name| match self.0.get(*name) {
            Some(SerializedType::Struct(item)) => self.rows(&item.fields, used),
            _ => panic!("{FOLDER} has no struct `{name}`"),
        });
        table(&["field", "value", "meaning"], &rows.collect::<Vec<_>>())
    }

    /// Returns the table of the fields of a variant or struct. Types that are found on the way are added to `used`.
    fn fields(&self, fields: &Fields, used: &mut Vec<String>) -> String {
        let rows = self.rows(fields, used);
        match rows.iter().all(|row| row[2].is_empty()) {
            true => table(&["field", "value"], &rows.iter().map(|row| row[..2].to_vec()).collect::<Vec<_>>()),
            false => table(&["field", "value", "meaning"], &rows),
        }
    }

    fn rows(&self, fields: &Fields, used: &mut Vec<String>) -> Vec<Vec<String>> {
        let Fields::Named(fields) = fields else { panic!("an event has fields with names") };
        let rows = fields.named.iter().filter_map(|field| {
            let serde = serde_arguments(&field.attrs);
            let argument = |name: &str| serde.iter().find(|(argument, _)| argument == name);
            if argument("skip").or(argument("flatten")).is_some() {
                return None;
            }
            let own = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            let name = argument("rename").and_then(|(_, name)| name.clone()).unwrap_or(own);
            let can_be_absent = argument("skip_serializing_if").is_some();
            let with = argument("serialize_with").or(argument("with")).and_then(|(_, value)| value.as_deref());
            let mut ty = match with.map(|path| path.rsplit("::").next().unwrap_or(path)) {
                Some("millis") => "milliseconds, with a fraction".to_owned(),
                Some("as_base64") => "string: base64".to_owned(),
                Some("text_of_difference") => "string".to_owned(),
                Some("serialize_time") => "string: RFC 3339, in UTC, with milliseconds".to_owned(),
                Some(other) => panic!("the field `{name}` is serialized with `{other}`, which has no words here"),
                None => self.json_type(&field.ty, can_be_absent, used),
            };
            if can_be_absent {
                ty.push_str(", or absent");
            }
            let about = in_json(&doc_comment(&field.attrs));
            Some(vec![format!("`{name}`"), ty, about])
        });
        rows.collect()
    }

    /// Returns a type of Rust in the words of JSON.
    fn json_type(&self, ty: &Type, can_be_absent: bool, used: &mut Vec<String>) -> String {
        let inner = |path: &TypePath| match &path.path.segments.last().expect("a path has a name").arguments {
            PathArguments::AngleBracketed(arguments) => arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty.clone()),
                _ => None,
            }),
            _ => None,
        };
        match ty {
            Type::Reference(reference) => self.json_type(&reference.elem, can_be_absent, used),
            Type::Slice(slice) => format!("list of {}", plural(&self.json_type(&slice.elem, false, used))),
            Type::Tuple(tuple) => {
                let parts: Vec<_> = tuple.elems.iter().map(|ty| self.json_type(ty, false, used)).collect();
                format!("[{}]", parts.join(", "))
            }
            Type::Path(path) => {
                let name = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
                match (name.as_str(), inner(path)) {
                    ("str" | "String", _) => "string".to_owned(),
                    ("bool", _) => "boolean".to_owned(),
                    ("f64" | "f32", _) => "number".to_owned(),
                    ("u8" | "u16" | "u32" | "u64" | "usize", _) => "whole number".to_owned(),
                    ("Arc" | "Box", Some(ty)) => self.json_type(&ty, can_be_absent, used),
                    ("Option", Some(ty)) if can_be_absent => self.json_type(&ty, false, used),
                    ("Option", Some(ty)) => format!("{}, or null", self.json_type(&ty, false, used)),
                    ("Vec", Some(ty)) => format!("list of {}", plural(&self.json_type(&ty, false, used))),
                    (name, _) => match self.0.get(name) {
                        Some(SerializedType::Alias(ty)) => self.json_type(ty, can_be_absent, used),
                        Some(_) => {
                            if !used.iter().any(|known| known == name) {
                                used.push(name.to_owned());
                            }
                            format!("[{name}](#{})", name.to_lowercase())
                        }
                        None => panic!("an event has the type `{name}`, which has no words here"),
                    },
                }
            }
            _ => panic!("an event has a type that has no words here"),
        }
    }

    /// Returns the text about a type that events contain.
    fn section(&self, name: &str, used: &mut Vec<String>) -> String {
        match &self.0[name] {
            SerializedType::Struct(item) => {
                let about = in_json(&doc_comment(&item.attrs));
                format!("{about}\n\n{}", self.fields(&item.fields, used))
            }
            SerializedType::Enum(item) => self.cases(item, used),
            SerializedType::Alias(_) => unreachable!("an alias is replaced by its type"),
        }
    }

    /// Returns the text about an enum: its form in JSON, and a table of its cases.
    fn cases(&self, item: &syn::ItemEnum, used: &mut Vec<String>) -> String {
        let serde = serde_arguments(&item.attrs);
        let argument =
            |name: &str| serde.iter().find(|(argument, _)| argument == name).and_then(|(_, value)| value.clone());
        assert_eq!(argument("rename_all").as_deref(), Some("snake_case"), "`{}`", item.ident);
        let (tag, content) = (argument("tag"), argument("content"));
        let mut has_values = false;
        let mut rows = Vec::new();
        for variant in &item.variants {
            let value = match &variant.fields {
                Fields::Unit => String::new(),
                Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                    has_values = true;
                    match is_base64(&variant.attrs) {
                        true => "string: base64".to_owned(),
                        false => self.json_type(&fields.unnamed[0].ty, false, used),
                    }
                }
                _ => panic!("`{}::{}` has another form", item.ident, variant.ident),
            };
            let renamed = serde_arguments(&variant.attrs).into_iter().find(|(argument, _)| argument == "rename");
            let name = renamed.and_then(|(_, name)| name).unwrap_or_else(|| snake_case(&variant.ident.to_string()));
            rows.push(vec![format!("`{name}`"), value, in_json(&doc_comment(&variant.attrs))]);
        }
        let form = match (&tag, &content, has_values) {
            (Some(tag), Some(content), _) => {
                format!("An object with the name of the case in `{tag}` and its value in `{content}`.")
            }
            (None, None, false) => "A string: one of these.".to_owned(),
            (None, None, true) if item.variants.iter().all(|variant| !matches!(variant.fields, Fields::Unit)) => {
                "An object with one key: the name of the case, with its value.".to_owned()
            }
            (None, None, true) => {
                "A string: one of these. A case with a value is an object with one key: its name, with the value."
                    .to_owned()
            }
            _ => panic!("`{}` is serialized in another form", item.ident),
        };
        let about = in_json(&doc_comment(&item.attrs));
        let table = match has_values {
            true => table(&["case", "value", "meaning"], &rows),
            false => table(
                &["case", "meaning"],
                &rows.into_iter().map(|row| vec![row[0].clone(), row[2].clone()]).collect::<Vec<_>>(),
            ),
        };
        format!("{about} {form}\n\n{table}")
    }
}

/// Returns the source files of a module: its own file, and those in its folder.
fn sources_of(folder: &str, module: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder).join(module)).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let sources = names.filter(|name| name.ends_with(".rs") && !name.ends_with("tests.rs"));
    let mut files: Vec<_> = sources.map(|name| format!("{folder}/{module}/{name}")).collect();
    files.sort();
    let own = format!("{folder}/{module}.rs");
    if root().join(&own).is_file() {
        files.insert(0, own);
    }
    files
}

fn is_base64(attributes: &[Attribute]) -> bool {
    serde_arguments(attributes)
        .iter()
        .any(|(name, value)| name == "with" && value.as_deref().is_some_and(|path| path.ends_with("as_base64")))
}

/// Returns a comment in the words of JSON.
fn in_json(text: &str) -> String {
    text.replace("`None`", "`null`")
}
