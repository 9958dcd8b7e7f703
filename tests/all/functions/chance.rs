//! Functions of random types, in real components that return their argument: the JSON that a model writes is the JSON that
//! it reads back.

use proptest::{collection::vec, prelude::*};

use super::*;

/// A type of WIT.
#[derive(Debug, Clone)]
enum Type {
    /// One that has a name of its own: `bool`, `string`, ….
    Plain(&'static str),
    List(Box<Type>),
    /// A map with keys of a type that has a name of its own.
    Map(&'static str, Box<Type>),
    Tuple(Vec<Type>),
    Record(Vec<Type>),
    Variant(Vec<Option<Type>>),
    Enum(usize),
    Flags(usize),
    Option(Box<Type>),
    Result(Option<Box<Type>>, Option<Box<Type>>),
}

const PLAIN: [&str; 13] =
    ["bool", "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "char", "string"];

/// The types of keys.
const KEYS: [&str; 5] = ["string", "char", "bool", "s8", "u64"];

/// Names of fields, cases and flags.
const NAMES: [&str; 4] = ["a", "is-open", "c3", "the-last-one"];

fn types() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        5 => prop::sample::select(&PLAIN[..]).prop_map(Type::Plain),
        1 => (1..=NAMES.len()).prop_map(Type::Enum),
        1 => (1..=NAMES.len()).prop_map(Type::Flags),
        1 => Just(Type::List(Box::new(Type::Plain("u8")))),
    ];
    leaf.prop_recursive(5, 24, 4, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed().prop_map(Type::List),
            (prop::sample::select(&KEYS[..]), boxed()).prop_map(|(key, value)| Type::Map(key, value)),
            boxed().prop_map(Type::Option),
            boxed().prop_map(|inner| Type::Option(Box::new(Type::Option(inner)))),
            vec(inner.clone(), 1..4).prop_map(Type::Tuple),
            vec(inner.clone(), 1..=NAMES.len()).prop_map(Type::Record),
            vec(prop::option::of(inner.clone()), 1..=NAMES.len()).prop_map(Type::Variant),
            (prop::option::of(boxed()), prop::option::of(boxed())).prop_map(|(ok, error)| Type::Result(ok, error)),
        ]
    })
}

