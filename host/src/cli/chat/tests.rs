//! The person's side of a chat, by keys alone, and what a terminal shows of it.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use shelly_terminal::{text_editor::CursorMotion, theme::Theme};

use super::{
    chat_input::ChatInput,
    chat_key::ChatKey,
    chat_rows::ChatStatus,
    chat_screen::ChatScreen,
    chat_state::{ChatAction, ChatState},
    completion::InputCompletion,
    input_history::InputHistory,
};
use crate::{
    chat::Usage,
    cli::live::{
        events_for_tests::{finished, started, text as said},
        terminal_for_tests::TestTerminal,
    },
    event::Event,
    limits,
    model::ReplyDelta,
};

fn state() -> ChatState {
    ChatState::new(ChatInput::new(InputHistory::default()))
}

fn text(text: &str) -> ChatKey {
    ChatKey::Text(text.into())
}

fn press(state: &mut ChatState, key: ChatKey) -> Option<ChatAction> {
    state.press(key, |_| None)
}

fn say(state: &mut ChatState, message: &str) -> Option<ChatAction> {
    press(state, text(message));
    press(state, ChatKey::Enter)
}

fn typed(state: &ChatState) -> &str {
    state.input().editor().text()
}

#[test]
fn enter_sends_and_a_backslash_adds_a_line() {
    let mut state = state();
    press(&mut state, text("one\\"));
    assert_eq!(press(&mut state, ChatKey::Enter), None);
    press(&mut state, text("two"));
    press(&mut state, ChatKey::NewLine);
    press(&mut state, text("three"));
    assert_eq!(press(&mut state, ChatKey::Enter), Some(ChatAction::Send("one\ntwo\nthree".into())));
    assert_eq!(typed(&state), "");
    assert_eq!(press(&mut state, ChatKey::Enter), Some(ChatAction::Send(String::new())), "to continue a run");
}

#[test]
fn messages_wait_in_order_while_the_agent_works() {
    let mut state = state();
    state.begin_work();
    for at in 0..limits::CHAT_QUEUE {
        assert_eq!(say(&mut state, &format!("m{at}")), None);
    }
    assert_eq!(say(&mut state, "one more"), None);
    assert!(typed(&state) == "one more" && state.hint().is_some(), "it stays in the input");
    assert_eq!(press(&mut state, ChatKey::EndOfInput), None);
    state.input().editor();
    assert_eq!(state.end_work().as_deref(), Some("m0"));
    state.begin_work();
    assert_eq!(press(&mut state, ChatKey::Escape), Some(ChatAction::Interrupt));
    state.take_back_queue("");
    assert!(typed(&state).starts_with("m1\nm2\n") && typed(&state).ends_with("one more"), "{}", typed(&state));
    assert_eq!(state.end_work(), None);
    let mut state = self::state();
    state.begin_work();
    for command in ["/quit", "/agents", "/message ada look here"] {
        assert_eq!(say(&mut state, command), Some(ChatAction::Execute(command.into())), "it does not wait");
    }
    assert_eq!(say(&mut state, "/compact"), None);
    assert_eq!(state.end_work().as_deref(), Some("/compact"));
}

#[test]
fn pair_of_keys_opens_the_editor() {
    let mut state = state();
    let end = || ChatKey::Move(CursorMotion::LineEnd);
    press(&mut state, text("draft"));
    assert_eq!(press(&mut state, end()), None);
    assert_eq!(press(&mut state, ChatKey::Prefix), None);
    assert_eq!(press(&mut state, ChatKey::Redraw), Some(ChatAction::Redraw));
    assert_eq!(press(&mut state, end()), Some(ChatAction::EditText));
    assert_eq!(press(&mut state, end()), None);
    press(&mut state, ChatKey::Prefix);
    press(&mut state, text("x"));
    assert_eq!((press(&mut state, end()), typed(&state)), (None, "draftx"), "another key ends the pair");
    state.ask("allow? ");
    press(&mut state, ChatKey::Prefix);
    assert_eq!(press(&mut state, end()), None, "an answer is typed here");
    assert_eq!(press(&mut state, ChatKey::ShowCalls), Some(ChatAction::ShowCalls));
    let mut state = self::state();
    press(&mut state, ChatKey::Prefix);
    state.ask("allow? ");
    assert_eq!((press(&mut state, end()), state.hint()), (None, None), "the question came between the two keys");
}

