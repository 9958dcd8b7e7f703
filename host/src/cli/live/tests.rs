//! The display as a terminal shows it.

use std::time::Duration;

use shelly_terminal::theme::Theme;

use super::{
    events_for_tests::{call_finished, call_started, finished, message, reply_failed, started, text},
    live_display::LiveDisplay,
    plain_reply::PlainReply,
    run_lines::{amount_in_words, time_in_words},
    terminal_for_tests::TestTerminal,
};
use crate::{
    cli::secrets,
    event::{Event, FileChangeKind},
    session::Secrets,
};

fn display(terminal: &TestTerminal, shows_answer: bool) -> LiveDisplay<TestTerminal> {
    LiveDisplay::new(terminal.clone(), terminal.size(), Theme::plain(), shows_answer)
}

#[tokio::test(start_paused = true)]
async fn answer_is_shown_as_it_is_written() {
    let terminal = TestTerminal::new(40, 24);
    let mut display = display(&terminal, true);
    for event in [started("ada", None, "m", ""), text("ada", "# Sum\n\nTwo and "), text("ada", "two make **fo")] {
        display.show(&event, None);
    }
    display.draw();
    let lines = terminal.lines();
    assert_eq!(lines[..2], ["# Sum", "Two and two make **fo"]);
    assert!(lines[2].ends_with("ada writing") && lines[3].starts_with("0 turns"), "{lines:?}");
    display.show(&text("ada", "ur**."), None);
    display.show(&message("ada", "# Sum\n\nTwo and two make **four**."), None);
    display.show(&finished("ada", None), None);
    assert_eq!(display.finish().as_deref(), Some("# Sum\n\nTwo and two make **four**."));
    assert_eq!(terminal.lines(), ["# Sum", "Two and two make **four**."], "the region has left the screen");
}

