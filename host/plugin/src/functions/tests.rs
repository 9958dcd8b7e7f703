//! Round trips of random values of random types, and JSON that a type's schema accepts or refuses.

use std::collections::HashSet;

use proptest::{collection::vec, prelude::*, strategy::Union};
use serde_json::{Map, Value, json};
use wasmtime::component::Val;

use super::{
    arguments,
    map_keys::key_text,
    schema,
    to_json::{FunctionOutput, written},
    wit_types::{WitCase, WitField, WitInt, WitType, WitTypeKind},
};
use shelly_core::{error::Fault, limits};

const INTS: [WitInt; 8] =
    [WitInt::U8, WitInt::S8, WitInt::U16, WitInt::S16, WitInt::U32, WitInt::S32, WitInt::U64, WitInt::S64];

fn shape() -> impl Strategy<Value = WitType> {
    let leaf = prop_oneof![
        Just(WitTypeKind::Bool),
        prop::sample::select(&INTS[..]).prop_map(WitTypeKind::Int),
        Just(WitTypeKind::F32),
        Just(WitTypeKind::F64),
        Just(WitTypeKind::Char),
        Just(WitTypeKind::String),
        (1..4_usize).prop_map(|count| WitTypeKind::Enum(names(count))),
        (1..4_usize).prop_map(|count| WitTypeKind::Flags(names(count))),
    ]
    .prop_map(WitType::of);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let payload = prop::option::of(boxed.clone());
        prop_oneof![
            boxed.clone().prop_map(WitTypeKind::List),
            boxed.clone().prop_map(WitTypeKind::Option),
            boxed.clone().prop_map(|inner| WitTypeKind::Option(Box::new(WitType::of(WitTypeKind::Option(inner))))),
            (map_key(), boxed).prop_map(|(key, value)| WitTypeKind::Map { key: Box::new(WitType::of(key)), value }),
            vec(inner.clone(), 1..4).prop_map(WitTypeKind::Tuple),
            vec(inner.clone(), 1..4).prop_map(|shapes| WitTypeKind::Record(fields(shapes))),
            vec(prop::option::of(inner), 1..4).prop_map(|payloads| {
                let names = names(payloads.len()).into_iter();
                WitTypeKind::Variant(names.zip(payloads).map(|(name, payload)| WitCase { name, payload }).collect())
            }),
            (payload.clone(), payload).prop_map(|(ok, error)| WitTypeKind::Result { ok, error }),
        ]
        .prop_map(WitType::of)
    })
}

fn map_key() -> impl Strategy<Value = WitTypeKind> {
    prop_oneof![
        3 => Just(WitTypeKind::String),
        1 => prop::sample::select(&INTS[..]).prop_map(WitTypeKind::Int),
        1 => Just(WitTypeKind::Char),
        1 => Just(WitTypeKind::Bool),
    ]
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("name-{at}")).collect()
}

fn fields(shapes: Vec<WitType>) -> Vec<WitField> {
    names(shapes.len()).into_iter().zip(shapes).map(|(name, shape)| WitField { name, shape }).collect()
}

