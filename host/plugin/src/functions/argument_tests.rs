//! Spellings of JSON arguments that a parser of JSON would round, merge or let pass, and the JSON of maps.

use serde_json::{Value, json};
use wasmtime::component::Val;

use super::{
    arguments, schema,
    to_json::{FunctionOutput, written},
    wit::called,
    wit_types::{WitCase, WitField, WitInt, WitType, WitTypeKind},
};
use shelly_core::error::Fault;

/// Converts the argument `it` of this type.
fn read(form: WitTypeKind, json: &str) -> Result<Val, Fault> {
    let params = [WitField { name: "it".into(), shape: WitType::of(form) }];
    let mut values = arguments(&params, &format!("{{\"it\": {json}}}"), None)?.values;
    Ok(values.pop().expect("one value"))
}

/// Asserts that JSON of this type is refused with messages that begin so.
fn assert_refused(form: &WitTypeKind, cases: &[(&str, &str)]) {
    for (json, says) in cases {
        let said = read(form.clone(), json).expect_err(json).to_string();
        assert!(said.starts_with(*says), "{json}: {said}");
    }
}

fn boxed(form: WitTypeKind) -> Box<WitType> {
    Box::new(WitType::of(form))
}

fn map(key: WitTypeKind, value: WitTypeKind) -> WitTypeKind {
    WitTypeKind::Map { key: boxed(key), value: boxed(value) }
}

#[test]
fn float_argument_is_rounded_once() {
    for (json, expected) in [
        // Hardly less than the middle between two values, which is the nearest `f64`.
        ("1.00000017881393432617187499", 1.0 + f32::EPSILON),
        ("0.1", 0.1),
        ("16777217", 16_777_216.0),
        ("3.4028235e38", f32::MAX),
        ("1e-45", f32::from_bits(1)),
        ("1e-60", 0.0),
    ] {
        assert_eq!(read(WitTypeKind::F32, json).unwrap(), Val::Float32(expected), "{json}");
    }
    let double = |json: &str| match read(WitTypeKind::F64, json).unwrap() {
        Val::Float64(it) => it.to_bits(),
        other => panic!("{other:?}"),
    };
    assert_eq!(double("-0.0"), (-0.0_f64).to_bits());
    assert_eq!(double("-0"), (-0.0_f64).to_bits());
    assert_eq!(double("1.7976931348623157e308"), f64::MAX.to_bits());
    assert_eq!(double("\"-Infinity\""), f64::NEG_INFINITY.to_bits());
    assert_refused(
        &WitTypeKind::F32,
        &[
            ("3.5e38", "it: expected a number in the range of f32, got 3.5e38"),
            ("\"nan\"", "it: expected a number, got"),
        ],
    );
    assert_refused(&WitTypeKind::F64, &[("-1e309", "it: expected a number in the range of f64, got -1e309")]);
}

#[test]
fn integer_argument_beyond_2_53_is_exact() {
    for (int, json, expected) in [
        (WitInt::U64, "9007199254740993.0", Val::U64(9_007_199_254_740_993)),
        (WitInt::U64, "1.8446744073709551615e19", Val::U64(u64::MAX)),
        (WitInt::S64, "-9.223372036854775808e18", Val::S64(i64::MIN)),
        (WitInt::S64, "9223372036854775807", Val::S64(i64::MAX)),
        (WitInt::U8, "-0", Val::U8(0)),
    ] {
        assert_eq!(read(WitTypeKind::Int(int), json).unwrap(), expected, "{json}");
    }
    assert_refused(
        &WitTypeKind::Int(WitInt::U64),
        &[
            ("18446744073709551616", "it: expected a whole number from 0 to 18446744073709551615 (u64)"),
            ("9007199254740992.5", "it: expected a whole number"),
        ],
    );
}