#[test]
fn sent_message_comes_back_before_those_that_wait() {
    let mut state = state();
    say(&mut state, "A");
    state.begin_work();
    say(&mut state, "B");
    press(&mut state, text("draft"));
    // The interruption itself takes the queue back; the end of the run says that the message was not begun.
    state.take_back_queue("");
    state.take_back_queue("A");
    assert_eq!(typed(&state), "A\nB\ndraft");
    assert_eq!(state.end_work(), None);
    state.restore("typed before");
    assert_eq!(typed(&state), "typed before\nA\nB\ndraft");
    state.take_back_queue(" ");
    assert_eq!(typed(&state), "typed before\nA\nB\ndraft");
}

#[test]
fn messages_that_are_too_long_together_stay_in_the_queue() {
    let mut state = state();
    state.begin_work();
    let long = "x".repeat(limits::CHAT_INPUT_BYTES - 1);
    for message in ["a", &*long, "b"] {
        say(&mut state, message);
    }
    state.take_back_queue("");
    assert_eq!((typed(&state), state.queue().len()), ("a", 2));
    assert!(state.hint().is_some_and(|hint| hint.starts_with("2 messages still wait")), "{:?}", state.hint());
    assert_eq!(state.end_work(), None, "the person decides");
    assert_eq!(press(&mut state, ChatKey::Enter), Some(ChatAction::Send("a".into())));
    state.begin_work();
    assert_eq!(state.end_work().map(|next| next.len()), Some(long.len()));
}

#[test]
fn edited_text_replaces_the_message_and_no_answer() {
    let mut state = state();
    press(&mut state, text("draft"));
    state.ask("allow? ");
    press(&mut state, text("y"));
    state.replace_text("edited");
    assert_eq!(typed(&state), "y");
    state.restore("sent");
    state.end_question();
    assert_eq!(typed(&state), "sent\nedited");
}

#[test]
fn question_keeps_the_draft_behind_a_browsed_message() {
    let mut state = state();
    say(&mut state, "before");
    press(&mut state, text("draft"));
    press(&mut state, ChatKey::Move(CursorMotion::Up));
    state.ask("allow? ");
    say(&mut state, "y");
    state.end_question();
    assert_eq!(typed(&state), "before");
    press(&mut state, ChatKey::Move(CursorMotion::Down));
    assert_eq!(typed(&state), "draft");
}

#[test]
fn search_goes_on_when_the_terminal_changes() {
    let mut state = state();
    say(&mut state, "build the docs");
    press(&mut state, text("draft"));
    press(&mut state, ChatKey::SearchHistory);
    press(&mut state, text("build"));
    assert_eq!(press(&mut state, ChatKey::Redraw), Some(ChatAction::Redraw));
    assert_eq!(press(&mut state, ChatKey::Focus(true)), None);
    assert_eq!(press(&mut state, ChatKey::ShowCalls), Some(ChatAction::ShowCalls));
    assert_eq!(state.input().search(), Some(("build", Some("build the docs"))));
    press(&mut state, ChatKey::Escape);
    assert_eq!(typed(&state), "draft");
}

#[test]
fn two_interruptions_at_idle_leave() {
    let mut state = state();
    press(&mut state, text("draft"));
    assert_eq!(press(&mut state, ChatKey::Interrupt), None);
    assert_eq!(typed(&state), "");
    press(&mut state, ChatKey::RestoreRemoved);
    assert_eq!(typed(&state), "draft");
    press(&mut state, ChatKey::Escape);
    assert_eq!(press(&mut state, ChatKey::Escape), None);
    assert_eq!(press(&mut state, text("x")), None, "another key stays");
    press(&mut state, ChatKey::Remove(CursorMotion::Left));
    assert_eq!(press(&mut state, ChatKey::Interrupt), None);
    assert_eq!(press(&mut state, ChatKey::Interrupt), Some(ChatAction::Quit));
    assert_eq!(press(&mut self::state(), ChatKey::EndOfInput), Some(ChatAction::Quit));
}

#[test]
fn answer_is_typed_apart_from_the_message() {
    let mut state = state();
    say(&mut state, "before");
    state.begin_work();
    press(&mut state, text("half a message"));
    state.ask("allow? [y]es: ");
    assert_eq!((typed(&state), state.prompt()), ("", Some("allow? [y]es:")));
    press(&mut state, ChatKey::Move(CursorMotion::Up));
    press(&mut state, ChatKey::SearchHistory);
    press(&mut state, ChatKey::Tab);
    assert_eq!(typed(&state), "", "the history is not part of an answer");
    assert_eq!(say(&mut state, "y"), Some(ChatAction::Answer("y".into())));
    assert_eq!(press(&mut state, ChatKey::Escape), Some(ChatAction::Interrupt));
    state.end_question();
    assert_eq!((typed(&state), state.prompt()), ("half a message", None));
    press(&mut state, ChatKey::Interrupt);
    state.end_work();
    press(&mut state, ChatKey::Remove(CursorMotion::LineStart));
    press(&mut state, ChatKey::Move(CursorMotion::Up));
    assert_eq!(typed(&state), "before", "an answer is not in the history");
}

