//! The command `shelly-host conformance`, with the built-in attacks and with others.

use std::{fs, path::Path};

use serde_json::Value;

use crate::support::{Place, Ran};

fn run(place: &Place, arguments: &[&str]) -> Ran {
    place.run(&[&["conformance"], arguments].concat())
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.shown()))
}

/// The attacks of a report: name, verdict, status.
fn rows(report: &Value) -> Vec<[String; 3]> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let rows = report["attacks"].as_array().unwrap().iter();
    rows.map(|row| ["name", "verdict", "status"].map(|key| text(row, key))).collect()
}

/// An attack of a suite in the folder `suite`.
fn attack(place: &Place, name: &str, file: &str, guest: &str) {
    place.file(&format!("suite/{name}/attack.toml"), file);
    place.file(&format!("suite/{name}/guest.wat"), guest);
}

const POLITE: &str = "tries = \"nothing\"\nkind = \"tool\"\nexpect = \"held\"\n";
/// Opens `canary.txt` so that it is cut.
const CUT: &str = r#"
    (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))
    (import "wasi:filesystem/types@0.2.0" "[method]descriptor.open-at"
      (func $open (param i32 i32 i32 i32 i32 i32 i32)))
    (data (i32.const 0x500) "canary.txt")
    (func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
      (call $directories (i32.const 16))
      (call $open (i32.load (i32.load (i32.const 16))) (i32.const 0) (i32.const 0x500) (i32.const 10)
        (i32.const 8) (i32.const 2) (i32.const 32))
      (call $ok))"#;

#[test]
fn host_passes_the_attack_suite() {
    let place = Place::new();
    let ran = run(&place, &["--output", "json"]);
    let report = json(&ran);
    assert!(rows(&report).len() >= 40);
    for row in report["attacks"].as_array().unwrap() {
        assert_eq!(row["status"], "passed", "{row:#}");
        assert!(row["expected"].as_array().unwrap().contains(&row["verdict"]), "{row:#}");
        assert_eq!(row["escapes"], Value::Array(vec![]));
    }
    let of = |name: &str, key: &str| {
        let row = report["attacks"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        row[key].as_f64().unwrap()
    };
    assert!(
        of("tool-memory", "memory_bytes") >= f64::from(100 << 20) && of("tool-ceiling-clock", "memory_bytes") == 0.0
    );
    for name in ["tool-cpu", "provider-cpu", "effect-cpu", "model-middleware-cpu", "tool-middleware-cpu"] {
        assert!((300.0..=800.0).contains(&of(name, "cpu_ms")), "{}", of(name, "cpu_ms"));
    }
    // Bombs are played alone, and each class of them is there.
    for class in ["functions-instances-", "functions-code-", "functions-feature-", "functions-tail-", "tool-schema-"] {
        let of_class = report["attacks"].as_array().unwrap().iter();
        let alone = of_class.filter(|row| row["name"].as_str().unwrap().starts_with(class) && row["host"].is_object());
        assert!(alone.count() >= 2, "{class}");
    }
    for row in report["attacks"].as_array().unwrap().iter().filter(|row| row["host"].is_object()) {
        let bytes = |key: &str| row["host"][key].as_u64();
        if cfg!(target_os = "linux") {
            assert!(bytes("peak_bytes") >= bytes("idle_bytes") && bytes("idle_bytes") > Some(1 << 20), "{row:#}");
        }
    }
    // How much memory and time it takes on a busy machine is reported, not asserted.
    let recovery = report["recovery"].as_array().unwrap();
    let names: Vec<_> = recovery.iter().map(|row| row["what"].as_str().unwrap()).collect();
    let all = ["memory", "open files", "threads", "calls at once", "call of a tool", "run of an agent"];
    assert_eq!(names, all);
    for row in recovery {
        let is_exact = ["open files", "calls at once"].iter().any(|exact| row["what"] == *exact);
        assert!(!is_exact || row["ok"] == true, "{row:#}");
    }
    let ok = recovery.iter().all(|row| row["ok"] == true);
    assert_eq!((report["ok"].as_bool(), ran.code), (Some(ok), i32::from(!ok)));
}

#[test]
fn exported_attack_suite_gives_the_same_results() {
    let place = Place::new();
    let kinds = ["--kind", "run-middleware", "--kind", "tool-middleware", "--kind", "coordinator"];
    let here = json(&run(&place, &[&kinds[..], &["--output", "json"]].concat()));
    let names = rows(&here).into_iter().map(|[name, ..]| name).collect::<Vec<_>>();
    let of_these = ["run-middleware-", "tool-middleware-", "coordinator-"];
    assert!(names.iter().all(|name| of_these.iter().any(|kind| name.starts_with(kind))));
    assert!(names.len() > 5);

    let ran = run(&place, &[&kinds[..], &["--export", "attacks"]].concat());
    assert_eq!((ran.code, ran.stdout), (0, format!("wrote {} attacks to attacks\n", names.len())));
    let there = json(&run(&place, &["--suite", "attacks", "--output", "json"]));
    assert_eq!(rows(&there), rows(&here));
    let ran = run(&place, &["--export", "attacks"]);
    assert!(ran.code == 2 && ran.stderr.contains("cannot write the suite to attacks"), "{}", ran.shown());
}

#[test]
fn attacks_end_alike_in_each_version_of_the_contract() {
    let place = Place::new();
    // Those of the kinds whose types differ.
    let attacks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src/conformance/attacks");
    let suite = place.path().join("attacks");
    fs::create_dir(&suite).unwrap();
    for entry in fs::read_dir(&attacks).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if ["effect-", "coordinator-"].iter().any(|kind| name.starts_with(kind)) {
            fs::create_dir(suite.join(&name)).unwrap();
            for file in ["attack.toml", "guest.wat"] {
                fs::copy(attacks.join(&name).join(file), suite.join(&name).join(file)).unwrap();
            }
        }
    }
    let of_version = |version: &str| {
        let report = json(&run(&place, &["--suite", "attacks", "--output", "json"]));
        for row in report["attacks"].as_array().unwrap() {
            assert_eq!(row["status"], "passed", "{version}: {row:#}");
        }
        rows(&report)
    };
    let of_first = of_version("0.1.0");
    let mut rebuilt = 0;
    for entry in fs::read_dir(place.path().join("attacks")).unwrap() {
        let guest = entry.unwrap().path().join("guest.wat");
        let Ok(text) = fs::read_to_string(&guest) else { continue };
        fs::write(guest, text.replace("@0.1.0", "@0.2.0")).unwrap();
        rebuilt += usize::from(text.contains("@0.1.0"));
    }
    assert!(rebuilt > 30, "{rebuilt}");
    assert_eq!(of_version("0.2.0"), of_first);
}

