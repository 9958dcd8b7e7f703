//! An agent inside a program of your own, with the core of `shelly-host` alone: no wasmtime, no HTTP client, no database.
//!
//! ```sh
//! cargo run --package shelly-example-embedded -- 17 25 4
//! ```
//!
//! The tool is a closure. The model is a type of your own: put a call of your inference library in its place.

use std::{env, process::ExitCode, sync::Arc};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use shelly_core::{
    agent::{Agent, RunError},
    chat::{Chat, Message, Part, Role, StopReason, ToolCall, Usage},
    error::Fault,
    event::RunCx,
    model::{Completer, Completion, CompletionRequest, ContextWindow, DeltaSink, ModelInfo},
    tool,
};

#[derive(Deserialize, JsonSchema)]
struct Sum {
    /// The numbers to add.
    numbers: Vec<f64>,
}

/// A model that has one idea: it calls the tool `sum` with the numbers of the task, and then says what came back.
struct Adder(ModelInfo);

impl Adder {
    fn new() -> Self {
        Self(ModelInfo {
            name: "adder".into(),
            model: "adder-1".into(),
            context_window: ContextWindow::default(),
            price: None,
            retries: None,
        })
    }
}

#[async_trait]
impl Completer for Adder {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn complete(&self, _: &RunCx, request: &CompletionRequest, _: &DeltaSink) -> Result<Completion, Fault> {
        let last = request.messages.last().map(|entry| &entry.message);
        let last = last.ok_or_else(|| Fault::invalid("there is no message to reply to"))?;
        let (parts, stop) = match last.role {
            Role::Tool => {
                let results = last.parts.iter().filter_map(|part| match part {
                    Part::ToolResult(result) if result.is_error => {
                        Some(format!("I cannot add them: {}.", result.text()))
                    }
                    Part::ToolResult(result) => Some(format!("The sum is {}.", result.text())),
                    _ => None,
                });
                (vec![Part::Text(results.collect())], StopReason::EndTurn)
            }
            _ => {
                let task = last.text_content();
                let numbers: Vec<_> = task.split_whitespace().filter(|word| word.parse::<f64>().is_ok()).collect();
                let call = ToolCall {
                    id: "1".into(),
                    name: "sum".into(),
                    arguments: format!(r#"{{"numbers":[{}]}}"#, numbers.join(",")),
                    meta: vec![],
                };
                (vec![Part::ToolCall(call)], StopReason::ToolCalls)
            }
        };
        let usage = Usage { input_tokens: request.tokens(), output_tokens: 10, ..Usage::default() };
        Ok(Completion { parts, stop, usage, model: self.0.model.clone(), meta: vec![] })
    }
}

/// Runs the agent on a task, and returns its answer.
async fn add(task: String) -> Result<String, RunError> {
    let sum = tool::function("sum", "Adds numbers.", |_cx, sum: Sum| async move {
        Ok(sum.numbers.iter().sum::<f64>().to_string())
    });
    let agent = Agent::new("clerk", "Add the numbers of each task.", Arc::new(Adder::new())).with_tool(sum);
    let answer = agent.run(&RunCx::new("clerk"), &Chat::new(), vec![Message::user(task)]).await?;
    Ok(answer.message.text_content())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let task = env::args().skip(1).collect::<Vec<_>>().join(" ");
    if task.is_empty() {
        eprintln!("name the numbers to add, such as: 17 25 4");
        return ExitCode::from(2);
    }
    match add(task).await {
        Ok(answer) => println!("{answer}"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn agent_answers_with_the_result_of_its_tool() {
        assert_eq!(add("17 25 and 4".into()).await.unwrap(), "The sum is 46.");
        let refused = add("1 1e400".into()).await.unwrap();
        assert!(refused.starts_with("I cannot add them: "), "{refused}");
    }
}