impl Type {
    /// Returns the type as a component's text. Types that must have a name are exported before, in `defined`.
    fn text(&self, defined: &mut Vec<String>) -> String {
        let form = match self {
            Self::Plain(name) => return (*name).to_owned(),
            Self::List(inner) => return format!("(list {})", inner.text(defined)),
            Self::Map(key, value) => return format!("(map {key} {})", value.text(defined)),
            Self::Option(inner) => return format!("(option {})", inner.text(defined)),
            Self::Tuple(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.text(defined)).collect();
                return format!("(tuple {})", parts.join(" "));
            }
            Self::Result(ok, error) => {
                let ok = ok.as_ref().map_or(String::new(), |ok| ok.text(defined));
                let error = error.as_ref().map_or(String::new(), |it| format!("(error {})", it.text(defined)));
                return format!("(result {ok} {error})");
            }
            Self::Record(fields) => {
                let field = |(name, of): (&&str, &Type)| format!("(field \"{name}\" {})", of.text(defined));
                format!("(record {})", NAMES.iter().zip(fields).map(field).collect::<String>())
            }
            Self::Variant(cases) => {
                let case = |(name, of): (&&str, &Option<Type>)| {
                    format!("(case \"{name}\" {})", of.as_ref().map_or(String::new(), |of| of.text(defined)))
                };
                format!("(variant {})", NAMES.iter().zip(cases).map(case).collect::<String>())
            }
            Self::Enum(count) => format!("(enum {})", quoted(*count)),
            Self::Flags(count) => format!("(flags {})", quoted(*count)),
        };
        let at = defined.len();
        defined.push(format!("(type $made{at} {form}) (export $type{at} \"type{at}\" (type $made{at}))\n"));
        format!("$type{at}")
    }

    /// A value of it, as a model reads it.
    fn value(&self) -> BoxedStrategy<Value> {
        const EXACT: i128 = 1 << 53;
        let payload = |of: &Option<Box<Type>>| of.as_ref().map_or(Just(Value::Null).boxed(), |of| of.value());
        match self {
            Self::Plain("bool") => any::<bool>().prop_map(Value::from).boxed(),
            Self::Plain("char") => any::<char>().prop_map(|it| it.to_string().into()).boxed(),
            Self::Plain("string") => any::<String>().prop_map(Value::from).boxed(),
            Self::Plain("f32") => {
                let numbers = prop::num::f32::ANY.prop_map(|it| number(it.into(), &format!("{it:?}")));
                numbers.prop_filter(READ_EXACTLY, is_read_exactly).boxed()
            }
            Self::Plain("f64") => {
                let numbers = prop::num::f64::ANY.prop_map(|it| number(it, &format!("{it:?}")));
                numbers.prop_filter(READ_EXACTLY, is_read_exactly).boxed()
            }
            Self::Plain(integer) => {
                let bits: u32 = integer[1..].parse().unwrap();
                let (least, most) = match integer.starts_with('u') {
                    true => (0, (1_i128 << bits) - 1),
                    false => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
                };
                let edges = [least, most, 0, EXACT - 1, EXACT, EXACT + 1, 1 - EXACT, -EXACT];
                let edges: Vec<_> = edges.into_iter().filter(|it| (least..=most).contains(it)).collect();
                let whole = prop_oneof![least..=most, prop::sample::select(edges)];
                whole
                    .prop_map(|it| match it.abs() <= EXACT {
                        true => Value::from(i64::try_from(it).unwrap()),
                        false => it.to_string().into(),
                    })
                    .boxed()
            }
            Self::List(inner) if matches!(**inner, Type::Plain("u8")) => {
                use base64::{Engine as _, engine::general_purpose::STANDARD};
                vec(any::<u8>(), 0..20).prop_map(|bytes| STANDARD.encode(bytes).into()).boxed()
            }
            Self::List(inner) => vec(inner.value(), 0..4).prop_map(Value::from).boxed(),
            Self::Map(key, value) => {
                let entries = vec((Self::Plain(key).value(), value.value()), 0..4);
                let is_object = *key == "string";
                entries.prop_map(move |entries| if is_object { object(entries) } else { pairs(entries) }).boxed()
            }
            Self::Tuple(parts) => parts.iter().map(Type::value).collect::<Vec<_>>().prop_map(Value::from).boxed(),
            Self::Record(fields) => {
                let values: Vec<_> = fields.iter().map(Type::value).collect();
                values.prop_map(|values| NAMES.iter().map(|name| (*name).to_owned()).zip(values).collect()).boxed()
            }
            Self::Variant(cases) => {
                let case = |(name, of): (&&'static str, &Option<Type>)| {
                    let name = *name;
                    match of {
                        Some(of) => of.value().prop_map(move |value| json!({ name: value })).boxed(),
                        None => Just(json!(name)).boxed(),
                    }
                };
                proptest::strategy::Union::new(NAMES.iter().zip(cases).map(case)).boxed()
            }
            Self::Enum(count) => prop::sample::select(&NAMES[..*count]).prop_map(Value::from).boxed(),
            Self::Flags(count) => {
                prop::sample::subsequence(NAMES[..*count].to_vec(), 0..=*count).prop_map(Value::from).boxed()
            }
            Self::Option(inner) => {
                let some = match **inner {
                    Self::Option(_) => inner.value().prop_map(|it| json!({ "some": it })).boxed(),
                    _ => inner.value(),
                };
                prop_oneof![Just(Value::Null), some].boxed()
            }
            Self::Result(ok, error) => prop_oneof![
                payload(ok).prop_map(|it| json!({ "ok": it })),
                payload(error).prop_map(|it| json!({ "error": it })),
            ]
            .boxed(),
        }
    }
}

fn object(entries: Vec<(Value, Value)>) -> Value {
    entries.into_iter().map(|(key, value)| (key.as_str().unwrap().to_owned(), value)).collect()
}

fn pairs(mut entries: Vec<(Value, Value)>) -> Value {
    let mut seen = Vec::new();
    entries.retain(|(key, _)| {
        let is_new = !seen.contains(key);
        seen.push(key.clone());
        is_new
    });
    entries.into_iter().map(|(key, value)| json!([key, value])).collect()
}

