//! Prints the result of a run: the answer, or why there is none, and the cost.

use std::{io::IsTerminal, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};
use shelly_terminal::theme::Theme;

use super::{
    output_format::RunOutputFormat,
    print::{print, print_for_people, say, tell},
    progress_display::ProgressLevel,
    prose::tell_prose,
    result_line::{AgentAmounts, AnswerLine, FailureLine, ResultError, SpentAmounts},
    terminal_text::{DIM, PLAIN, RED, escaped, indented, indented_json, json_line},
};
use crate::{
    agent::RunAnswer,
    capability::Usd,
    chat::{Message, Part},
    cli::live::{amount_in_words, rendered, terminal_size, time_in_words},
    error::Report,
    model::{Ledger, UsageTally},
};

/// The result of a run.
pub struct RunResult<'a> {
    pub agent: &'a str,
    pub model: &'a str,
    pub answer: &'a RunAnswer,
    /// The answer as JSON, if it follows a schema.
    pub value: Option<Value>,
    /// The usage of each agent.
    pub agents: Ledger,
    pub duration: Duration,
    /// The session in which the run was recorded.
    pub session: Option<&'a str>,
    /// `true` if standard output has the text of the answer already.
    pub is_shown: bool,
    /// The theme for a terminal; `None` for text as it is.
    pub theme: Option<Theme>,
}

/// Prints the answer. Returns the exit code.
pub fn answered(result: RunResult<'_>, output: RunOutputFormat, level: ProgressLevel) -> u8 {
    let text = shown_answer(&result.answer.message);
    let line = AnswerLine {
        ok: true,
        answer: &text,
        value: result.value.as_ref(),
        agent: result.agent,
        model: result.model,
        iterations: result.answer.iterations,
        usage: result.answer.usage,
        spent: SpentAmounts::of_budget(&result.answer.account.total()),
        agents: AgentAmounts::all(&result.agents),
        duration_ms: result.duration.as_micros() as f64 / 1_000.0,
        session: result.session,
    };
    let printed = match (output, &result.value) {
        (RunOutputFormat::Text, value) => {
            let printed = match value {
                Some(value) => print(&indented_json(value)),
                None if result.is_shown => Ok(()),
                None => print_markdown(&text, result.theme.clone()),
            };
            printed.inspect(|()| tell_summary(&result, level))
        }
        (RunOutputFormat::Json | RunOutputFormat::Events, _) => print(&json_line(&line)),
    };
    // An answer that could not be printed is a failure.
    let report = match (printed, result.session) {
        (Ok(()), _) => return 0,
        (Err(report), None) => report,
        (Err(report), Some(id)) => {
            report.hint(format!("the answer is stored in the session: shelly-host session show {id}"))
        }
    };
    failed(&report, RunOutputFormat::Text)
}

/// Returns usage as JSON, one row or a list of them. If tokens were used at no cost the price is unknown, and `usd` is
/// null.
pub fn used(what: &impl Serialize) -> Value {
    let mut value = json!(what);
    let rows = match &mut value {
        Value::Array(rows) => rows.as_mut_slice(),
        one => std::slice::from_mut(one),
    };
    for row in rows {
        let tokens: u64 = row["usage"].as_object().map_or(0, |usage| usage.values().filter_map(Value::as_u64).sum());
        if row["usd"].as_f64() == Some(0.0) && tokens > 0 {
            row["usd"] = Value::Null;
        }
    }
    value
}

/// Prints an answer: rendered on a terminal, and as it is elsewhere.
fn print_markdown(text: &str, theme: Option<Theme>) -> Result<(), Report> {
    let theme = theme.filter(|_| std::io::stdout().is_terminal());
    let Some(theme) = theme else { return print_for_people(text) };
    let mut shown = String::new();
    for line in rendered(text, usize::from(terminal_size().columns), theme) {
        line.write_ansi(&mut shown);
        shown.push('\n');
    }
    print(&shown)
}

