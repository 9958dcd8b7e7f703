//! A provider that stands in for a language model, so that everything else runs without an API key. It is a program with
//! a few rules. It finds files and requests in the task (`task`), tools that fit them (`tools`), and the calls that are
//! still missing in the conversation (`plan`). If no tool counts, it counts itself (`own_work`), unless there are agents to
//! which it can delegate (`delegation`). It keeps no state between requests: equal requests get equal replies.

use guest_kit::model;
use shelly_plugin::{
    Error, Part,
    provider::Provider,
    sink::{self, Delta},
    types::{Completion, Request, StopReason, ToolCall},
};

mod delegation;
mod introduction;
mod own_work;
mod pages;
mod plan;
mod task;
mod tools;

use plan::Next;

shelly_plugin::export!(provider: OfflineModel);

/// The name of the model in completions.
const NAME: &str = "offline-model";

struct OfflineModel;

impl Provider for OfflineModel {
    /// Completes the request. `model` is ignored, because there is only one.
    fn complete(_model: String, request: Request) -> Result<Completion, Error> {
        let completion = complete(&request);
        for part in &completion.parts {
            match part {
                Part::Text(text) => model::pieces(text).for_each(|piece| sink::emit(&Delta::Text(piece.to_owned()))),
                Part::ToolCall(call) => sink::emit(&Delta::ToolCall(call.name.clone())),
                _ => {}
            }
        }
        Ok(completion)
    }
}

fn complete(request: &Request) -> Completion {
    let (parts, stop) = match plan::next(request) {
        Next::Calls(calls) => {
            let calls = calls.into_iter().enumerate().map(|(index, call)| {
                Part::ToolCall(ToolCall {
                    // The host assigns its own ids to calls; these only have to differ.
                    id: format!("call-{}-{index}", request.messages.len()),
                    name: call.tool,
                    arguments: call.arguments.to_string(),
                    meta: Vec::new(),
                })
            });
            (calls.collect(), StopReason::ToolCalls)
        }
        Next::Answer(text) => {
            let (text, stop) = model::cut(text, request.max_output_tokens);
            (vec![Part::Text(text)], stop)
        }
    };
    let usage = model::usage(request, &parts);
    Completion { parts, stop, usage, model: NAME.into(), meta: Vec::new() }
}

#[cfg(test)]
mod tests;
