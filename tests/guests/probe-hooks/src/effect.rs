//! The effect. Its words are the arms of [`Effect::eval`].

use shelly_plugin::{
    Content, Error, Message, Part, chat,
    effect::{Edit, Effect, EffectInput, NewResult, Phase, Replacement, Step, Stop, Wake},
    types::{Ask, Request, Role, ToolChoice},
};

use crate::{Params, error, params, spin, unknown};

pub(crate) struct Probe;

impl Effect for Probe {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = params()?;
        let one = |edit| Ok(Step::edits(state.clone(), vec![edit]));
        if let Some(error) = params.effect.strip_prefix("error-").and_then(error) {
            return Err(error);
        }
        match params.effect.as_str() {
            "" => Ok(Step::edits(state, Vec::new())),
            "note" => one(Edit::Note(params.text("noted"))),
            "big-note" => one(Edit::Note("x".repeat(params.bytes))),
            "stop" => one(Edit::Stop(Stop { code: "probe".into(), message: params.text("asked to stop") })),
            "hide" => one(Edit::HideTools(params.tools)),
            "replace-result" => Ok(Step::edits(state, replaced_results(&params, &input))),
            "replace-unknown-result" => {
                one(Edit::ReplaceResult(NewResult { call_id: "nobody".into(), content: vec![] }))
            }
            "rewrite" => one(Edit::Replace(rewritten(&params, &input, Role::User))),
            // Cuts a call from its result, if the chat ends with one.
            "tear" => one(Edit::Replace(torn(&input))),
            "ask-model" => Ok(ask_model(&params, input, state)),
            "ask-for-ever" => Ok(Step::ask(state, question(&params))),
            "see" => one(Edit::Note(seen(&input))),
            "phase" => one(Edit::Note(phase(&input).into())),
            "count" => Ok(count(&params, &input, &state)),
            "once" => Ok(Step::edits(state, vec![Edit::Note(params.text("once"))]).until(Wake::NEVER)),
            "big-state" => Ok(Step::edits(vec![1; params.bytes], Vec::new())),
            "panic" => panic!("asked to panic"),
            "spin" => spin(),
            word => Err(unknown("effect", word)),
        }
    }
}

fn phase(input: &EffectInput) -> &'static str {
    match input.phase {
        Phase::BeforeModel => "before-model",
        Phase::AfterModel => "after-model",
        Phase::Other(_) => "other",
    }
}

fn replaced_results(params: &Params, input: &EffectInput) -> Vec<Edit> {
    let parts = chat::read(0, input.messages).into_iter().flat_map(|message| message.parts);
    let results =
        parts.filter_map(|part| if let Part::ToolResult(result) = part { Some(result.call_id) } else { None });
    results
        .map(|call_id| {
            Edit::ReplaceResult(NewResult { call_id, content: vec![Content::from(params.text("replaced"))] })
        })
        .collect()
}

/// One message in place of all but the instructions.
fn rewritten(params: &Params, input: &EffectInput, role: Role) -> Replacement {
    let entries: Vec<_> =
        chat::entries(0, input.messages).into_iter().filter(|entry| entry.role != Role::System).collect();
    Replacement {
        first: entries.first().map_or(0, |entry| entry.id),
        last: entries.last().map_or(0, |entry| entry.id),
        messages: vec![Message::new(role, params.text("rewritten"))],
    }
}

/// Removes the last message alone.
fn torn(input: &EffectInput) -> Replacement {
    let last = chat::entries(input.messages.saturating_sub(1), input.messages).last().map_or(0, |entry| entry.id);
    Replacement { first: last, last, messages: Vec::new() }
}

/// Asks in the first call, notes the answer in the second, then rests.
fn ask_model(params: &Params, input: EffectInput, state: Vec<u8>) -> Step {
    match (input.reply, state.as_slice()) {
        (Some(Ok(completion)), b"asked") => {
            let text = Message { parts: completion.parts, ..Message::new(Role::Assistant, "") }.text();
            Step::edits(b"done".to_vec(), vec![Edit::Note(format!("model said: {text}"))])
        }
        (Some(Err(error)), b"asked") => {
            Step::edits(b"done".to_vec(), vec![Edit::Note(format!("model failed: {}", error.message()))])
        }
        (None, b"") => Step::ask(b"asked".to_vec(), question(params)),
        (_, state) => Step::edits(state.to_vec(), Vec::new()),
    }
}

fn question(params: &Params) -> Ask {
    let request = Request {
        messages: vec![Message::new(Role::User, params.text("question"))],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        response_schema: None,
        meta: Vec::new(),
    };
    Ask { model: None, request }
}

/// All that can be seen of the chat, for tests of what is blank without a power.
fn seen(input: &EffectInput) -> String {
    let mut lines = vec![format!("tools {}", chat::tools().join(","))];
    for (entry, message) in chat::entries(0, input.messages).iter().zip(chat::read(0, input.messages)) {
        let parts: Vec<String> = message.parts.iter().map(part).collect();
        lines.push(format!("{} {:?} {:?} {}", entry.id, entry.role, entry.traits, parts.join(" | ")));
    }
    lines.join("\n")
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => format!("text {text}"),
        Part::ToolCall(call) => format!("call {} {}", call.name, call.arguments),
        Part::ToolResult(result) => format!("result {}", result.text()),
        other => format!("{other:?}"),
    }
}

/// Counts its calls in the state and notes the number.
fn count(params: &Params, input: &EffectInput, state: &[u8]) -> Step {
    let count = state.first().copied().unwrap_or(0) + 1;
    let edits = vec![Edit::Note(format!("count {count} in iteration {} {}", input.iteration, phase(input)))];
    let step = Step::edits(vec![count], edits);
    if params.sleep == 0 { step } else { step.until(Wake::at_iteration(input.iteration + params.sleep)) }
}