/// Prints a summary of the run where a person has watched it, and its cost elsewhere, if the price of a model is known.
fn tell_summary(result: &RunResult<'_>, level: ProgressLevel) {
    if level == ProgressLevel::Quiet {
        return;
    }
    if !std::io::stderr().is_terminal() {
        return tell_cost(&result.agents);
    }
    let total = result.agents.total();
    let (turns, tokens) = (result.answer.iterations, amount_in_words(total.usage.total()));
    let turns = format!("{turns} {}", if turns == 1 { "turn" } else { "turns" });
    let parts = [turns, time_in_words(result.duration), format!("{tokens} tokens"), format!("cost {}", cost(&total))];
    tell(&format!("{DIM}{}{PLAIN}\n", parts.join(" · ")));
}

/// Prints the cost of a run, if the price of a model is known.
fn tell_cost(agents: &Ledger) {
    let total = agents.total();
    if total.usd != Usd::ZERO {
        tell(&format!("{DIM}cost: {} for {} tokens{PLAIN}\n", total.usd, total.usage.total()));
    }
}

/// Formats a cost for people.
pub fn cost(tally: &UsageTally) -> String {
    match tally.usd {
        Usd::ZERO if tally.usage.total() > 0 => "unknown".into(),
        usd => usd.to_string(),
    }
}

/// Returns the text of the answer, or a list of its media if it has no text.
pub fn shown_answer(message: &Message) -> String {
    let text = message.text_content();
    if !text.trim().is_empty() {
        return text;
    }
    let media = message.parts.iter().filter_map(|part| match part {
        Part::Media(media) => Some(format!("[{}]", media.media_type)),
        _ => None,
    });
    media.collect::<Vec<_>>().join("\n")
}

/// Formats a failure with its causes and its hint.
pub fn failure_text(report: &Report) -> String {
    let mut text = format!("{RED}error:{PLAIN} {}\n", escaped(&report.message));
    for cause in &report.causes {
        text.push_str(&format!("  {DIM}cause:{PLAIN} {}\n", indented(&escaped(cause))));
    }
    if let Some(hint) = &report.hint {
        text.push_str(&format!("  {DIM}hint:{PLAIN}  {}\n", indented(&escaped(hint))));
    }
    text
}

/// Prints a failure. Returns the exit code.
pub fn failed(report: &Report, output: RunOutputFormat) -> u8 {
    failed_after(report, &Ledger::new(), None, output)
}

/// Prints the failure of a run that has used something and may have been recorded. Returns the exit code.
pub fn failed_after(report: &Report, agents: &Ledger, session: Option<&str>, output: RunOutputFormat) -> u8 {
    if output != RunOutputFormat::Text {
        let code = report.kind.exit_code();
        say(&FailureLine::new(report.into(), code, agents, session));
    }
    tell_prose(&failure_text(report));
    if output == RunOutputFormat::Text {
        tell_cost(agents);
    }
    report.kind.exit_code()
}

/// Prints a failure as a line of JSON on standard output.
pub fn failed_as_json(report: &Report) {
    say(&FailureLine::new(report.into(), report.kind.exit_code(), &Ledger::new(), None));
}

/// Prints the command that resumes a session.
pub fn go_on(arguments: &str) {
    tell(&format!("{DIM}resume with: shelly-host session resume {}{PLAIN}\n", escaped(arguments)));
}

/// Prints that the run was cancelled with this exit code.
pub fn cancelled(code: u8, agents: &Ledger, session: Option<&str>, output: RunOutputFormat) {
    tell("cancelled\n");
    if output == RunOutputFormat::Text {
        tell_cost(agents);
    } else {
        say(&FailureLine::new(ResultError::CANCELLED, code, agents, session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Usage;

    #[test]
    fn usage_without_price_has_unknown_cost() {
        let usage = |tokens| Usage { input_tokens: tokens, ..Usage::default() };
        let tally = |tokens, pico| UsageTally { completions: 1, usage: usage(tokens), usd: Usd::from_pico(pico) };
        for (tally, json, text) in [
            (tally(7, 0), Value::Null, "unknown"),
            (tally(7, 250_000_000_000), json!(0.25), "$0.25"),
            (tally(0, 0), json!(0.0), "$0.00"),
        ] {
            assert_eq!((&used(&tally)["usd"], &*cost(&tally)), (&json, text));
            let mut ledger = Ledger::new();
            ledger.record(&"ada".into(), tally.usage, tally.usd);
            assert_eq!(used(&ledger)[0]["usd"], json);
        }
    }
}