fn quoted(count: usize) -> String {
    NAMES[..count].iter().map(|name| format!("\"{name}\" ")).collect()
}

/// Of some numbers with 17 digits the reader of JSON takes a neighbour.
const READ_EXACTLY: &str = "it is read as it is written";

fn is_read_exactly(number: &Value) -> bool {
    number.to_string().parse::<Value>().is_ok_and(|read| read == *number)
}

/// The shortest digits that are this number among its own kind, or its name.
fn number(wide: f64, digits: &str) -> Value {
    match wide {
        _ if wide.is_finite() => digits.parse().unwrap(),
        _ if wide.is_nan() => "NaN".into(),
        _ if wide > 0.0 => "Infinity".into(),
        _ => "-Infinity".into(),
    }
}

/// The number of parameters beside the one that is tested: more than are passed one by one, so that they are in memory as a
/// tuple that begins with that one. The results are in memory in the same way.
const BESIDE: usize = 16;

/// A component with a function of this type that gives back what it is handed.
fn same(of: &Type) -> Vec<u8> {
    let mut defined = Vec::new();
    let of = of.text(&mut defined);
    same_as(&defined.concat(), &of)
}

/// A component with a function `same` of this type, in text, that gives back what it is handed.
pub fn same_as(defined: &str, of: &str) -> Vec<u8> {
    let beside: String = (0..BESIDE).map(|at| format!("(param \"p{at}\" u8) ")).collect();
    let text = format!(
        r#"(component
            (core module $m
                (memory (export "memory") 16)
                (global $next (mut i32) (i32.const 1024))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                    (local.set $at (i32.and
                        (i32.add (global.get $next) (i32.sub (local.get 2) (i32.const 1)))
                        (i32.sub (i32.const 0) (local.get 2))))
                    (global.set $next (i32.add (local.get $at) (local.get 3)))
                    (local.get $at))
                (func (export "same") (param i32) (result i32) (local.get 0))
            )
            (core instance $i (instantiate $m))
            {defined}
            (func (export "same") (param "it" {of}) {beside} (result (tuple {of} u8))
                (canon lift (core func $i "same") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
        )"#
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The arguments of such a function, of which the first is tested.
pub fn arguments(given: &Value) -> Value {
    let beside = (0..BESIDE).map(|at| (format!("p{at}"), json!(at)));
    [("it".to_owned(), given.clone())].into_iter().chain(beside).collect()
}

/// Returns the result of such a function for this argument.
async fn said(engine: &Arc<PluginEngine>, component: &[u8], given: &Value) -> ToolResult {
    let (_place, package) = packed("", component);
    let package = package.unwrap_or_else(|error| panic!("{}", told(&error)));
    let tools = tools_on(engine, package, Limits::default()).await;
    dispatched(&tools, &RunCx::new("helper"), "same", &arguments(given)).await
}

fn types_and_values() -> impl Strategy<Value = (Type, Value)> {
    types().prop_flat_map(|of| of.value().prop_map(move |value| (of.clone(), value)))
}

/// So many components are compiled: not kept on the disk.
fn with_engine<T>(work: impl AsyncFnOnce(&Arc<PluginEngine>) -> T) -> T {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Arc::new(PluginEngine::new(None).unwrap()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(engine))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_values_of_random_types_round_trip((of, value) in types_and_values()) {
        let result = with_engine(async |engine| said(engine, &same(&of), &value).await);
        let text = result.text();
        prop_assert!(!result.is_error, "{value} of {of:?}: {text}");
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!([value, 0]), "{:?}", of);
    }

    /// A value of another type is refused before the component is called, or is a value of this one too.
    #[test]
    fn random_value_of_another_type_is_refused_with_its_path(of in types(), (_, other) in types_and_values()) {
        let result = with_engine(async |engine| said(engine, &same(&of), &other).await);
        let text = result.text();
        match result.is_error {
            true => prop_assert!(text.starts_with("it") && text.contains(": "), "{other} of {of:?}: {text}"),
            false => prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{other} of {of:?}: {text}"),
        }
    }
}
