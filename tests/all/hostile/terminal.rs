//! Terminal output about a hostile plugin: no byte of the plugin moves the cursor, sets the title or reverses the text.

use super::guest::{self, Guest, Spec};
use crate::support::{Place, Ran};

/// Sets the window's title, clears the screen, writes to the clipboard; in 7 and 8 bits; and text that runs backwards.
const ESCAPES: &str = "\x1b]0;owned\x07\x1b[2J\x1b]52;c;aGk=\x07\r\u{8}\u{9b}31m\u{202e}txt.exe\u{2066}";

fn assert_harmless(ran: &Ran, what: &str) {
    for (name, stream) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        let bad = stream
            .chars()
            .find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || ('\u{202a}'..='\u{2069}').contains(c));
        assert_eq!(bad, None, "{what}: {name}: {stream:?}");
    }
}

/// A model that calls the tool and then answers, whatever the task.
fn calling(tool: &str) -> Guest {
    let mut guest = Guest::of(&["provider"]);
    let (id, name, arguments) = (guest.image().text("c"), guest.image().text(tool), guest.image().text(super::ATTACK));
    let [parts, count] = guest.image().list(9, &[[&[3][..], &id, &name, &arguments].concat()]);
    let mut words = vec![0; 20];
    (words[2], words[3], words[4]) = (parts, count, 1);
    let call = guest.image().words(&words);
    // The request lies behind the model's name: pointer and length of its messages are its first words.
    guest.on(
        "complete",
        &format!("(if (i32.lt_u (i32.load offset=12 (local.get 0)) (i32.const 3)) (then (return (i32.const {call}))))"),
    )
}

fn place(guest: &Guest, model: &Guest) -> Place {
    let place = Place::new();
    place.plugin_bytes("hostile", "kinds = [\"tool\"]", &guest.component());
    place.plugin_bytes("model", "kinds = [\"provider\"]", &model.component());
    place
}

fn run(place: &Place, more: &[&str]) -> Ran {
    let run = ["run", "--plugins", "plugins", "--model", "model", "--verbose", "go"];
    place.run(&[&run[..], more].concat())
}

#[test]
fn plugin_output_in_a_run_is_escaped_on_the_terminal() {
    let mut log = Guest::tool().import(guest::LOG).import(guest::PROGRESS);
    let text = log.text(ESCAPES);
    let log = log.attack(&format!(
        "(call $log (i32.const 3) {text})
         (call $progress (f64.const 1) (i32.const 0) (f64.const 0) (i32.const 1) {text})"
    ));
    let failure = Guest::tool().attack_with(|image| {
        let text = image.text(ESCAPES);
        image.failure(0, text)
    });
    for (guest, model, code, shows) in [
        (log, calling("t"), 0, "hostile error: \\u{1b}]0;owned"),
        (failure, calling("t"), 0, "t failed"),
        (Guest::tool(), calling(ESCAPES), 0, "\\u{1b}]0;owned"),
        (
            Guest::tool(),
            Guest::of(&["provider"]).answer("complete", |image| {
                let text = image.text(ESCAPES);
                image.failure(8, text)
            }),
            4,
            "cause: \\u{1b}]0;owned",
        ),
    ] {
        let ran = run(&place(&guest, &model), &[]);
        assert_eq!(ran.code, code, "{}", ran.shown());
        assert!(ran.stderr.contains(shows), "{shows}: {}", ran.stderr);
        assert_harmless(&ran, shows);
        // JSON escapes control characters by itself.
        let ran = run(&place(&guest, &model), &["--output", "events"]);
        assert!(ran.stdout.contains("\\u001b]0;owned") || ran.stdout.contains("\"t\""), "{}", ran.stdout);
        assert!(!ran.stdout.contains(|c: char| c.is_ascii_control() && c != '\n'));
    }
}