#[test]
fn duplicate_key_of_an_argument_is_refused() {
    let record = WitTypeKind::Record(vec![WitField { name: "x".into(), shape: WitType::of(WitTypeKind::Bool) }]);
    let variant =
        WitTypeKind::Variant(vec![WitCase { name: "x".into(), payload: Some(WitType::of(WitTypeKind::Bool)) }]);
    for form in [record, variant, map(WitTypeKind::String, WitTypeKind::Bool)] {
        assert_refused(&form, &[(r#"{"x": true, "x": false}"#, "it: duplicate key `x`")]);
        // The same name with other escapes.
        assert_refused(&form, &[(r#"{"x": true, "\u0078": false}"#, "it: duplicate key `x`")]);
    }
    let params = [WitField { name: "it".into(), shape: WitType::of(WitTypeKind::Bool) }];
    let said = arguments(&params, r#"{"it": true, "it": false}"#, None).unwrap_err().to_string();
    assert_eq!(said, "duplicate key `it`");
}

#[test]
fn character_argument_is_one_unicode_scalar_value() {
    for (json, expected) in [
        (r#""😀""#, '😀'),
        (r#""\ud83d\ude00""#, '😀'),
        (r#""\u0000""#, '\0'),
        (r#""\uffff""#, '\u{ffff}'),
        (r#""\udbff\udfff""#, '\u{10ffff}'),
    ] {
        assert_eq!(read(WitTypeKind::Char, json).unwrap(), Val::Char(expected), "{json}");
    }
    let half = "it: a string with half of a surrogate pair, such as \\ud83d alone";
    assert_refused(
        &WitTypeKind::Char,
        &[
            (r#""\ud83d""#, half),
            (r#""\ude00""#, half),
            (r#""""#, "it: expected one character, got \"\""),
            // One character on the screen, two in Unicode.
            (r#""e\u0301""#, "it: expected one character, got"),
        ],
    );
    assert_refused(&WitTypeKind::String, &[(r#""a\udfffb""#, half)]);
    assert_refused(&map(WitTypeKind::String, WitTypeKind::Bool), &[(r#"{"\ud83d": true}"#, half)]);
}

#[test]
fn map_round_trips_in_its_documented_json() {
    let text = |text: &str| Val::String(text.into());
    let nested = WitTypeKind::Option(boxed(WitTypeKind::Option(boxed(WitTypeKind::Bool))));
    for (form, value, json) in [
        (map(WitTypeKind::String, WitTypeKind::Bool), Val::Map(vec![]), "{}"),
        (
            map(WitTypeKind::String, WitTypeKind::Int(WitInt::U8)),
            Val::Map(vec![(text("b"), Val::U8(1)), (text("a"), Val::U8(2)), (text(""), Val::U8(3))]),
            r#"{"b":1,"a":2,"":3}"#,
        ),
        (map(WitTypeKind::Int(WitInt::S8), WitTypeKind::Bool), Val::Map(vec![]), "[]"),
        (
            map(WitTypeKind::Int(WitInt::U64), WitTypeKind::String),
            Val::Map(vec![(Val::U64(u64::MAX), text("most")), (Val::U64(0), text("least"))]),
            r#"[["18446744073709551615","most"],[0,"least"]]"#,
        ),
        (
            map(WitTypeKind::Char, map(WitTypeKind::Bool, nested)),
            Val::Map(vec![(
                Val::Char('"'),
                Val::Map(vec![(Val::Bool(true), Val::Option(Some(Val::Option(None).into())))]),
            )]),
            r#"[["\"",[[true,{"some":null}]]]]"#,
        ),
    ] {
        let back = written(&WitType::of(form.clone()), &value, None).unwrap();
        assert_eq!(back, FunctionOutput::Json(json.into()));
        assert_eq!(read(form, json).unwrap(), value);
    }
}

#[test]
fn map_argument_error_names_its_key() {
    assert_refused(
        &map(WitTypeKind::String, WitTypeKind::Int(WitInt::U8)),
        &[
            ("[]", "it: expected an object: its names are the keys of the map, got a list of 0"),
            (r#"{"a": 1, "b": 300}"#, "it.b: expected a whole number from 0 to 255 (u8), got 300"),
        ],
    );
    assert_refused(
        &map(WitTypeKind::Int(WitInt::U8), WitTypeKind::Bool),
        &[
            ("{}", "it: expected a list of pairs, each of a key and its value, got {}"),
            ("[[1, true], 2]", "it[1]: expected a list of a key and its value, got 2"),
            ("[[1, true, 3]]", "it[0]: expected a list of a key and its value, got a list of 3"),
            ("[[1, true], [-1, true]]", "it[1][0]: expected a whole number from 0 to 255 (u8), got -1"),
            ("[[1, 2]]", "it[0][1]: expected true or false, got 2"),
            ("[[1, true], [1.0, false]]", "it[1]: duplicate key `1`"),
        ],
    );
}

#[test]
fn returned_map_keeps_the_last_of_equal_keys() {
    let entries = |keys: [Val; 3]| Val::Map(keys.into_iter().zip([1, 2, 3].map(Val::U8)).collect());
    let of = |key: WitTypeKind| WitType::of(map(key, WitTypeKind::Int(WitInt::U8)));
    let texts = entries(["a", "b", "a"].map(|key| Val::String(key.into())));
    let json = written(&of(WitTypeKind::String), &texts, None).unwrap();
    assert_eq!(json, FunctionOutput::Json(r#"{"b":2,"a":3}"#.into()));
    let numbers = entries([7, 7, 8].map(Val::S32));
    let json = written(&of(WitTypeKind::Int(WitInt::S32)), &numbers, None).unwrap();
    assert_eq!(json, FunctionOutput::Json("[[7,2],[8,3]]".into()));
}

#[test]
fn map_of_handles_with_equal_keys_is_refused() {
    // Handles are made by an instance alone, and the error comes before they are read.
    let shape = WitType::of(map(WitTypeKind::Bool, WitTypeKind::Own("counter".into())));
    let twice = Val::Map(vec![(Val::Bool(true), Val::U8(1)), (Val::Bool(true), Val::U8(2))]);
    let said = written(&shape, &twice, None).unwrap_err().to_string();
    assert_eq!(said, "the component returned a map of handles with a duplicate key");
}

#[test]
fn map_schema_and_wit_show_keys_and_values() {
    let value = json!({ "type": "boolean" });
    let of = |key| schema::schema(&WitType::of(map(key, WitTypeKind::Bool)));
    assert_eq!(of(WitTypeKind::String), json!({ "type": "object", "additionalProperties": value }));
    let pairs = of(WitTypeKind::Char);
    let key = json!({ "type": "string", "minLength": 1, "maxLength": 1 });
    assert_eq!(pairs["items"], json!({ "type": "array", "prefixItems": [key, value], "minItems": 2, "maxItems": 2 }));
    assert_eq!(pairs["type"], Value::from("array"));
    let shown = called(&WitType::of(map(WitTypeKind::Char, map(WitTypeKind::String, WitTypeKind::Bool))));
    assert_eq!(shown, "map<char, map<string, bool>>");
}

#[test]
fn long_unknown_name_is_cut_in_the_error() {
    let record = WitTypeKind::Record(vec![WitField { name: "price".into(), shape: WitType::of(WitTypeKind::Bool) }]);
    let name = "x".repeat(1 << 20);
    for form in [record, WitTypeKind::Enum(vec!["price".into()]), WitTypeKind::Flags(vec!["price".into()])] {
        let json = match &form {
            WitTypeKind::Record(_) => json!({ name.as_str(): true }),
            WitTypeKind::Enum(_) => json!(name),
            _ => json!([name]),
        };
        let said = read(form, &json.to_string()).unwrap_err().to_string();
        assert!(said.len() < 200 && said.ends_with("x…`; expected one of `price`"), "{said}");
    }
}