#[test]
fn history_is_browsed_and_searched() {
    let mut state = state();
    for message in ["fix the build", "run\nthe tests", "build the docs"] {
        say(&mut state, message);
    }
    press(&mut state, text("draft"));
    let up = || ChatKey::Move(CursorMotion::Up);
    let down = || ChatKey::Move(CursorMotion::Down);
    press(&mut state, up());
    assert_eq!(typed(&state), "build the docs");
    press(&mut state, up());
    assert_eq!(typed(&state), "run\nthe tests");
    press(&mut state, up());
    assert_eq!(typed(&state), "run\nthe tests", "the cursor moves within the lines first");
    press(&mut state, up());
    assert_eq!(typed(&state), "fix the build");
    for _ in 0..9 {
        press(&mut state, down());
    }
    assert_eq!(typed(&state), "draft");
    press(&mut state, ChatKey::SearchHistory);
    press(&mut state, text("BUILD"));
    assert_eq!(state.input().search(), Some(("BUILD", Some("build the docs"))));
    press(&mut state, ChatKey::SearchHistory);
    assert_eq!(state.input().search(), Some(("BUILD", Some("fix the build"))));
    press(&mut state, ChatKey::SearchHistory);
    assert_eq!(state.input().search(), Some(("BUILD", Some("fix the build"))), "there is no older one");
    press(&mut state, ChatKey::Escape);
    assert_eq!(typed(&state), "draft");
    press(&mut state, ChatKey::SearchHistory);
    press(&mut state, text("tests"));
    press(&mut state, ChatKey::Enter);
    assert_eq!((typed(&state), state.input().search()), ("run\nthe tests", None), "Enter takes it and sends nothing");
}

#[test]
fn tab_inserts_what_the_completion_says() {
    let mut state = state();
    press(&mut state, text("see @sr"));
    let completion = |before: &str| {
        assert_eq!(before, "see @sr");
        Some(InputCompletion { replaced: 2, inserted: "src/".into(), proposals: vec!["src/a".into(), "src/b".into()] })
    };
    state.press(ChatKey::Tab, completion);
    assert_eq!((typed(&state), state.input().proposals().len()), ("see @src/", 2));
    press(&mut state, text("a"));
    assert!(state.input().proposals().is_empty());
}

#[test]
fn too_long_paste_is_refused_with_a_hint() {
    let mut state = state();
    press(&mut state, text(&"x".repeat(limits::CHAT_INPUT_BYTES)));
    press(&mut state, text("y"));
    assert_eq!(typed(&state).len(), limits::CHAT_INPUT_BYTES);
    assert!(state.hint().is_some_and(|hint| hint.contains("@path")));
}

fn screen_of(terminal: &TestTerminal) -> ChatScreen<TestTerminal> {
    ChatScreen::new(terminal.clone(), terminal.size(), Theme::plain(), false)
}

/// A text with which a model, a tool or a file could try to control the terminal.
const HOSTILE: &str = "\x1b]52;c;aGk=\x07\x1b[2J\u{9b}2J\u{202e}\rforged";

#[tokio::test(start_paused = true)]
async fn hostile_text_is_spelled_out_on_the_screen() {
    let terminal = TestTerminal::new(100, 40);
    let (mut screen, mut state) = (screen_of(&terminal), state());
    let agent: Arc<str> = HOSTILE.into();
    for event in [
        Event::RunStarted {
            agent: Arc::clone(&agent),
            configured: Arc::clone(&agent),
            parent_agent: None,
            parent_call: None,
            depth: 0,
            prefix: HOSTILE.into(),
            model: HOSTILE.into(),
            task: HOSTILE.into(),
        },
        Event::ToolStarted {
            agent: Arc::clone(&agent),
            call: "1".into(),
            tool: HOSTILE.into(),
            origin: HOSTILE.into(),
            arguments: HOSTILE.into(),
        },
        Event::ModelDelta {
            agent: Arc::clone(&agent),
            delta: ReplyDelta::Text(format!("{HOSTILE}\n\n```{HOSTILE}\n{HOSTILE}")),
        },
    ] {
        screen.show(&event, Some(HOSTILE.into()));
    }
    press(&mut state, text(HOSTILE));
    state.ask(HOSTILE);
    state.set_hint(HOSTILE.into());
    let status = ChatStatus {
        model: HOSTILE.into(),
        agent: HOSTILE.into(),
        session: Some(HOSTILE.into()),
        ..ChatStatus::default()
    };
    screen.draw(&state, &status, None);
    screen.print_plain(HOSTILE);
    screen.print_typed(HOSTILE);
    screen.print_markdown(HOSTILE);
    screen.draw(&state, &status, None);
    let text = terminal.lines().join("\n");
    assert!(text.contains("forged") && !text.lines().any(|line| line.starts_with("forged")), "{text}");
    screen.finish();
}

