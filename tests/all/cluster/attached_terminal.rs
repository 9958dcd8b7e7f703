//! `attach` at a real terminal.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::json;

use super::{ClusterProject, WorkerProcess, delegation::wait_for_requests};
use crate::{
    chat::terminal::ChatTerminal,
    serve::{ModelServer, ReplyGate, calls, says},
    terminal::typing_at,
};

/// The end of a question with options, on one line of a wide terminal.
const PROMPT: &str = "an empty line declines:";

/// Starts `attach` with these arguments at a terminal.
fn attach(project: &ClusterProject, arguments: &[&str]) -> ChatTerminal {
    ChatTerminal::start(&project.place, &[&["attach", "--config", "shelly.yaml"], arguments].concat())
}

#[test]
fn attached_terminal_answers_and_leaves_the_run() {
    let (gate, answered) = (ReplyGate::default(), Arc::new(AtomicUsize::new(0)));
    let model = ModelServer::start({
        let (gate, answered) = (gate.clone(), Arc::clone(&answered));
        let asks = json!({"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]});
        move |asked| match (asked.contains("\"tool\""), asked.contains("use green")) {
            (false, _) => calls("ask_user", &asks),
            (true, false) => {
                answered.fetch_add(1, Ordering::SeqCst);
                gate.wait();
                says(if asked.contains("blue") && asked.contains("chosen") { "Blue it is." } else { "What?" })
            }
            (true, true) => says("Green it is."),
        }
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    project.submit("paint", &["Paint it."]);
    let mut first = attach(&project, &["paint"]);
    first.wait_for("queued");
    // What is typed before a question is shown is no answer to it.
    first.say("1");
    let _worker = WorkerProcess::start(&project.place, &[]);
    let text = first.wait_for(PROMPT);
    for line in ["at work on ", "helper run started", "helper question asked", "Which colour?", "  1. red", "  2. blue"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    first.press("\x03");
    let (code, text, _) = first.end();
    assert!(code != 0 && !text.contains("question answered"), "{text}");
    // Whoever leaves, the run and its question stay.
    project.wait_until("paint", "running");
    let mut second = attach(&project, &["paint"]);
    let text = second.wait_for(PROMPT);
    assert!(text.contains("helper run started"), "what was recorded is shown: {text}");
    second.say("2");
    second.wait_for("helper question answered");
    wait_for_requests(&answered, 1);
    let (code, text, _) = attach(&project, &["--message", "use green", "paint"]).end();
    assert!(code == 0 && text.contains("the message is given"), "{text}");
    gate.open();
    let (code, text, _) = second.end();
    assert!(code == 0 && text.contains("helper run finished") && text.ends_with("Green it is."), "{text}");

    project.submit("other", &["Paint it."]);
    let watched = attach(&project, &["other"]);
    watched.wait_for(PROMPT);
    let (code, text, _) = attach(&project, &["--cancel", "other"]).end();
    assert!(code == 0 && text.contains("its worker is told to cancel it"), "{text}");
    let (code, text, _) = watched.end();
    assert!(code == 1 && text.contains("the run `other` was cancelled"), "{text}");
}

#[test]
fn attached_terminal_shows_hostile_text_harmlessly() {
    // Clears the screen, sets the title, turns text around, and rings.
    let hostile = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}";
    let model = ModelServer::start(move |asked| match asked.contains("\"tool\"") {
        false => {
            let options = json!([{"label": format!("red{hostile}")}, {"label": "blue"}]);
            calls("ask_user", &json!({"question": format!("Which colour{hostile} of all?"), "options": options}))
        }
        true => says(&format!("Blue{hostile} it is.")),
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    project.submit("paint", &["Paint it."]);
    let _worker = WorkerProcess::start(&project.place, &[]);
    project.wait_until("paint", "running");
    let state = project.place.trust_store().parent().and_then(|own| own.parent()).unwrap().to_owned();
    let variables = [("XDG_STATE_HOME", state.to_str().unwrap())];
    // The last word of the prompt, which a narrow terminal breaks.
    let typing = Some(("declines:", "2\n"));
    let ran = typing_at(&project.place, 40, &variables, "shelly-host attach --config shelly.yaml paint", typing);
    let (text, bytes) = (ran.lines.join("\n"), String::from_utf8_lossy(&ran.bytes).into_owned());
    assert_eq!(ran.code, 0, "{text}");
    for acts in ["\u{1b}[2J", "\u{1b}]0;", "\u{7}", "\u{202e}"] {
        assert!(!bytes.contains(acts), "{}: {}", acts.escape_unicode(), bytes.escape_debug());
    }
    let joined = ran.lines.concat();
    for shown in ["\\u{1b}[2J", "\\u{202e}", "2. blue", "question answered", "it is."] {
        assert!(joined.contains(shown), "{shown}: {text}");
    }
    assert!(ran.lines.iter().any(|line| line == "  2. blue"), "each option has a line: {text}");
}