/// A random value of a type.
fn value(shape: &WitType) -> BoxedStrategy<Val> {
    let payload = |payload: Option<&WitType>| match payload {
        Some(shape) => value(shape).prop_map(|it| Some(Box::new(it))).boxed(),
        None => Just(None).boxed(),
    };
    match &shape.form {
        WitTypeKind::Bool => any::<bool>().prop_map(Val::Bool).boxed(),
        WitTypeKind::Int(WitInt::U8) => any::<u8>().prop_map(Val::U8).boxed(),
        WitTypeKind::Int(WitInt::S8) => any::<i8>().prop_map(Val::S8).boxed(),
        WitTypeKind::Int(WitInt::U16) => any::<u16>().prop_map(Val::U16).boxed(),
        WitTypeKind::Int(WitInt::S16) => any::<i16>().prop_map(Val::S16).boxed(),
        WitTypeKind::Int(WitInt::U32) => any::<u32>().prop_map(Val::U32).boxed(),
        WitTypeKind::Int(WitInt::S32) => any::<i32>().prop_map(Val::S32).boxed(),
        WitTypeKind::Int(WitInt::U64) => {
            prop_oneof![any::<u64>(), Just(1 << 53), Just(u64::MAX)].prop_map(Val::U64).boxed()
        }
        WitTypeKind::Int(WitInt::S64) => {
            prop_oneof![any::<i64>(), Just(i64::MIN), -9_i64..9].prop_map(Val::S64).boxed()
        }
        WitTypeKind::F32 => prop::num::f32::ANY.prop_map(Val::Float32).boxed(),
        WitTypeKind::F64 => prop::num::f64::ANY.prop_map(Val::Float64).boxed(),
        WitTypeKind::Char => any::<char>().prop_map(Val::Char).boxed(),
        WitTypeKind::String => any::<String>().prop_map(Val::String).boxed(),
        WitTypeKind::List(element) => vec(value(element), 0..4).prop_map(Val::List).boxed(),
        WitTypeKind::Map { key, value: held } => vec((value(key), value(held)), 0..4)
            .prop_map(|mut entries| {
                let mut seen = HashSet::new();
                entries.retain(|(key, _)| seen.insert(key_text(key).unwrap().into_owned()));
                Val::Map(entries)
            })
            .boxed(),
        WitTypeKind::Tuple(parts) => parts.iter().map(value).collect::<Vec<_>>().prop_map(Val::Tuple).boxed(),
        WitTypeKind::Record(fields) => {
            let names: Vec<_> = fields.iter().map(|field| field.name.clone()).collect();
            let values: Vec<_> = fields.iter().map(|field| value(&field.shape)).collect();
            values.prop_map(move |values| Val::Record(names.iter().cloned().zip(values).collect())).boxed()
        }
        WitTypeKind::Variant(cases) => {
            let case = |case: &WitCase| {
                let name = case.name.clone();
                payload(case.payload.as_ref()).prop_map(move |payload| Val::Variant(name.clone(), payload)).boxed()
            };
            Union::new(cases.iter().map(case)).boxed()
        }
        WitTypeKind::Enum(cases) => prop::sample::select(cases.clone()).prop_map(Val::Enum).boxed(),
        WitTypeKind::Flags(flags) => {
            prop::sample::subsequence(flags.clone(), 0..=flags.len()).prop_map(Val::Flags).boxed()
        }
        WitTypeKind::Option(inner) => {
            prop_oneof![Just(None).boxed(), payload(Some(inner))].prop_map(Val::Option).boxed()
        }
        WitTypeKind::Result { ok, error } => prop_oneof![
            payload(ok.as_deref()).prop_map(|it| Val::Result(Ok(it))),
            payload(error.as_deref()).prop_map(|it| Val::Result(Err(it))),
        ]
        .boxed(),
        WitTypeKind::Own(_) | WitTypeKind::Borrow(_) | WitTypeKind::Stream(_) | WitTypeKind::Future(_) => {
            unreachable!("none is made by chance")
        }
    }
}

fn shape_and_value() -> impl Strategy<Value = (WitType, Val)> {
    shape().prop_flat_map(|shape| value(&shape).prop_map(move |value| (shape.clone(), value)))
}