#[tokio::test(start_paused = true)]
async fn call_moves_from_the_region_to_the_lines_above() {
    let terminal = TestTerminal::new(80, 24);
    let mut display = display(&terminal, true);
    display.show(&started("ada", None, "m", ""), None);
    display.show(&call_started("ada", "1", r#"{"path":"a\u001b[2J"}"#), None);
    tokio::time::advance(Duration::from_secs(65)).await;
    display.draw();
    let lines = terminal.lines();
    assert!(lines[0].ends_with("ada calling a tool 1 min 05 s"), "{lines:?}");
    assert_eq!(lines[1], "  · read a\\u{1b}[2J 1 min 05 s");
    display.show(&call_finished("ada", "1", Some("no such file\nerror: forged")), None);
    display.draw();
    let lines = terminal.lines();
    assert_eq!(lines[0], "✗ read a\\u{1b}[2J (20 ms): no such file");
    assert!(!lines.iter().any(|line| line.contains("forged")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn change_of_a_file_looks_like_a_call() {
    let terminal = TestTerminal::new(80, 24);
    let mut display = display(&terminal, true);
    let here = std::env::current_dir().unwrap().join("docs/notes.txt");
    let change = |agent: &str, path: &str, added, removed| Event::FileChange {
        agent: agent.into(),
        call: "1".into(),
        tool: "fs_write".into(),
        act: FileChangeKind::Create,
        path: path.into(),
        to: None,
        added,
        removed,
        by: None,
        difference: None,
    };
    display.show(&started("ada", None, "m", ""), None);
    display.show(&change("ada", here.to_str().unwrap(), Some(3), Some(0)), None);
    display.show(&change("bob", "a\x1b[2J", None, None), None);
    display.finish();
    assert_eq!(terminal.lines(), ["✓ create docs/notes.txt +3 -0", "✓ bob: create a\\u{1b}[2J"]);
}

#[tokio::test(start_paused = true)]
async fn reply_with_a_credential_is_shown_once() {
    secrets::hide(Secrets::new([("LIVE_KEY", "sk-live-display-12345")]));
    let (said, shown) = ("The key is sk-live-display-12345.", "The key is [secret LIVE_KEY].");
    let terminal = TestTerminal::new(80, 24);
    let mut display = display(&terminal, true);
    for event in [started("ada", None, "m", ""), text("ada", shown), message("ada", said), finished("ada", None)] {
        display.show(&event, None);
    }
    assert_eq!(display.finish().as_deref(), Some(said), "the caller need not print it again");
    assert_eq!(terminal.lines(), [shown]);
    for events in [&[text("ada", shown), message("ada", said)][..], &[message("ada", said)]] {
        let mut output = Vec::new();
        let mut reply = PlainReply::new(&mut output);
        events.iter().for_each(|event| reply.show(event));
        assert_eq!(reply.finish().as_deref(), Some(said));
        assert_eq!(String::from_utf8(output).unwrap(), format!("{shown}\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn members_of_a_team_reply_under_their_names() {
    let terminal = TestTerminal::new(80, 24);
    let mut display = display(&terminal, true);
    for event in [
        started("team", None, "", ""),
        started("team/ann", Some("team"), "m", ""),
        started("team/ann/deep", Some("team/ann"), "m", ""),
        message("team/ann/deep", "Not for the person."),
        finished("team/ann/deep", Some("no answer")),
        message("team/ann", "Mine."),
        finished("team/ann", None),
    ] {
        display.show(&event, None);
    }
    assert_eq!(display.finish().as_deref(), Some("Mine."));
    let lines = terminal.lines();
    assert_eq!(
        lines,
        ["✗ team/ann/deep (1.5 s): no answer", "team/ann", "Mine.", "✓ team/ann: 2 turns, 0 calls (1.5 s)"]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_drawn_while_a_question_is_asked() {
    let terminal = TestTerminal::new(80, 24);
    let mut display = display(&terminal, true);
    display.show(&started("ada", None, "m", ""), None);
    display.draw();
    assert!(!terminal.lines().is_empty() && display.next_drawing().is_some());
    display.suspend();
    assert!(terminal.lines().is_empty() && display.next_drawing().is_none());
    display.show(&text("ada", "Yes"), None);
    display.draw();
    assert!(terminal.lines().is_empty());
    display.resume();
    assert_eq!(terminal.lines()[0], "Yes");
}

#[tokio::test(start_paused = true)]
async fn void_reply_is_followed_by_the_next_one() {
    let terminal = TestTerminal::new(80, 24);
    let mut display = display(&terminal, true);
    for (event, line) in [
        (started("ada", None, "m", ""), None),
        (text("ada", "Fo"), None),
        (reply_failed("ada"), Some("m failed: cut; retrying".to_owned())),
        (text("ada", "Four."), None),
        (message("ada", "Four."), None),
    ] {
        display.show(&event, line);
    }
    assert_eq!(display.finish().as_deref(), Some("Four."));
    assert_eq!(terminal.lines(), ["Fo", "m failed: cut; retrying", "Four."]);
}

#[tokio::test(start_paused = true)]
async fn answer_for_another_stream_is_not_shown() {
    let terminal = TestTerminal::new(80, 24);
    let mut display = display(&terminal, false);
    for event in [started("ada", None, "m", ""), text("ada", "Four."), message("ada", "Four."), finished("ada", None)] {
        display.show(&event, None);
        display.draw();
        assert!(!terminal.lines().iter().any(|line| line.contains("Four")));
    }
    assert_eq!(display.finish(), None);
    assert!(terminal.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn narrow_terminal_cuts_the_region() {
    for columns in [1, 2, 7, 20] {
        let terminal = TestTerminal::new(columns, 24);
        let mut display = display(&terminal, true);
        display.show(&started("日本語の名前", None, "m", ""), None);
        display.show(&call_started("日本語の名前", "1", "{\"path\":\"docs\"}"), None);
        display.show(&text("日本語の名前", "Ein langes Wort: Donaudampfschifffahrt\n\n"), None);
        display.draw();
        display.finish();
    }
}

#[test]
fn times_and_amounts_are_short() {
    for (seconds, words) in [(0.016, "16 ms"), (3.21, "3.2 s"), (65.0, "1 min 05 s")] {
        assert_eq!(time_in_words(Duration::from_secs_f64(seconds)), words);
    }
    for (amount, words) in [(950, "950"), (4_210, "4.2k"), (42_100, "42k"), (1_340_000, "1.3M")] {
        assert_eq!(amount_in_words(amount), words);
    }
}
