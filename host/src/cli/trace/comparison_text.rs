//! Two traces side by side, as text.

use super::summary::sums;
use crate::{
    cli::{
        live::time_in_words,
        render::{BOLD, DIM, GREEN, PLAIN, RED, name, one_line},
    },
    error::count,
    limits,
    trace::{ComparedStep, StepMatch, Trace, TraceComparison, TraceStepKind},
};

/// Returns a comparison as text that is safe to print: the sums of each, where they part, and the steps around each
/// difference.
pub fn text(traces: [&Trace; 2], comparison: &TraceComparison) -> String {
    let mut text = String::new();
    for ((sign, colour), (trace, totals)) in
        [("-", RED), ("+", GREEN)].into_iter().zip(traces.into_iter().zip(&comparison.totals))
    {
        let title = one_line(&trace.header.title, limits::SESSION_STEP_CHARS);
        text += &format!("{colour}{sign}{PLAIN} {BOLD}{}{PLAIN}  {title}\n", name(&trace.header.id));
        text += &format!("  {DIM}{}{PLAIN}\n", sums(totals));
    }
    text += "\n";
    text += &match comparison.first_difference {
        None => format!("the runs have the same {}\n", count(comparison.steps.len() as u64, "step", "steps")),
        Some(0) => "the runs part at the first step\n".into(),
        Some(at) => format!("the runs part after {} that both have\n", count(at as u64, "step", "steps")),
    };
    if comparison.first_difference.is_some() {
        text += "\n";
        text += &steps(&comparison.steps);
    }
    for (left_out, trace) in comparison.left_out.iter().zip(traces) {
        if *left_out > 0 {
            text += &format!("{left_out} more steps of {} were not compared\n", name(&trace.header.id));
        }
    }
    text
}

/// Formats the differing steps, with some equal ones around them.
fn steps(steps: &[ComparedStep]) -> String {
    let differs = |at: usize| steps[at].found_in != StepMatch::Both;
    let is_near = |at: usize| {
        let from = at.saturating_sub(limits::TRACE_CONTEXT_STEPS);
        let to = (at + limits::TRACE_CONTEXT_STEPS).min(steps.len() - 1);
        (from..=to).any(differs)
    };
    let (mut text, mut shown, mut skipped) = (String::new(), 0, 0);
    for (at, step) in steps.iter().enumerate() {
        if !is_near(at) {
            skipped += 1;
            continue;
        }
        if shown == limits::TRACE_DIFFERENCES_SHOWN {
            let more = count((steps.len() - at) as u64, "more step", "more steps");
            text += &format!("{DIM}  … and {more}{PLAIN}\n");
            return text;
        }
        if skipped > 0 {
            text += &same(skipped);
            skipped = 0;
        }
        text += &line(step);
        shown += 1;
    }
    if skipped > 0 {
        text += &same(skipped);
    }
    text
}

fn same(skipped: u64) -> String {
    format!("{DIM}  … {} that both have{PLAIN}\n", count(skipped, "step", "steps"))
}

fn line(compared: &ComparedStep) -> String {
    let (sign, colour) = match compared.found_in {
        StepMatch::Both => (" ", ""),
        StepMatch::First => ("-", RED),
        StepMatch::Second => ("+", GREEN),
    };
    let number = compared.numbers.iter().flatten().next().copied().unwrap_or_default();
    let step = &compared.step;
    let what = match step.kind {
        TraceStepKind::Request => format!("asks {}", name(&step.name)),
        TraceStepKind::Call => {
            format!("calls {} {}", name(&step.name), one_line(&step.arguments, limits::SESSION_STEP_CHARS))
        }
    };
    let end = match (&step.error, step.duration) {
        (Some(error), _) => format!("failed: {}", one_line(error, limits::SESSION_STEP_CHARS)),
        (None, Some(duration)) => time_in_words(duration),
        (None, None) => "has not ended".into(),
    };
    format!("{colour}{sign} {number:>4}  {}  {what}  ({end}){PLAIN}\n", name(&compared.agent))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::{chat::Usage, digest::Sha256Digest, trace::TraceStep};

    fn compared(name: &str, found_in: StepMatch, number: usize) -> ComparedStep {
        let step = TraceStep {
            number: 0,
            kind: TraceStepKind::Call,
            name: name.into(),
            arguments: "{\"a\":\n\"\x1b[2J\"}".into(),
            arguments_digest: Some(Sha256Digest::of(name)),
            started: UNIX_EPOCH,
            duration: Some(Duration::from_millis(number as u64)),
            usage: Usage::default(),
            usd: None,
            error: None,
        };
        ComparedStep { found_in, numbers: [Some(number), None], agent: "a\nb".into(), step }
    }

    #[test]
    fn steps_around_a_difference_are_shown() {
        let all: Vec<_> = (1..=20)
            .map(|number| match number {
                10 => compared("gone", StepMatch::First, number),
                _ => compared("same", StepMatch::Both, number),
            })
            .collect();
        let text = steps(&all);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 * limits::TRACE_CONTEXT_STEPS + 3, "{text}");
        assert!(lines[0].contains("… 6 steps that both have") && lines[8].contains("… 7 steps"), "{text}");
        assert!(lines[4].starts_with(&format!("{RED}-   10  a b  calls gone")), "{text}");
        assert!(!text.contains("\x1b[2J") && text.contains("\\u{1b}[2J"), "{text}");
    }

    #[test]
    fn long_comparison_is_cut() {
        let all: Vec<_> =
            (0..limits::TRACE_DIFFERENCES_SHOWN + 7).map(|number| compared("new", StepMatch::Second, number)).collect();
        let text = steps(&all);
        assert_eq!(text.lines().count(), limits::TRACE_DIFFERENCES_SHOWN + 1);
        assert!(text.contains("… and 7 more steps"), "{text}");
    }
}
