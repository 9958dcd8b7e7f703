//! Parts of a request that a vendor refuses, and replies that look like a call and are none: the run goes on.

use std::sync::Arc;

use shelly_host::{
    chat::{Part, StopReason, Usage},
    error::Fault,
    event::Event,
    limits,
    model::{Completion, ScriptedCompleter},
};

use super::agent;
use crate::script::{Ran, run, tool};

fn failures(ran: &Ran) -> Vec<(&str, bool)> {
    let failed = |event| match event {
        &Event::ModelFailed { ref reason, again, .. } => Some((reason.as_str(), again)),
        _ => None,
    };
    ran.events.iter().filter_map(failed).collect()
}

/// The names of the tools in each request.
fn offered(model: &ScriptedCompleter) -> Vec<Vec<String>> {
    let names = |request: &shelly_host::model::CompletionRequest| {
        request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    model.requests().iter().map(names).collect()
}

fn refusal(of: &str) -> Result<Completion, Fault> {
    Err(Fault::invalid(format!("host answered 400 Bad Request: {of}")))
}

#[tokio::test(start_paused = true)]
async fn tool_with_a_refused_schema_is_dropped_from_the_run() {
    let model = Arc::new(ScriptedCompleter::new([
        refusal("tools.1.custom.input_schema: JSON schema is invalid"),
        ScriptedCompleter::calls(&[("1", "fine", "{}"), ("2", "odd", "{}")]),
        ScriptedCompleter::text("Done."),
    ]));
    let ada = agent("ada", model.clone())
        .with_tool(tool("fine", async |_| Ok("seen".into())))
        .with_tool(tool("odd", async |_| Ok("never".into())));
    let ran = run(&ada, "go").await;
    assert_eq!(ran.told(), "Done.");
    assert_eq!(offered(&model), [vec!["fine", "odd"], vec!["fine"], vec!["fine"]]);
    let [(reason, true)] = failures(&ran)[..] else { panic!("{:?}", failures(&ran)) };
    assert!(reason.ends_with("JSON schema is invalid; tool `odd` is left out for the rest of this run"), "{reason}");
    let [seen, never] = &ran.results()[..] else { panic!("{:?}", ran.results()) };
    assert!(seen == "seen" && never.starts_with("tool not found: odd"), "{never}");
}

#[tokio::test(start_paused = true)]
async fn refused_schema_retries_are_bounded() {
    let refusals = (0..limits::REFUSED_TOOLS + 2).map(|_| refusal("tools.0.input_schema: JSON schema is invalid"));
    let model = Arc::new(ScriptedCompleter::new(refusals));
    let mut ada = agent("ada", model.clone());
    for at in 0..limits::REFUSED_TOOLS + 2 {
        ada = ada.with_tool(tool(&format!("t{at}"), async |_| Ok(String::new())));
    }
    let ran = run(&ada, "go").await;
    assert!(ran.told().contains("JSON schema is invalid"), "{}", ran.told());
    assert_eq!(model.requests().len(), limits::REFUSED_TOOLS + 1);
    assert_eq!(failures(&ran).iter().filter(|(_, again)| *again).count(), limits::REFUSED_TOOLS);
    // What names no schema of a tool is no reason to ask again.
    let model = Arc::new(ScriptedCompleter::new([refusal("Unsupported value: 'temperature'")]));
    let ran = run(&agent("ada", model.clone()).with_tool(tool("t", async |_| Ok(String::new()))), "go").await;
    assert_eq!((ran.end.is_err(), model.requests().len()), (true, 1));
}

/// A reply of which its model's provider says that it looks like a call.
fn unread(text: &str) -> Result<Completion, Fault> {
    let meta = vec![("shelly.unread-call".to_owned(), "unknown tool `rm`".to_owned())];
    let (parts, model) = (vec![Part::Text(text.into())], "scripted".to_owned());
    Ok(Completion { parts, stop: StopReason::EndTurn, usage: Usage::default(), model, meta })
}

#[tokio::test(start_paused = true)]
async fn reply_that_looks_like_a_call_is_retried_once() {
    let again = "the reply looks like a tool call but is not one: unknown tool `rm`";
    for (replies, told, failed) in [
        (vec![unread("{}"), ScriptedCompleter::text("Done.")], "Done.", vec![(again, true)]),
        // It insists.
        (vec![unread("{}"), unread("{} again")], "{} again", vec![(again, true), (again, false)]),
        // After a call that succeeded it may err again.
        (
            vec![
                unread("{}"),
                ScriptedCompleter::calls(&[("1", "fine", "{}")]),
                unread("{}"),
                ScriptedCompleter::text("Done."),
            ],
            "Done.",
            vec![(again, true), (again, true)],
        ),
    ] {
        let requests = replies.len();
        let model = Arc::new(ScriptedCompleter::new(replies));
        let ada = agent("ada", model.clone()).with_tool(tool("fine", async |_| Ok("seen".into())));
        let ran = run(&ada, "go").await;
        assert_eq!((ran.told().as_str(), failures(&ran), model.requests().len()), (told, failed, requests));
        let asked = model.requests()[1].messages.last().unwrap().message.text_content();
        assert!(asked.contains("no tool was called: unknown tool `rm`"), "{asked}");
    }
    // Without a turn left it is the answer.
    let model = Arc::new(ScriptedCompleter::new([unread("{}")]));
    let mut ada = agent("ada", model.clone());
    ada.options.max_iterations = 1;
    let ran = run(&ada, "go").await;
    assert_eq!((ran.told().as_str(), failures(&ran)), ("{}", vec![(again, false)]));
}
