use super::*;

fn ask(filter: &str, text: &str) -> Result<String, Error> {
    ask_as(filter, text, None, None)
}

fn ask_as(filter: &str, text: &str, format: Option<Format>, output: Option<Style>) -> Result<String, Error> {
    query(&JsonQueryArgs { filter: filter.into(), text: Some(text.into()), path: None, format, slurp: None, output })
}

const GOODS: &str =
    r#"{"items": [{"name": "pen", "price": 2}, {"name": "bäg", "price": 30.50}], "n": 12345678901234567890}"#;

#[test]
fn json_query_evaluates_filters() {
    for (filter, expected) in [
        (
            ".",
            "{\"items\":[{\"name\":\"pen\",\"price\":2},{\"name\":\"bäg\",\"price\":30.50}],\"n\":12345678901234567890}\n",
        ),
        (".items[] | select(.price > 10) | .name", "\"bäg\"\n"),
        ("[.items[].price] | add", "32.5\n"),
        (".items | length, map(.name)", "2\n[\"pen\",\"bäg\"]\n"),
        (".items | group_by(.price > 10) | map(length)", "[1,1]\n"),
        (".items[] | \"\\(.name): \\(.price)\"", "\"pen: 2\"\n\"bäg: 30.50\"\n"),
        ("[paths] | length", "8\n"),
        (".items[] | select(.name | test(\"^b\"))| .price", "30.50\n"),
        ("reduce range(5) as $i (0; . + $i)", "10\n"),
        ("\"2026-03-01T00:00:00Z\" | fromdate", "1772323200\n"),
        (".missing // \"none\"", "\"none\"\n"),
        ("empty", "no results"),
        ("[.items[] | {(.name): .price}] | add | keys", "[\"bäg\",\"pen\"]\n"),
        ("@base64 \"\\(.items[0].name)\"", "\"cGVu\"\n"),
    ] {
        assert_eq!(ask(filter, GOODS).as_deref(), Ok(expected), "{filter}");
    }
}

#[test]
fn json_query_writes_three_output_styles() {
    let text = r#"{"a": ["x\"y", 1]}"#;
    let ask = |filter: &str, style| ask_as(filter, text, None, Some(style)).unwrap();
    assert_eq!(ask(".", Style::Compact), "{\"a\":[\"x\\\"y\",1]}\n");
    assert_eq!(ask(".", Style::Pretty), "{\n  \"a\": [\n    \"x\\\"y\",\n    1\n  ]\n}\n");
    assert_eq!(ask(".a[]", Style::Raw), "x\"y\n1\n");
}

#[test]
fn json_query_reads_json_lines_yaml_and_toml() {
    let lines = "{\"a\":1}\n{\"a\":2}\n";
    assert_eq!(ask(".a", lines).as_deref(), Ok("1\n2\n"));
    let args = |slurp| JsonQueryArgs {
        filter: "map(.a)".into(),
        text: Some(lines.into()),
        path: None,
        format: None,
        slurp: Some(slurp),
        output: None,
    };
    assert_eq!(query(&args(true)).as_deref(), Ok("[1,2]\n"));
    assert!(query(&args(false)).is_err());
    let yaml = "a: &x [1, two]\nb: *x\n---\na: 3\n";
    assert_eq!(
        ask_as("[.a, .b]", yaml, Some(Format::Yaml), None).as_deref(),
        Ok("[[1,\"two\"],[1,\"two\"]]\n[3,null]\n")
    );
    let toml = "[package]\nname = \"x\"\n[[bin]]\npath = 'a'\n";
    assert_eq!(ask_as(".package.name, .bin[0].path", toml, Some(Format::Toml), None).as_deref(), Ok("\"x\"\n\"a\"\n"));
    assert_eq!(
        (Format::of("a/b.YML"), Format::of("Cargo.toml"), Format::of("x")),
        (Some(Format::Yaml), Some(Format::Toml), None)
    );
    assert_eq!(ask(".", "\u{feff}1").as_deref(), Ok("1\n"));
}

#[test]
fn what_is_wrong_is_named() {
    for (filter, text, says) in [
        (".a", "{\"a\": ", "`text`: invalid JSON: byte offset"),
        (".a", "nonsense", "`text`: invalid JSON"),
        (".a |", "{}", "`filter`: expected term at the end"),
        (".a )", "{}", "`filter`: expected "),
        ("(.a", "{}", "closing parenthesis"),
        ("\"a", "{}", "closing quote"),
        ("nonsense", "{}", "unknown filter `nonsense/0`"),
        ("$x", "{}", "unknown variable `$x`"),
        (".a.b", "{\"a\": 1}", "`filter`: cannot index 1 with"),
        ("error(\"mine\")", "{}", "mine"),
        ("env", "{}", "not available here"),
        ("$ENV", "{}", "`$ENV`"),
        ("now", "{}", "not available here"),
        ("input", "{}", "unknown filter `input/0`"),
        ("halt", "{}", "not available here"),
        ("halt_error", "{}", "not available here"),
        ("import \"a\" as a; a::b", "{}", "modules are not supported"),
        ("test(\"(\")", "\"a\"", "`filter`: "),
    ] {
        let told = ask(filter, text).unwrap_err();
        assert!(matches!(&told, Error::Invalid(message) if message.contains(says)), "{filter}: {told:?}");
    }
    assert!(ask_as(".", "a: [", Some(Format::Yaml), None).unwrap_err().to_string().contains("invalid YAML"));
    assert!(ask_as(".", "a = ", Some(Format::Toml), None).unwrap_err().to_string().contains("invalid TOML"));
    let neither = JsonQueryArgs { filter: ".".into(), text: None, path: None, format: None, slurp: None, output: None };
    assert_eq!(query(&neither), Err(Error::Invalid("pass either `text` or `path`".into())));
}

#[test]
fn what_is_too_much_ends_with_an_error_that_says_so() {
    let deep = format!("{}{}", "[".repeat(201), "]".repeat(201));
    for (filter, text, says) in [
        ("range(1e9)", "null", "narrow the filter"),
        ("[limit(200000; repeat(\"aaaaaa\"))]", "null", "the first 1 results have more than 1048576 bytes"),
        (".", deep.as_str(), "more than 200 nested lists"),
        (&"(".repeat(101), "null", "more than 100 nested brackets"),
        (&"1,".repeat(8_193), "null", "16386 bytes"),
    ] {
        let told = ask(filter, text).unwrap_err().to_string();
        assert!(told.contains(says), "{}: {told}", &filter[..10.min(filter.len())]);
    }
    let further_in: String = (0..201).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
    let both: String = (0..20).map(|at| format!("{}{}a:\n", " ".repeat(20 * at), "- ".repeat(10))).collect();
    for yaml in ["- ".repeat(201), format!("a: {}", "[".repeat(201)), further_in, both] {
        assert!(
            ask_as(".", &yaml, Some(Format::Yaml), None)
                .unwrap_err()
                .to_string()
                .contains("more than 200 nested lists")
        );
    }
    let many = "- a:\n    b:\n    - - c\n".repeat(500);
    assert_eq!(ask_as("length", &many, Some(Format::Yaml), None).as_deref(), Ok("500\n"), "they lie side by side");
    // Depth within the bound, and brackets in a text.
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(ask("[..] | length", &deep).as_deref(), Ok("200\n"));
    assert_eq!(ask("length", &format!("\"{}\"", "[".repeat(300))).as_deref(), Ok("300\n"));
}
