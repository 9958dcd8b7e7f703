//! The cases of replies: the outcome of a reply, and of one during which the server, the network or the watcher fails.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use shelly_host::{
    chat::{Part, ToolSpec},
    error::Fault,
    event::RunCx,
    limits,
    model::{DeltaSink, DeltaTarget, ReplyDelta, StopReason, Usage},
};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

use super::{
    Heard, Item, KEY, Piece, Said, Setup, Vendor, ask, ask_with, call, comparable, comparable_usage, question,
    read_all,
    server::{Answer, Server},
    text, thinking, tool,
};

/// Longer than anything here takes, so that a test that waits for ever ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// One test for each case of the contract.
macro_rules! keeps_the_contract {
    ($vendor:ty) => {
        $crate::providers::contract::tests! { $vendor:
            contract::what_is_said_is_heard
            contract::where_a_stream_is_split_does_not_matter
            contract::a_cut_never_passes_for_a_reply
            contract::what_is_no_reply_is_a_fault
            contract::events_that_nobody_knows_are_passed_over
            contract::the_reason_to_stop_is_translated
            contract::counts_of_tokens_do_not_overlap
            contract::calls_that_nobody_can_answer_are_handed_on
            contract::a_reply_without_end_is_stopped
            contract::an_error_of_the_server_has_its_case_and_shows_no_key
            contract::an_error_in_the_middle_of_a_stream_ends_it
            contract::what_may_pass_is_tried_again_and_what_will_not_pass_is_not
            contract::the_pause_that_a_server_asks_for_is_kept
            contract::whoever_goes_away_hangs_up
            contract::silence_and_slowness_are_bounded
            contract::many_at_once_do_not_mix
            contract::a_name_that_the_vendor_refuses_goes_there_and_back
            requests::a_conversation_goes_out
            requests::the_key_goes_out_once
            requests::tools_are_offered_as_asked
            requests::what_a_chat_may_hold_is_never_refused
            requests::the_same_chat_is_the_same_bytes
        }
    };
}
macro_rules! tests {
    ($vendor:ty: $($module:ident::$case:ident)*) => {
        $(#[tokio::test]
        async fn $case() {
            $crate::providers::$module::$case::<$vendor>().await;
        })*
    };
}
pub(super) use {keeps_the_contract, tests};