#[test]
fn plugin_names_and_descriptions_are_escaped() {
    let json = serde_json::json!(ESCAPES).to_string();
    let property = format!(
        "{{\"type\":\"object\",\"properties\":{{{json}:{{\"type\":{json},\"description\":{json}}}}},\"required\":[{json}]}}"
    );
    let described = Spec { description: ESCAPES.into(), schema: property, ..Spec::default() };
    let named = Spec { name: ESCAPES.into(), ..Spec::default() };
    let toml = format!("kinds = [\"tool\"]\ndescription = {}\n", json.replace('\u{9b}', "\\u009b"));
    for (spec, code) in [(described, 3), (named, 3)] {
        let place = Place::new();
        let component = Guest::tool().answer("specs", |image| image.specs(&[spec])).component();
        place.plugin_bytes("hostile", &toml, &component);
        // Names of folders and files are not ours either.
        place.file(&format!("plugins/{}/plugin.toml", ESCAPES.replace('/', "")), "nonsense");
        let file = place.file(&format!("other/{}.wasm", ESCAPES.replace('/', "")), &component);
        let file = file.to_str().unwrap();
        for arguments in [
            &["plugin", "inspect", "plugins/hostile"][..],
            &["plugin", "inspect", file],
            &["plugin", "list", "--plugins", "plugins"],
        ] {
            let ran = place.run(arguments);
            let code = if arguments[1] == "list" { 3 } else { code };
            assert_eq!(ran.code, code, "{}", ran.shown());
            assert_harmless(&ran, arguments[1]);
            let told = ran.stdout.clone() + &ran.stderr;
            assert!(told.contains("\\u{1b}") || told.contains("U+001B"), "{}", ran.shown());
        }
    }
}

#[test]
fn plugin_log_flood_is_shown_in_bounded_output() {
    let mut guest = Guest::tool().import(guest::LOG);
    let text = guest.text(&"x".repeat(500));
    let guest = guest.attack(&guest::times(100_000, &format!("(call $log (i32.const 3) {text})")));
    let ran = run(&place(&guest, &calling("t")), &[]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.stderr.contains("99000 more log entries were dropped"));
    assert!(ran.stderr.len() < 1 << 20, "{} bytes", ran.stderr.len());
}

#[test]
fn unloadable_plugins_are_left_out_and_the_run_continues() {
    let place = place(&Guest::tool(), &Guest::of(&["provider"]));
    for (id, component) in [("bad", b"\0asm".to_vec()), ("cut", Guest::tool().component()[..200].to_vec())] {
        place.plugin_bytes(id, "kinds = [\"tool\"]", &component);
    }
    let ran = run(&place, &[]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "ok"), "{}", ran.shown());
    for id in ["bad", "cut"] {
        assert!(ran.stderr.contains(&format!("ignoring plugin `{id}`")), "{}", ran.stderr);
    }
}

#[test]
fn streamed_text_that_differs_from_the_reply_is_warned_of() {
    for (streamed, differs) in [("ok", false), ("o", false), ("false words", true), ("ok and more", true)] {
        let mut model = Guest::of(&["provider"]).import(guest::SINK);
        let [at, bytes] = model.image().text(streamed);
        let emit =
            format!("(call $emit (i32.const 0) (i64.const {at}) (i64.const {bytes}) (i64.const 0) (i64.const 0))");
        let place = place(&Guest::tool(), &model.on("complete", &emit));
        let says = "the model `model` of plugin `model` streamed text to agent `assistant` that its final reply does \
                    not have; using the final reply";
        let ran = run(&place, &[]);
        assert_eq!((ran.code, &*ran.stdout), (0, "ok\n"), "{}", ran.shown());
        assert_eq!(ran.stderr.contains(says), differs, "{streamed}: {}", ran.stderr);
        let ran = run(&place, &["--output", "events"]);
        assert!(ran.stdout.contains(streamed) && ran.stdout.contains("\"answer\":\"ok\""), "{}", ran.stdout);
        assert_eq!(ran.stdout.contains(&format!("\"warning\",\"message\":\"{says}")), differs, "{}", ran.stdout);
    }
}