#[tokio::test(start_paused = true)]
async fn screen_shows_reply_queue_input_and_status() {
    let terminal = TestTerminal::new(60, 24);
    let (mut screen, mut state) = (screen_of(&terminal), state());
    screen.print_typed("What is 2 and 2?\nIn words.");
    state.begin_work();
    let agent: Arc<str> = "ada".into();
    let events = [
        Event::RunStarted {
            agent: Arc::clone(&agent),
            configured: Arc::clone(&agent),
            parent_agent: None,
            parent_call: None,
            depth: 0,
            prefix: "".into(),
            model: "m".into(),
            task: String::new(),
        },
        Event::ModelDelta { agent: Arc::clone(&agent), delta: ReplyDelta::Text("It is **fo".into()) },
    ];
    events.iter().for_each(|event| screen.show(event, None));
    say(&mut state, "And 3 and 3?");
    press(&mut state, text("draft"));
    let status = ChatStatus { model: "m".into(), agent: "ada".into(), ..ChatStatus::default() };
    screen.draw(&state, &status, Some(Duration::from_secs(7)));
    let lines = terminal.lines();
    assert_eq!(lines[..3], ["› What is 2 and 2?", "  In words.", "It is **fo"]);
    assert!(lines[3].ends_with("ada writing"), "{lines:?}");
    assert_eq!(lines[4..], ["waits: And 3 and 3?", "› draft", "7 s, Esc stops · m · ada · /help"]);
    screen.show(&Event::ModelDelta { agent: Arc::clone(&agent), delta: ReplyDelta::Text("ur**.".into()) }, None);
    let ended = Event::RunFinished {
        agent,
        error: None,
        iterations: 1,
        usage: Usage::default(),
        of_children: Usage::default(),
        duration: Duration::ZERO,
    };
    screen.show(&ended, None);
    screen.end_run();
    assert_eq!(state.end_work().as_deref(), Some("And 3 and 3?"));
    terminal.resize(30, 6);
    screen.draw(&state, &status, None);
    let lines = terminal.lines();
    assert!(lines.contains(&"It is **four**.".to_owned()), "{lines:?}");
    assert_eq!(lines[lines.len() - 2..], ["› draft", "m · ada · /help"]);
    screen.finish();
    assert!(!terminal.lines().contains(&"› draft".to_owned()), "the region has left the screen");
}

#[tokio::test(start_paused = true)]
async fn printed_text_is_broken_between_words() {
    let terminal = TestTerminal::new(24, 10);
    let (mut screen, state) = (screen_of(&terminal), state());
    screen.print("  /help  shows keys and commands\nwarning: this is rather long\n");
    screen.draw(&state, &ChatStatus::default(), None);
    let lines = terminal.lines();
    assert_eq!(lines[..4], ["  /help  shows keys and", "         commands", "warning: this is rather", "long"]);
}

#[tokio::test(start_paused = true)]
async fn focus_shows_one_agent_until_it_has_ended() {
    let terminal = TestTerminal::new(60, 24);
    let (mut screen, state) = (screen_of(&terminal), state());
    let worker: Arc<str> = "worker-1".into();
    screen.show(&started("lead", None, "m", ""), None);
    screen.show(&started("worker-1", Some("lead"), "m", "look"), None);
    screen.show(&said("worker-1", &format!("I look {HOSTILE} and **fo")), None);
    screen.draw(&state, &ChatStatus::default(), None);
    let shown = terminal.lines();
    assert!(shown[0].ends_with("lead starting") && shown[1].ends_with("worker-1 writing · look"), "{shown:?}");
    assert_eq!(screen.focus_on(Some(&worker)), None);
    screen.show(&said("worker-1", "und**"), None);
    screen.draw(&state, &ChatStatus::default(), None);
    let shown = terminal.lines();
    let text = shown.join("\n");
    assert!(shown[0].ends_with("worker-1 writing · look") && shown[1].starts_with("  I look"), "{text}");
    assert!(text.contains("**found**\n/focus shows all agents again\n") && !text.contains("lead starting"), "{text}");
    screen.show(&finished("worker-1", None), None);
    screen.draw(&state, &ChatStatus::default(), None);
    let text = terminal.lines().join("\n");
    assert!(text.contains("lead starting") && !text.contains("/focus") && !text.contains("found"), "{text}");
    assert_eq!(screen.focus_on(None), None);
}