#[test]
fn attack_report_names_escapes_and_unexpected_verdicts() {
    let place = Place::new();
    attack(&place, "a-polite-one", POLITE, "");
    attack(&place, "b-unexpected", &POLITE.replace("held", "trapped"), "");
    attack(&place, "c-escaped", &format!("{POLITE}wants = {{ files = \"write\" }}\n"), CUT);
    attack(
        &place,
        "d-forged",
        &POLITE.replace("nothing", "\\u001b[2J & <b>"),
        r#"(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
             (call $escaped))"#,
    );
    let ran = run(&place, &["--suite", "suite", "--output", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    let report = json(&ran);
    let expected = [
        ["a-polite-one", "held", "passed"],
        ["b-unexpected", "held", "unexpected"],
        ["c-escaped", "held", "escaped"],
        ["d-forged", "held", "escaped"],
    ];
    assert_eq!(rows(&report), expected.map(|row| row.map(str::to_owned)));
    assert_eq!(report["attacks"][2]["escapes"], serde_json::json!(["the attack changed `files/canary.txt`"]));
    assert_eq!(report["attacks"][3]["escapes"], serde_json::json!(["the attack reports that it succeeded"]));
    assert_eq!(report["counts"], serde_json::json!({"passed": 1, "unexpected": 1, "escaped": 2, "failed": 0}));

    let ran = run(&place, &["--suite", "suite"]);
    assert_eq!(ran.code, 1);
    for part in [
        "unexpected  held",
        "expected: trapped",
        "the attack changed `files/canary.txt`",
        "\\u{1b}[2J",
        "1 of 4 attacks",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.shown());
    }
    assert!(!ran.stdout.contains('\u{1b}'));

    let ran = run(&place, &["--suite", "suite", "--output", "junit"]);
    assert_eq!(ran.code, 1);
    let (mut cases, mut failures) = (Vec::new(), 0);
    let mut reader = quick_xml::Reader::from_str(&ran.stdout);
    loop {
        use quick_xml::events::Event;
        match reader.read_event().unwrap() {
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == "testcase" => {
                cases.push(tag.try_get_attribute("name").unwrap().unwrap().value.into_owned());
            }
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == "failure" => failures += 1,
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(cases[..4], ["a-polite-one", "b-unexpected", "c-escaped", "d-forged"]);
    assert!(failures >= 3 && cases.len() == 10, "{}", ran.shown());
    assert!(ran.stdout.contains("\\u{1b}[2J &amp; &lt;b&gt;"), "{}", ran.shown());
}

#[test]
fn resource_bomb_ends_its_attack_but_not_the_suite() {
    const LOOPS: &str = r#"(func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32)
        (result i32) (loop $for-ever (br $for-ever)) (unreachable))"#;
    let place = Place::new();
    attack(&place, "a-late-one", &format!("{POLITE}host = {{ seconds = 1 }}\n"), LOOPS);
    attack(&place, "b-polite-one", POLITE, "");
    attack(&place, "c-polite-one-alone", &format!("{POLITE}host = {{}}\n"), "");
    let refused = POLITE.replace("held\"", "refused\"\nhost = {}\nnames = \"threads\"");
    attack(&place, "d-named", &refused, "");
    attack(&place, "e-named-otherwise", &refused.replace("threads", "exceptions"), "");
    for name in ["d-named", "e-named-otherwise"] {
        fs::remove_file(place.path().join(format!("suite/{name}/guest.wat"))).unwrap();
        place.file(&format!("suite/{name}/component.wat"), "(component (core module (memory 1 1 shared)))");
    }
    let ran = run(&place, &["--suite", "suite", "--output", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    let report = json(&ran);
    let expected = [
        ["a-late-one", "-", "escaped"],
        ["b-polite-one", "held", "passed"],
        ["c-polite-one-alone", "held", "passed"],
        ["d-named", "refused", "passed"],
        ["e-named-otherwise", "refused", "unexpected"],
    ];
    assert_eq!(rows(&report), expected.map(|row| row.map(str::to_owned)));
    assert_eq!(report["attacks"][0]["escapes"], serde_json::json!(["the host took more than 1s"]));
    assert_eq!(report["attacks"][0]["host"]["duration_bound_ms"], 1000.0);
    assert!(report["attacks"][1]["host"].is_null());

    let ran = run(&place, &["--suite", "suite"]);
    for part in ["MEMORY", "the host took more than 1s", "expected: refused, with an error that names `exceptions`"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.shown());
    }
    let ran = run(&place, &["--suite", "suite", "--output", "junit"]);
    let bound = r#"<property name="host_growth_bound_bytes" value="268435456"/>"#;
    assert_eq!(ran.stdout.matches(bound).count(), 4, "{}", ran.shown());
}

#[test]
fn unreadable_attack_suite_is_a_usage_error() {
    let place = Place::new();
    attack(&place, "a", "tries = ", "");
    for (arguments, says) in [
        (&["--suite", "nowhere"][..], "cannot read the suite nowhere"),
        (&["--suite", "suite"], "cannot read the attack suite/a"),
        (&["--kind", "toll"], "unknown kind `toll`"),
        (&["--suite", "suite", "--kind", "tool"], "cannot read the attack suite/a"),
    ] {
        let ran = run(&place, arguments);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{says}: {}", ran.shown());
        let ran = run(&place, &[arguments, &["--output", "json"]].concat());
        assert_eq!((ran.code, json(&ran)["ok"].as_bool()), (2, Some(false)), "{says}");
    }
    attack(&place, "a", POLITE, "");
    let ran = run(&place, &["--suite", "suite", "--kind", "effect"]);
    assert!(ran.code == 2 && ran.stderr.contains("suite has no attack of this kind"), "{}", ran.shown());
}
