//! `--dry-run`: an estimate of the tokens and the cost of a batch, without a request.

use std::collections::HashMap;

use super::{
    result_file::PastResults, task_file::TaskFile, task_index::TaskIndex, task_line::BatchTask, task_survey::TaskSurvey,
};
use crate::{
    app::{App, PromptEstimate},
    capability::Usd,
    error::{Report, count, legible},
    limits,
    task::{AttachedFile, TaskInput},
};

/// The estimate of one agent on one model.
struct RunnerEstimate {
    prompt: PromptEstimate,
    tasks: u64,
    /// The tokens of the first request of each task.
    tokens: u64,
}

/// Returns the estimate of a batch, for people. `results` are the results so far, from which the replies are estimated.
///
/// # Errors
///
/// A [`Report`] if an agent or model is not there, or the files of a task cannot be read any more.
pub(super) async fn estimate(
    app: &App,
    survey: &TaskSurvey,
    mut tasks: TaskFile,
    defaults: (Option<&str>, Option<&str>),
    retries_failed: bool,
    results: &PastResults,
) -> Result<String, Report> {
    let mut runners = HashMap::new();
    for uses in &survey.runners {
        let prompt = app.prompt_estimate(uses.agent.as_deref(), uses.model.as_deref()).await;
        let prompt = prompt.map_err(|report| uses.explain(report, tasks.shown()))?;
        runners.insert((uses.agent.clone(), uses.model.clone()), RunnerEstimate { prompt, tasks: 0, tokens: 0 });
    }
    while let Some(task) = tasks.next()? {
        if !is_pending(&survey.index, &task, retries_failed) {
            continue;
        }
        let key = (
            task.agent.clone().or(defaults.0.map(str::to_owned)),
            task.model.clone().or(defaults.1.map(str::to_owned)),
        );
        // A task that was not there before cannot be estimated, and the batch itself would report it.
        let Some(estimate) = runners.get_mut(&key) else { continue };
        estimate.tasks += 1;
        estimate.tokens += estimate.prompt.tokens + tokens_of(task)?;
    }
    let mut all: Vec<_> = runners.into_values().filter(|estimate| estimate.tasks > 0).collect();
    all.sort_by(|a, b| (b.tasks, &a.prompt.model).cmp(&(a.tasks, &b.prompt.model)));
    Ok(shown(&all, survey.index.len() as u64, results))
}

fn is_pending(index: &TaskIndex, task: &BatchTask, retries_failed: bool) -> bool {
    index.state(&task.id).is_some_and(|state| state.is_pending(retries_failed))
}

/// Estimates the tokens of the message with which a task begins.
fn tokens_of(task: BatchTask) -> Result<u64, Report> {
    let schema = task.answer_schema(&Default::default())?;
    let attachments = AttachedFile::read_all(&task.attachments)?;
    let message = TaskInput { text: task.text, attachments, schema }.into_message();
    Ok(u64::from(message.tokens()))
}

/// Formats the estimate.
fn shown(runners: &[RunnerEstimate], all: u64, results: &PastResults) -> String {
    let pending: u64 = runners.iter().map(|estimate| estimate.tasks).sum();
    let mut text = format!("{}, {pending} of them pending\n", count(all, "task", "tasks"));
    let replied = results.usage_of_answered.output_tokens.checked_div(results.answered);
    let reply = replied.unwrap_or(limits::RATE_LIMIT_FIRST_REPLY);
    let (mut total, mut is_whole) = (Usd::ZERO, true);
    for RunnerEstimate { prompt: PromptEstimate { model, price, .. }, tasks, tokens } in runners {
        let model = model.as_deref().map_or("a discovered model".into(), legible);
        let written = tasks * reply;
        let cost = price.as_ref().map(|price| price.at_most(*tokens, written));
        let priced = cost.map_or_else(|| "cost unknown".into(), |cost| format!("about {cost}"));
        total = total.saturating_add(cost.unwrap_or_default());
        is_whole &= cost.is_some();
        let tasks = count(*tasks, "task", "tasks");
        text.push_str(&format!("{model}: {tasks}, {tokens} tokens in, {written} out, {priced}\n"));
    }
    if runners.len() > 1 && is_whole {
        text.push_str(&format!("all of them: about {total}\n"));
    }
    text.push_str(&match replied {
        Some(mean) => {
            format!("counted: one request per task and {mean} tokens per reply, the mean of the results so far\n")
        }
        None => format!("counted: one request per task and {reply} tokens per reply, an assumption because there are no results yet\n"),
    });
    text.push_str("not counted: turns after tool calls, tools of MCP servers, and delegated work\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Price, Usage};

    fn runner(model: Option<&str>, price: Option<f64>, tasks: u64, tokens: u64) -> RunnerEstimate {
        let price = price.map(|dollars| {
            serde_json::from_value::<Price>(serde_json::json!({"input": dollars, "output": 10.0 * dollars})).unwrap()
        });
        let prompt = PromptEstimate { model: model.map(str::to_owned), price, tokens: 0 };
        RunnerEstimate { prompt, tasks, tokens }
    }

    #[test]
    fn estimate_shows_tokens_costs_and_what_is_left_out() {
        let results = PastResults {
            usage_of_answered: Usage { output_tokens: 400, ..Usage::default() },
            answered: 4,
            ..PastResults::default()
        };
        let runners = [runner(Some("large"), Some(1.0), 10, 50_000), runner(Some("small"), Some(0.1), 2, 10_000)];
        let text = shown(&runners, 16, &results);
        assert!(text.starts_with("16 tasks, 12 of them pending\n"), "{text}");
        assert!(text.contains("large: 10 tasks, 50000 tokens in, 1000 out, about $0.06\n"), "{text}");
        assert!(text.contains("small: 2 tasks, 10000 tokens in, 200 out, about $0.0012\n"), "{text}");
        assert!(
            text.contains("all of them: about $0.0612\n") && text.contains("100 tokens per reply, the mean"),
            "{text}"
        );
        let text = shown(&[runner(None, None, 1, 7)], 1, &PastResults::default());
        assert!(text.contains("a discovered model: 1 task, 7 tokens in, 500 out, cost unknown\n"), "{text}");
        assert!(text.contains("500 tokens per reply, an assumption") && !text.contains("all of them"), "{text}");
    }
}