/// Random JSON that often nearly fits a type.
fn wrong_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-300..300_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&["name-0", "name-1", "NaN", "12", "-1", "x", "", "AQI=", "99999999999999999999"][..])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let names = &["name-0", "name-1", "ok", "error", "some", "x"][..];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(prop::sample::select(names), inner, 0..3).prop_map(|map| map
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// Returns `true` if one of our schemas accepts a value, keyword by keyword as in the specification.
fn accepts(schema: &Value, value: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return schema.as_bool().expect("a schema") };
    let length = |of: &str| schema[of].as_u64().expect("a number") as usize;
    schema.iter().all(|(keyword, rule)| match keyword.as_str() {
        "type" => match rule.as_str().expect("one type") {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.as_f64().is_some_and(|it| it.fract() == 0.0),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{other}"),
        },
        "anyOf" => rule.as_array().expect("a list").iter().any(|one| accepts(one, value)),
        "enum" => rule.as_array().expect("a list").contains(value),
        "minimum" => value.as_f64().is_none_or(|it| it >= rule.as_f64().expect("a number")),
        "maximum" => value.as_f64().is_none_or(|it| it <= rule.as_f64().expect("a number")),
        "minLength" => value.as_str().is_none_or(|it| it.chars().count() >= length(keyword)),
        "maxLength" => value.as_str().is_none_or(|it| it.chars().count() <= length(keyword)),
        "minItems" => value.as_array().is_none_or(|it| it.len() >= length(keyword)),
        "maxItems" => value.as_array().is_none_or(|it| it.len() <= length(keyword)),
        "pattern" => value.as_str().is_none_or(|it| {
            let digits = it.strip_prefix('-').unwrap_or(it);
            (1..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        }),
        "items" => {
            let before = schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
            value.as_array().is_none_or(|it| it.iter().skip(before).all(|one| accepts(rule, one)))
        }
        "prefixItems" => value
            .as_array()
            .is_none_or(|it| rule.as_array().expect("a list").iter().zip(it).all(|(schema, one)| accepts(schema, one))),
        "uniqueItems" => {
            value.as_array().is_none_or(|it| it.iter().enumerate().all(|(at, one)| !it[..at].contains(one)))
        }
        "properties" => value.as_object().is_none_or(|it| {
            let rules = rule.as_object().expect("an object").iter();
            rules.filter_map(|(name, schema)| Some((schema, it.get(name)?))).all(|(schema, one)| accepts(schema, one))
        }),
        "required" => value.as_object().is_none_or(|it| {
            rule.as_array().expect("a list").iter().all(|name| it.contains_key(name.as_str().expect("a name")))
        }),
        "additionalProperties" => value.as_object().is_none_or(|it| {
            let named = schema.get("properties").and_then(Value::as_object);
            let is_other = |name: &str| named.is_none_or(|named| !named.contains_key(name));
            it.iter().filter(|(name, _)| is_other(name)).all(|(_, one)| accepts(rule, one))
        }),
        "description" | "contentEncoding" => true,
        other => panic!("{other}"),
    })
}

/// Random JSON that one of our schemas accepts, in all spellings that it allows.
fn accepted(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(ways) = schema.get("anyOf") {
        return Union::new(ways.as_array().expect("a list").iter().map(accepted)).boxed();
    }
    if let Some(choices) = schema.get("enum") {
        return prop::sample::select(choices.as_array().expect("a list").clone()).boxed();
    }
    match schema["type"].as_str().expect("one type") {
        "null" => Just(Value::Null).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => {
            let bound = |keyword: &str| {
                let bound = &schema[keyword];
                bound.as_i64().map(i128::from).or_else(|| bound.as_u64().map(i128::from)).expect("a bound")
            };
            let whole = |number: i128, has_point: bool| match u64::try_from(number) {
                _ if has_point && number.abs() < 1 << 53 => Value::from(number as f64),
                Ok(number) => Value::from(number),
                Err(_) => Value::from(i64::try_from(number).expect("a bound")),
            };
            (bound("minimum")..=bound("maximum"), any::<bool>())
                .prop_map(move |(number, has_point)| whole(number, has_point))
                .boxed()
        }
        "number" => (prop::num::f64::NORMAL | prop::num::f64::ZERO).prop_map(Value::from).boxed(),
        "string" if schema.get("pattern").is_some() => {
            let digits = vec(0..10_u8, 1..=20).prop_map(|digits| digits.iter().map(u8::to_string).collect::<String>());
            (any::<bool>(), digits)
                .prop_map(|(is_below, digits)| format!("{}{digits}", if is_below { "-" } else { "" }).into())
                .boxed()
        }
        "string" if schema.get("maxLength").is_some() => any::<char>().prop_map(|it| it.to_string().into()).boxed(),
        "string" => any::<String>().prop_map(Value::from).boxed(),
        "array" if schema.get("prefixItems").is_some() => {
            let items = schema["prefixItems"].as_array().expect("a list");
            items.iter().map(accepted).collect::<Vec<_>>().prop_map(Value::from).boxed()
        }
        "array" if schema.get("uniqueItems").is_some() => {
            let choices = schema["items"]["enum"].as_array().expect("a list").clone();
            let most = choices.len();
            prop::sample::subsequence(choices, 0..=most).prop_shuffle().prop_map(Value::from).boxed()
        }
        "array" => vec(accepted(&schema["items"]), 0..4).prop_map(Value::from).boxed(),
        "object" if schema.get("properties").is_none() => {
            let held = accepted(&schema["additionalProperties"]);
            vec((any::<String>(), held), 0..4).prop_map(|fields| fields.into_iter().collect::<Value>()).boxed()
        }
        "object" => {
            let is_required = |name: &String| schema["required"].as_array().is_some_and(|it| it.contains(&json!(name)));
            let field = |(name, of): (&String, &Value)| {
                let value = match is_required(name) {
                    true => accepted(of).prop_map(Some).boxed(),
                    false => prop::option::of(accepted(of)).boxed(),
                };
                (Just(name.clone()), value).boxed()
            };
            let fields: Vec<_> = schema["properties"].as_object().expect("an object").iter().map(field).collect();
            let given = |(name, value): (String, Option<Value>)| Some((name, value?));
            fields.prop_map(move |fields| fields.into_iter().filter_map(given).collect::<Value>()).boxed()
        }
        other => panic!("{other}"),
    }
}

fn json_of(fields: &[WitField], value: Val) -> String {
    let record = Val::Record(vec![(fields[0].name.clone(), value)]);
    match written(&WitType::of(WitTypeKind::Record(fields.to_vec())), &record, None).unwrap() {
        FunctionOutput::Json(json) => json,
        FunctionOutput::Text(text) => panic!("{text}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn function_value_round_trips_through_json((shape, value) in shape_and_value()) {
        let params = fields(vec![shape]);
        let json = json_of(&params, value.clone());
        let read: Value = serde_json::from_str(&json).unwrap();
        prop_assert!(accepts(&schema::object(&params, |_| None), &read), "its own schema refuses {json}");
        prop_assert_eq!(&arguments(&params, &json, None).unwrap().values, &[value], "{}", json);
    }

    #[test]
    fn json_that_schema_refuses_is_refused_as_argument(shape in shape(), wrong in wrong_json()) {
        let params = fields(vec![shape]);
        let given = json!({ "name-0": wrong });
        let (schema, given) = (schema::object(&params, |_| None), given);
        if !accepts(&schema, &given) {
            prop_assert!(arguments(&params, &given.to_string(), None).is_err(), "{given} against {schema}");
        }
    }

    /// A schema cannot say everything: numbers may be out of the range of `f32` and strings no base64, for example.
    #[test]
    fn json_that_schema_accepts_is_converted_or_refused_by_path(
        (shape, given) in shape().prop_flat_map(|shape| {
            let schema = schema::object(&fields(vec![shape.clone()]), |_| None);
            accepted(&schema).prop_map(move |given| (shape.clone(), given))
        })
    ) {
        let params = fields(vec![shape]);
        prop_assert!(accepts(&schema::object(&params, |_| None), &given), "{}", given);
        if let Err(fault) = arguments(&params, &given.to_string(), None) {
            let said = fault.to_string();
            prop_assert!(said.starts_with("name-0") && said.contains(": "), "{given}: {said}");
        }
    }
}

fn list(of: WitTypeKind) -> WitTypeKind {
    WitTypeKind::List(Box::new(WitType::of(of)))
}

fn field(name: &str, form: WitTypeKind) -> WitField {
    WitField { name: name.into(), shape: WitType::of(form) }
}

fn item() -> WitTypeKind {
    let unit = WitTypeKind::Enum(vec!["kilogram".into(), "piece".into()]);
    WitTypeKind::Record(vec![
        field("price", WitTypeKind::F64),
        field("unit", unit),
        field("note", WitTypeKind::Option(Box::new(WitType::of(WitTypeKind::String)))),
    ])
}

#[test]
fn argument_error_names_its_place() {
    let shade = WitTypeKind::Variant(vec![
        WitCase { name: "none".into(), payload: None },
        WitCase { name: "rgb".into(), payload: Some(WitType::of(list(WitTypeKind::Int(WitInt::U16)))) },
    ]);
    let params = [
        field("items", list(item())),
        field("shade", WitTypeKind::Option(Box::new(WitType::of(shade)))),
        field(
            "pair",
            WitTypeKind::Option(Box::new(WitType::of(WitTypeKind::Tuple(vec![
                WitType::of(WitTypeKind::Bool),
                WitType::of(WitTypeKind::Char),
            ])))),
        ),
        field("id", WitTypeKind::Option(Box::new(WitType::of(WitTypeKind::Int(WitInt::U64))))),
        field(
            "tags",
            WitTypeKind::Option(Box::new(WitType::of(WitTypeKind::Flags(vec!["hot".into(), "cold".into()])))),
        ),
        field("data", WitTypeKind::Option(Box::new(WitType::of(list(WitTypeKind::Int(WitInt::U8)))))),
        field("small", WitTypeKind::Option(Box::new(WitType::of(WitTypeKind::F32)))),
    ];
    for (json, says) in [
        ("{}", "missing argument `items` of type list<record>"),
        (r#"{"item": []}"#, "unknown argument `item`; did you mean `items`?"),
        (r#"{"items": [], "zzzzzz": 1}"#, "unknown argument `zzzzzz`; expected one of `items`, `shade`"),
        (r#"{"items": {}}"#, "items: expected a list, got {}"),
        (
            r#"{"items": [{"price": 1, "unit": "piece"}, {"price": "x", "unit": "piece"}]}"#,
            r#"items[1].price: expected a number, got "x""#,
        ),
        (r#"{"items": [{"price": 1}]}"#, "items[0]: missing field `unit` of type enum"),
        (r#"{"items": [{"price": 1, "unit": "pice"}]}"#, "items[0].unit: unknown case `pice`; did you mean `piece`?"),
        (
            r#"{"items": [{"price": 1, "unit": "piece", "nota": ""}]}"#,
            "items[0]: unknown field `nota`; did you mean `note`?",
        ),
        (r#"{"items": [3]}"#, "items[0]: expected an object (record), got 3"),
        (
            r#"{"items": [], "shade": {"rgb": [1, 70000]}}"#,
            "shade.rgb[1]: expected a whole number from 0 to 65535 (u16), got 70000",
        ),
        (r#"{"items": [], "shade": "rgb"}"#, r#"shade: expected {"rgb": …} with a value of type list<u16>, got "rgb""#),
        (
            r#"{"items": [], "shade": {"none": 1}}"#,
            r#"shade: expected "none" alone: the case has no value, got {"none": …}"#,
        ),
        (r#"{"items": [], "pair": [true]}"#, "pair: expected a list of 2, got a list of 1"),
        (r#"{"items": [], "pair": [true, "ab"]}"#, r#"pair[1]: expected one character, got "ab""#),
        (
            r#"{"items": [], "id": "18446744073709551616"}"#,
            "id: expected a whole number from 0 to 18446744073709551615 (u64), as a number or in digits as a string",
        ),
        (r#"{"items": [], "id": -1}"#, "id: expected a whole number from 0"),
        (r#"{"items": [], "id": 1.5}"#, "id: expected a whole number"),
        (r#"{"items": [], "tags": ["hot", "hot"]}"#, "tags: duplicate flag `hot`"),
        (r#"{"items": [], "tags": ["cool"]}"#, "tags: unknown flag `cool`; did you mean `cold`?"),
        (r#"{"items": [], "data": "?"}"#, r#"data: expected bytes in base64, got "?""#),
        (r#"{"items": [], "data": [1, 256]}"#, "data[1]: expected a whole number from 0 to 255 (u8), got 256"),
        (r#"{"items": [], "small": 1e300}"#, "small: expected a number in the range of f32, got 1e300"),
    ] {
        let fault = arguments(&params, json, None).unwrap_err();
        assert!(matches!(&fault, Fault::Invalid { message } if message.starts_with(says)), "{json}: {fault}");
    }
}

#[test]
fn integer_argument_accepts_all_json_spellings() {
    let read = |int, json: &str| arguments(&[field("n", WitTypeKind::Int(int))], &format!("{{\"n\": {json}}}"), None);
    for (int, json, expected) in [
        (WitInt::U8, "3.0", Val::U8(3)),
        (WitInt::S64, "1e3", Val::S64(1_000)),
        (WitInt::U64, "\"18446744073709551615\"", Val::U64(u64::MAX)),
        (WitInt::S64, "\"-9223372036854775808\"", Val::S64(i64::MIN)),
        (WitInt::U64, "18446744073709551615", Val::U64(u64::MAX)),
    ] {
        assert_eq!(read(int, json).unwrap().values, [expected]);
    }
    for (int, json) in [
        (WitInt::U32, "\"3\""),
        (WitInt::U64, "\"+3\""),
        (WitInt::U64, "\"\""),
        (WitInt::S8, "-129"),
        (WitInt::U64, "1e30"),
    ] {
        assert!(read(int, json).is_err(), "{json}");
    }
}

#[test]
fn base64_argument_needs_no_padding() {
    let params = [field("data", list(WitTypeKind::Int(WitInt::U8)))];
    let read = |text: &str| arguments(&params, &json!({ "data": text }).to_string(), None);
    for (text, bytes) in
        [("AQI=", &[1, 2][..]), ("AQI", &[1, 2]), ("AQ==", &[1]), ("AQ=", &[1]), ("AQ", &[1]), ("", &[])]
    {
        let expected = Val::List(bytes.iter().map(|byte| Val::U8(*byte)).collect());
        assert_eq!(read(text).unwrap().values, [expected], "{text}");
    }
    for text in ["A", "AQI==", "A=QI", "AQ-_", "AQ ", "AR"] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn deep_arguments_and_huge_numbers_are_refused() {
    let params = [field("n", WitTypeKind::F64)];
    let deep = format!("{{\"n\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (json, says) in [
        (deep.as_str(), "n: expected a number, got a list of 1"),
        (r#"{"n": 1e999}"#, "n: expected a number in the range of f64, got 1e999"),
        (r#"{"n": 1"#, "the arguments are not JSON"),
    ] {
        let said = arguments(&params, json, None).unwrap_err().to_string();
        assert!(said.starts_with(says), "{said}");
    }
}

#[test]
fn arguments_beyond_memory_limit_are_refused() {
    // A few bytes of JSON each, which become records of many fields.
    let fields = (0..100)
        .map(|at| field(&format!("field-{at}"), WitTypeKind::Option(Box::new(WitType::of(WitTypeKind::Bool)))))
        .collect();
    let params = [field("all", list(WitTypeKind::Record(fields)))];
    let json = |count: usize| format!("{{\"all\": [{}]}}", vec!["{}"; count].join(","));
    assert!(arguments(&params, &json(1_000), None).is_ok());
    let many = json(limits::HOSTCALL_BYTES / 2_000);
    assert!(many.len() < limits::ARGUMENT_BYTES);
    let fault = arguments(&params, &many, None).unwrap_err();
    assert!(matches!(&fault, Fault::TooLarge { message } if message.contains("32 MiB")), "{fault}");
}

#[test]
fn function_result_beyond_limit_is_refused() {
    let text = |chars: usize| Val::List(vec![Val::String("\u{1}".repeat(chars))]);
    let shape = WitType::of(list(WitTypeKind::String));
    // Six bytes for each character, and brackets and quotes.
    let most = (limits::RESULT_BYTES - 4) / 6;
    assert!(written(&shape, &text(most), None).is_ok());
    assert!(matches!(written(&shape, &text(most + 1), None), Err(Fault::TooLarge { .. })));
    let plain = Val::String("x".repeat(limits::RESULT_BYTES + 1));
    assert!(matches!(written(&WitType::of(WitTypeKind::String), &plain, None), Err(Fault::TooLarge { .. })));
}

#[test]
fn function_results_have_their_documented_json() {
    let option = |form| WitTypeKind::Option(Box::new(WitType::of(form)));
    for (form, value, json) in [
        (WitTypeKind::Int(WitInt::U64), Val::U64(1 << 53), "9007199254740992"),
        (WitTypeKind::Int(WitInt::U64), Val::U64((1 << 53) + 1), "\"9007199254740993\""),
        (WitTypeKind::F32, Val::Float32(0.1), "0.1"),
        (WitTypeKind::F64, Val::Float64(f64::NEG_INFINITY), "\"-Infinity\""),
        (WitTypeKind::F64, Val::Float64(f64::NAN), "\"NaN\""),
        (list(WitTypeKind::Int(WitInt::U8)), Val::List(vec![Val::U8(1), Val::U8(2)]), "\"AQI=\""),
        (option(option(WitTypeKind::Bool)), Val::Option(None), "null"),
        (option(option(WitTypeKind::Bool)), Val::Option(Some(Box::new(Val::Option(None)))), r#"{"some":null}"#),
        (option(WitTypeKind::Bool), Val::Option(Some(Box::new(Val::Bool(true)))), "true"),
        (WitTypeKind::Result { ok: None, error: None }, Val::Result(Ok(None)), r#"{"ok":null}"#),
        (WitTypeKind::Flags(names(2)), Val::Flags(names(1)), r#"["name-0"]"#),
    ] {
        assert_eq!(written(&WitType::of(form), &value, None).unwrap(), FunctionOutput::Json(json.into()));
    }
    let text = written(&WitType::of(WitTypeKind::String), &Val::String("a\nb".into()), None).unwrap();
    assert_eq!(text, FunctionOutput::Text("a\nb".into()), "a text is no JSON");
}
