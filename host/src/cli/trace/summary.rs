//! The summary of a trace: a tree of runs, and what failed.

use crate::{
    capability::Usd,
    cli::{
        live::{amount_in_words, time_in_words},
        render::{BOLD, DIM, PLAIN, RED, name, one_line, warning},
        session::{table, when},
    },
    error::count,
    limits,
    trace::{RunEnd, Trace, TraceRun, TraceStepKind, TraceTotals},
};

/// Returns the summary as text that is safe to print.
pub fn text(trace: &Trace) -> String {
    let header = &trace.header;
    let title = one_line(&header.title, limits::SESSION_TITLE_CHARS);
    let mut text = format!("{BOLD}{}{PLAIN}  {title}\n", name(&header.id));
    let host = format!("shelly-host {}", name(&header.host));
    text += &format!("{DIM}{} UTC · {host} · {}{PLAIN}\n", when(header.created), sums(&trace.totals()));
    if trace.runs.is_empty() {
        return text + "\nno run has begun in this session\n";
    }
    text += &format!("\n{}", runs(trace));
    text += &failures(trace);
    for note in &trace.notes {
        text += &format!("\n{}", warning(note));
    }
    if trace.left_out > 0 {
        text += &format!("\n{}", warning(&format!("{} more runs, steps and notes are left out", trace.left_out)));
    }
    text.trim_end().to_owned() + "\n"
}

/// Formats sums on one line.
pub fn sums(totals: &TraceTotals) -> String {
    let TraceTotals { runs, turns, usage, usd, calls, failed_calls, duration } = *totals;
    let mut parts = vec![
        count(runs, "run", "runs"),
        count(turns, "turn", "turns"),
        format!("{} tokens", amount_in_words(usage.total())),
        format!("cost {}", cost(totals, usd)),
        count(calls, "call", "calls"),
    ];
    if failed_calls > 0 {
        parts.push(format!("{failed_calls} failed"));
    }
    parts.push(time_in_words(duration));
    parts.join(" · ")
}

fn runs(trace: &Trace) -> String {
    let mut rows = vec![["RUN", "TURNS", "TOKENS", "COST", "TIME", "CALLS", "FAILED", "END"].map(str::to_owned)];
    let tree = trace.tree();
    for (at, level) in tree.iter().take(limits::TRACE_RUNS_SHOWN) {
        rows.push(row(&trace.runs[*at], *level));
    }
    let mut text = table(&rows) + "\n";
    let more = tree.len().saturating_sub(limits::TRACE_RUNS_SHOWN);
    if more > 0 {
        text += &format!("and {}\n", count(more as u64, "more run", "more runs"));
    }
    text
}

fn row(run: &TraceRun, level: usize) -> [String; 8] {
    let totals = run.totals();
    let indent = if level == 0 { String::new() } else { format!("{}└ ", "  ".repeat(level - 1)) };
    [
        format!("{indent}{}", name(&run.span.agent)),
        totals.turns.to_string(),
        amount_in_words(totals.usage.total()),
        cost(&totals, totals.usd),
        time_in_words(totals.duration),
        tools(run),
        totals.failed_calls.to_string(),
        end(run),
    ]
}

/// Returns the words for the end of a run. Each attempt at a run that was interrupted has a row.
fn end(run: &TraceRun) -> String {
    let from = if run.continues.is_some() { ", continued from above" } else { "" };
    match &run.span.end {
        RunEnd::Answered => format!("answered{from}"),
        RunEnd::Failed(error) => format!("failed{from}: {}", one_line(error, limits::TRACE_REASON_CHARS)),
        RunEnd::Open if run.continued_by.is_none() => format!("has not ended{from}"),
        RunEnd::Open if run.continues.is_some() => "interrupted again, continued below".into(),
        RunEnd::Open => "interrupted, continued below".into(),
    }
}

/// Formats the calls of a run: `read_file ×3, exec`.
fn tools(run: &TraceRun) -> String {
    let calls = run.calls_by_tool().into_iter().map(|(tool, calls)| match calls {
        1 => tool.to_owned(),
        _ => format!("{tool} ×{calls}"),
    });
    let calls = calls.collect::<Vec<_>>().join(", ");
    if calls.is_empty() { "-".into() } else { one_line(&calls, limits::SESSION_STEP_CHARS) }
}

/// Formats a cost. If tokens were used at no cost, a price is unknown.
fn cost(totals: &TraceTotals, usd: f64) -> String {
    const PICO: f64 = 1e12;
    // The conversion saturates.
    match Usd::from_pico((usd * PICO).round() as u64) {
        Usd::ZERO if totals.usage.total() > 0 => "unknown".into(),
        usd => usd.to_string(),
    }
}

/// Formats the steps that failed.
fn failures(trace: &Trace) -> String {
    let failed: Vec<_> = trace
        .tree()
        .into_iter()
        .flat_map(|(at, _)| trace.runs[at].steps.iter().map(move |step| (at, step)))
        .filter_map(|(at, step)| Some((&trace.runs[at].span.agent, step, step.error.as_ref()?)))
        .collect();
    if failed.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{RED}failed:{PLAIN}\n");
    for (agent, step, error) in failed.iter().take(limits::TRACE_FAILURES_SHOWN) {
        let what = match step.kind {
            TraceStepKind::Request => format!("request to {}", name(&step.name)),
            TraceStepKind::Call => {
                format!("{} {}", name(&step.name), one_line(&step.arguments, limits::SESSION_STEP_CHARS))
            }
        };
        text += &format!("  {}: {what}: {}\n", name(agent), one_line(error, limits::TRACE_REASON_CHARS));
    }
    let more = failed.len().saturating_sub(limits::TRACE_FAILURES_SHOWN);
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    text
}