#[derive(Debug, Clone)]
enum ChatStep {
    Key(ChatKey),
    Begin,
    End,
    Ask,
    EndQuestion,
    TakeBack,
    Resize(u16, u16),
    Delta(String),
}

fn any_key() -> impl Strategy<Value = ChatKey> {
    use CursorMotion::{Down, Left, LineEnd, LineStart, Right, Up, WordLeft, WordRight};
    let motion = || prop::sample::select(vec![Left, Right, WordLeft, WordRight, LineStart, LineEnd, Up, Down]);
    let texts = vec!["a", "word ", "\n", "\\", "/qu", "@a", "日本", "e\u{301}", HOSTILE];
    prop_oneof![
        6 => prop::sample::select(texts).prop_map(text),
        3 => motion().prop_map(ChatKey::Move),
        2 => motion().prop_map(ChatKey::Remove),
        4 => prop::sample::select(vec![
            ChatKey::Enter, ChatKey::NewLine, ChatKey::Tab, ChatKey::Escape, ChatKey::Interrupt, ChatKey::EndOfInput,
            ChatKey::RestoreRemoved, ChatKey::SearchHistory, ChatKey::Redraw, ChatKey::ShowCalls, ChatKey::Prefix,
            ChatKey::Focus(true),
        ]),
    ]
}

fn any_step() -> impl Strategy<Value = ChatStep> {
    prop_oneof![
        12 => any_key().prop_map(ChatStep::Key),
        1 => Just(ChatStep::Begin),
        1 => Just(ChatStep::End),
        1 => Just(ChatStep::Ask),
        1 => Just(ChatStep::EndQuestion),
        1 => Just(ChatStep::TakeBack),
        1 => (1..90_u16, 1..30_u16).prop_map(|(columns, rows)| ChatStep::Resize(columns, rows)),
        1 => prop::sample::select(vec!["# a\n", "text ", HOSTILE]).prop_map(|text| ChatStep::Delta(text.into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_keys_keep_messages_and_the_screen_whole(steps in prop::collection::vec(any_step(), 0..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let terminal = TestTerminal::new(40, 12);
        let (mut screen, mut state) = (screen_of(&terminal), state());
        let agent: Arc<str> = "ada".into();
        for step in steps {
            match step {
                ChatStep::Key(key) => {
                    let (was_working, had_prompt) = (state.is_working(), state.prompt().is_some());
                    let complete = |before: &str| {
                        let replaced = before.chars().next_back().map_or(0, char::len_utf8);
                        Some(InputCompletion { replaced, inserted: "x".into(), proposals: vec![HOSTILE.into()] })
                    };
                    match state.press(key, complete) {
                        Some(ChatAction::Send(_)) => prop_assert!(!was_working && !had_prompt),
                        Some(ChatAction::Answer(_)) => prop_assert!(had_prompt),
                        Some(ChatAction::Interrupt) => prop_assert!(was_working || had_prompt),
                        Some(ChatAction::Execute(_)) => prop_assert!(was_working && !had_prompt),
                        Some(ChatAction::EditText) => prop_assert!(!had_prompt),
                        Some(ChatAction::Redraw) => screen.erase(),
                        Some(ChatAction::Quit | ChatAction::ShowCalls) | None => {}
                    }
                }
                ChatStep::Begin => state.begin_work(),
                ChatStep::End => drop(state.end_work()),
                ChatStep::Ask => state.ask("allow? "),
                ChatStep::EndQuestion => state.end_question(),
                ChatStep::TakeBack => state.take_back_queue(""),
                ChatStep::Resize(columns, rows) => terminal.resize(columns, rows),
                ChatStep::Delta(text) => {
                    let delta = ReplyDelta::Text(text);
                    screen.show(&Event::ModelDelta { agent: Arc::clone(&agent), delta }, None);
                }
            }
            prop_assert!(state.queue().len() <= limits::CHAT_QUEUE);
            screen.draw(&state, &ChatStatus::default(), None);
        }
        screen.finish();
    }
}