/// A reply with everything.
fn said() -> Said {
    Said::of([
        thinking("Hm. Grüße sind höflich."),
        text("Let me see, 世界 🌍:"),
        call("c1", "read", r#"{"path":"a.txt"}"#),
        call("c2", "list", r#"{"path":"ä }\" b","n":[1,{"x":null}]}"#),
    ])
}

#[track_caller]
fn check<V: Vendor>(heard: &Heard, said: &Said, case: &str) {
    let expected: Vec<_> = said.pieces.iter().cloned().map(comparable::<V>).collect();
    assert_eq!(heard.pieces::<V>(), expected, "{case}");
    let (completion, usage) = (heard.result.as_ref().unwrap(), comparable_usage::<V>(said.usage));
    assert_eq!((&completion.stop, completion.usage), (&said.stop, usage), "{case}");
    assert_eq!(completion.model, said.model, "{case}");
    let (mut texts, mut thoughts) = (String::new(), String::new());
    for part in &completion.parts {
        match part {
            Part::Text(text) => texts.push_str(text),
            Part::Thinking(thought) => thoughts.push_str(&thought.text),
            _ => {}
        }
    }
    assert_eq!(heard.told(), (texts, thoughts), "{case}: what a watcher saw is what counts");
    let names =
        heard.deltas.iter().filter_map(|delta| if let ReplyDelta::ToolCall(name) = delta { Some(name) } else { None });
    let called =
        said.pieces.iter().filter_map(|piece| if let Piece::Call { name, .. } = piece { Some(name) } else { None });
    assert!(names.eq(called), "{case}: {:?}", heard.deltas);
    let counted = heard
        .deltas
        .iter()
        .rev()
        .find_map(|delta| if let ReplyDelta::Usage(usage) = delta { Some(*usage) } else { None });
    assert_eq!(counted.unwrap_or_default(), usage, "{case}");
}

pub async fn what_is_said_is_heard<V: Vendor>() {
    for said in [
        said(),
        Said::of([text("Four.")]),
        Said::of([call("c1", "read", r#"{"path":"a"}"#)]),
        Said::of([text("Both:"), call("c1", "read", "{}"), call("c2", "read", "{}"), call("c3", "list", "{}")]),
    ] {
        check::<V>(&read_all::<V>(V::stream(&said)).await, &said, "streamed");
        check::<V>(&read_all::<V>(V::whole(&said)).await, &said, "in one piece");
    }
    let server = Server::start(|_, _| Answer::stream(V::stream(&said()))).await;
    check::<V>(&ask::<V>(&server, &question("Hi")).await, &said(), "over HTTP");
    // Some servers send plain JSON where a stream was asked for.
    let server = Server::start(|_, _| Answer::json(V::whole(&said()))).await;
    check::<V>(&ask::<V>(&server, &question("Hi")).await, &said(), "over HTTP, in one piece");
}

pub async fn where_a_stream_is_split_does_not_matter<V: Vendor>() {
    let stream = V::stream(&said()).into_bytes();
    let whole = read_all::<V>(stream.clone()).await;
    for at in 0..stream.len() {
        let (start, end) = stream.split_at(at);
        assert_eq!(V::read(vec![start.into(), end.into()], &[]).await, whole, "split at {at}");
    }
    assert_eq!(V::read(stream.iter().map(|byte| vec![*byte]).collect(), &[]).await, whole);
    let crlf = String::from_utf8(stream).unwrap().replace('\n', "\r\n");
    assert_eq!(read_all::<V>(crlf).await, whole);
}

pub async fn a_cut_never_passes_for_a_reply<V: Vendor>() {
    let stream = V::stream(&said());
    let whole = read_all::<V>(stream.clone()).await.result.unwrap();
    let mut cuts = 0;
    for at in 0..stream.len() {
        match read_all::<V>(&stream.as_bytes()[..at]).await.result {
            // After the end was announced only usage can be missing.
            Ok(completion) => {
                assert_eq!((completion.parts, completion.stop), (whole.parts.clone(), whole.stop.clone()), "at {at}");
            }
            Err(Fault::Unavailable { .. }) => cuts = at,
            Err(other) => panic!("cut at {at}: {other:?}"),
        }
    }
    assert!(cuts > stream.len() / 2, "the end is announced at the end, not at {cuts}");
    let json = V::whole(&said());
    for at in 0..json.trim_end().len() {
        let cut = read_all::<V>(&json.as_bytes()[..at]).await.result;
        assert!(matches!(cut, Err(Fault::Unavailable { .. })), "cut at {at}: {cut:?}");
    }
    // The same over HTTP, where the connection ends.
    let half = stream.len() / 2;
    let server = Server::start(move |_, _| Answer::stream(&stream.as_bytes()[..half])).await;
    let heard = ask::<V>(&server, &question("Hi")).await;
    assert!(matches!(heard.result, Err(Fault::Unavailable { .. })), "{heard:?}");
    assert_eq!(server.seen().len(), 1, "what was said in part is not asked for again");
}

pub async fn what_is_no_reply_is_a_fault<V: Vendor>() {
    let event = |data: &str| format!("{}{data}{}", V::EVENT.0, V::EVENT.1);
    for garbled in ["", " \n\n", &event("{"), &event(KEY), &event("7"), "{}", "[]", "[[[]]]"] {
        let fault = read_all::<V>(garbled).await.result.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{garbled}: {fault:?}");
        assert!(!format!("{fault:?} {fault}").contains(KEY), "{fault:?}");
    }
    assert!(matches!(read_all::<V>("<html></html>").await.result, Err(Fault::Other { .. })));
    let nested = event(&"[".repeat(100_000));
    assert!(matches!(read_all::<V>(nested).await.result, Err(Fault::Unavailable { .. })));
}

pub async fn events_that_nobody_knows_are_passed_over<V: Vendor>() {
    let stream = V::stream(&said());
    let (first, rest) = stream.split_once(V::EVENT.1).unwrap();
    let ([before, behind], end) = (V::BESIDE, V::EVENT.1);
    let with = format!("{first}{end}{before}{end}{}{end}{behind}{end}{rest}", V::unknown().trim_end());
    assert_eq!(read_all::<V>(with).await, read_all::<V>(stream).await);
}

pub async fn the_reason_to_stop_is_translated<V: Vendor>() {
    for stop in V::STOPS {
        let pieces = match stop {
            StopReason::ToolCalls => vec![call("c1", "read", "{}")],
            _ => vec![text("Well")],
        };
        let said = Said { stop: stop.clone(), ..Said::of(pieces) };
        check::<V>(&read_all::<V>(V::stream(&said)).await, &said, "streamed");
        check::<V>(&read_all::<V>(V::whole(&said)).await, &said, "in one piece");
    }
    // A call that was cut is not run.
    let cut = Said { stop: StopReason::MaxTokens, ..Said::of([call("c1", "read", "{}")]) };
    assert_eq!(read_all::<V>(V::stream(&cut)).await.result.unwrap().stop, StopReason::MaxTokens);
}

pub async fn counts_of_tokens_do_not_overlap<V: Vendor>() {
    for (input_tokens, output_tokens, cache_read_tokens) in [(9, 4, 0), (1, 4, 8), (0, 1, 9), (1 << 40, 1 << 40, 1)] {
        let usage = Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens: 0 };
        let said = Said { usage, ..Said::of([text("Four.")]) };
        check::<V>(&read_all::<V>(V::stream(&said)).await, &said, "streamed");
        check::<V>(&read_all::<V>(V::whole(&said)).await, &said, "in one piece");
    }
}

/// The agent answers them with an error; the chat gives each an id of its own.
pub async fn calls_that_nobody_can_answer_are_handed_on<V: Vendor>() {
    for pieces in [
        vec![call("c1", "read", r#"{"path":"a"}"#), call("c1", "read", r#"{"path":"b"}"#)],
        vec![call("c1", "read", r#"{"path":"a"}"#), call("c1", "list", "{}")],
        vec![call("c1", "no_such_tool", "{}")],
    ] {
        let said = Said::of(pieces);
        check::<V>(&read_all::<V>(V::stream(&said)).await, &said, "streamed");
        check::<V>(&read_all::<V>(V::whole(&said)).await, &said, "in one piece");
    }
    if V::ARGUMENTS_ARE_TEXT {
        let broken = Said::of([call("c1", "read", r#"{"path": "a"#), call("c2", "read", "[1")]);
        check::<V>(&read_all::<V>(V::stream(&broken)).await, &broken, "broken arguments");
    }
    let many = Said::of((0..=limits::CALLS_IN_REPLY).map(|n| call(&format!("c{n}"), "read", "{}")).collect::<Vec<_>>());
    assert!(matches!(read_all::<V>(V::stream(&many)).await.result, Err(Fault::TooLarge { .. })));
}

pub async fn a_reply_without_end_is_stopped<V: Vendor>() {
    for flood in [V::flood(1, 10 << 20), V::flood(17, 1 << 20)] {
        let heard = read_all::<V>(flood).await.result;
        assert!(matches!(heard, Err(Fault::TooLarge { .. })), "{:?}", heard.map(|completion| completion.stop));
    }
}

pub async fn an_error_of_the_server_has_its_case_and_shows_no_key<V: Vendor>() {
    for (status, is_expected) in [
        (400, (|fault| matches!(fault, Fault::Invalid { .. })) as fn(&Fault) -> bool),
        (401, |fault| matches!(fault, Fault::Denied { .. })),
        (403, |fault| matches!(fault, Fault::Denied { .. })),
        (404, |fault| matches!(fault, Fault::NotFound { .. })),
        (413, |fault| matches!(fault, Fault::TooLarge { .. })),
        (429, |fault| matches!(fault, Fault::RateLimited { .. })),
        (500, |fault| matches!(fault, Fault::Unavailable { .. })),
        (503, |fault| matches!(fault, Fault::Unavailable { .. })),
        (529, |fault| matches!(fault, Fault::Unavailable { .. })),
    ] {
        let server = Server::start(move |_, _| {
            Answer::error(status, V::error(status, &format!("no luck with {KEY}"))).with("retry-after: 7")
        })
        .await;
        let fault = ask_with::<V>(Setup { retries: 0, ..Setup::on(&server) }, &question("Hi")).await.result;
        let fault = fault.unwrap_err();
        assert!(is_expected(&fault), "{status}: {fault:?}");
        assert!(fault.to_string().contains("no luck with ***"), "{fault}");
        assert!(!format!("{fault:?}").contains(KEY), "{fault:?}");
        assert_eq!(fault.retry_after(), fault.is_transient().then_some(Duration::from_secs(7)), "{status}");
    }
    let server = Server::start(|_, _| Answer::json("{}")).await;
    assert!(!V::shown(&Setup::on(&server)).contains(KEY));
}

pub async fn an_error_in_the_middle_of_a_stream_ends_it<V: Vendor>() {
    let stream = V::stream(&said());
    let (first, rest) = stream.split_once(V::EVENT.1).unwrap();
    let heard = read_all::<V>(format!("{first}{}{}{rest}", V::EVENT.1, V::broken_off(&format!("lost {KEY}")))).await;
    let fault = heard.result.unwrap_err();
    assert!(fault.is_transient(), "{fault:?}");
    assert!(fault.to_string().contains("lost ***") && !format!("{fault:?}").contains(KEY), "{fault:?}");
    // In place of a stream, with a status of success.
    let fault = read_all::<V>(V::error(400, "no such thing")).await.result.unwrap_err();
    assert!(fault.to_string().contains("no such thing"), "{fault:?}");
}

pub async fn what_may_pass_is_tried_again_and_what_will_not_pass_is_not<V: Vendor>() {
    for (status, tries) in [(400, 1), (401, 1), (404, 1), (413, 1), (429, 3), (503, 3), (529, 3)] {
        let server = Server::start(move |at, _| match at {
            0 | 1 => Answer::error(status, V::error(status, "no luck")).with("retry-after: 0"),
            _ => Answer::stream(V::stream(&said())),
        })
        .await;
        let heard = ask::<V>(&server, &question("Hi")).await;
        assert_eq!((heard.result.is_ok(), server.seen().len()), (tries == 3, tries), "{status}");
        let sent = server.seen();
        assert!(sent.iter().all(|again| again.body == sent[0].body), "{status}: the same is sent again");
    }
}

pub async fn the_pause_that_a_server_asks_for_is_kept<V: Vendor>() {
    let server = Server::start(|at, _| match at {
        0 => Answer::error(429, V::error(429, "slow down")).with("retry-after: 1"),
        _ => Answer::stream(V::stream(&said())),
    })
    .await;
    check::<V>(&ask::<V>(&server, &question("Hi")).await, &said(), "after a pause");
    let seen = server.seen();
    assert!(seen[1].at - seen[0].at >= Duration::from_secs(1), "{:?}", seen[1].at - seen[0].at);
    // A pause for which there is no time is reported instead.
    let server = Server::start(|_, _| Answer::error(429, V::error(429, "slow down")).with("retry-after: 60")).await;
    let hurried = Setup { total: Duration::from_secs(20), ..Setup::on(&server) };
    let fault = ask_with::<V>(hurried, &question("Hi")).await.result.unwrap_err();
    assert_eq!((fault.retry_after(), server.seen().len()), (Some(Duration::from_secs(60)), 1));
}

/// A beginning of a stream that has some text in it.
fn beginning<V: Vendor>() -> Vec<u8> {
    let mut stream = V::stream(&Said::of([text(&"A long story. ".repeat(20))])).into_bytes();
    stream.truncate(stream.len() / 2);
    stream
}

pub async fn whoever_goes_away_hangs_up<V: Vendor>() {
    #[derive(Default)]
    struct First(Notify);

    #[async_trait]
    impl DeltaTarget for First {
        async fn take(&self, delta: ReplyDelta) {
            if matches!(delta, ReplyDelta::Text(_)) {
                self.0.notify_one();
            }
        }
    }

    let mut server = Server::start(|_, _| Answer::stream(beginning::<V>()).and_silence()).await;
    let (first, model) = (Arc::new(First::default()), V::model(Setup::on(&server)).await);
    let (cx, request, sink) = (RunCx::new("ada"), question("Hi"), DeltaSink::new(first.clone()));
    tokio::select! {
        done = model.complete(&cx, &request, &sink) => panic!("{done:?}"),
        () = first.0.notified() => {}
    }
    timeout(PATIENCE, server.closed()).await.expect("the connection is closed");
}

pub async fn silence_and_slowness_are_bounded<V: Vendor>() {
    let server = Server::start(|_, _| Answer::stream(beginning::<V>()).and_silence()).await;
    let short = Duration::from_millis(50);
    let heard = ask_with::<V>(Setup { idle: short, ..Setup::on(&server) }, &question("Hi")).await;
    assert!(matches!(heard.result, Err(Fault::Unavailable { .. })), "{heard:?}");
    assert!(heard.told().0.starts_with("A long story."), "{heard:?}");
    let heard = ask_with::<V>(Setup { total: short, ..Setup::on(&server) }, &question("Hi")).await;
    assert!(matches!(heard.result, Err(Fault::Timeout { .. })), "{heard:?}");
}

pub async fn many_at_once_do_not_mix<V: Vendor>() {
    let server = Server::start(|_, sent| {
        let asked = V::asked(sent);
        let [Item::Text(question)] = asked.turns[0].items.as_slice() else { panic!("{asked:?}") };
        Answer::stream(V::stream(&Said::of([text(&format!("{question} is what you said. ").repeat(50))])))
    })
    .await;
    let (model, mut asking) = (V::model(Setup::on(&server)).await, JoinSet::new());
    for n in 0..50 {
        let model = model.clone();
        asking.spawn(async move {
            let question_of = question(&format!("Question {n}"));
            let completion = model.complete(&RunCx::new("ada"), &question_of, &DeltaSink::none()).await.unwrap();
            let expected = format!("Question {n} is what you said. ").repeat(50);
            assert_eq!(completion.parts, [Part::Text(expected)]);
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    assert_eq!(server.seen().len(), 50);
}

pub async fn a_name_that_the_vendor_refuses_goes_there_and_back<V: Vendor>() {
    let tools: Arc<[Arc<ToolSpec>]> = ["fs.read", "größe", "9 lives", "plain"].map(tool).into();
    let server = Server::start(|_, sent| {
        let offered = V::asked(sent).tools;
        let call_each = |(n, (name, _)): (usize, &(String, _))| call(&format!("c{n}"), name, r#"{"path":"a"}"#);
        Answer::stream(V::stream(&Said::of(offered.iter().enumerate().map(call_each).collect::<Vec<_>>())))
    })
    .await;
    let mut request = question("Hi");
    request.tools = tools.clone();
    let heard = ask::<V>(&server, &request).await;
    let called: Vec<_> = heard
        .result
        .unwrap()
        .parts
        .into_iter()
        .map(|part| match part {
            Part::ToolCall(call) => call.name,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(called, ["fs.read", "größe", "9 lives", "plain"]);
    for (name, _) in V::asked(&server.seen()[0]).tools {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!((1..=64).contains(&name.len()) && name.chars().all(is_plain), "{name}");
    }
}
