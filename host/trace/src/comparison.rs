use std::{collections::HashMap, sync::Arc, time::Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::trace::{Trace, TraceStep, TraceStepKind, TraceTotals};
use shelly_core::{digest::Sha256Digest, limits};

/// Two traces, step by step.
#[derive(Debug, Clone)]
pub struct TraceComparison {
    /// The steps of both, aligned. Runs follow each other as in the tree of runs, so that agents that worked at once are
    /// compared each with its counterpart.
    pub steps: Vec<ComparedStep>,
    /// The position in `steps` at which the two part; `None` if they have the same steps.
    pub first_difference: Option<usize>,
    /// The sums of each.
    pub totals: [TraceTotals; 2],
    /// The number of steps of each beyond [`limits::TRACE_COMPARED_STEPS`], which were not compared.
    pub left_out: [usize; 2],
}

/// A step of one trace or of both.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedStep {
    /// The traces that have the step.
    pub found_in: StepMatch,
    /// The number in each trace, from 1 on.
    pub numbers: [Option<usize>; 2],
    /// The agent, numbered if several runs of one agent follow each other.
    pub agent: Arc<str>,
    /// The step; of the first trace if both have it.
    pub step: TraceStep,
}

/// The traces that have a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepMatch {
    /// Both have it.
    Both,
    /// Only the first has it.
    First,
    /// Only the second has it.
    Second,
}

/// The parts of a step by which two are the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct StepKey {
    agent: Arc<str>,
    is_call: bool,
    name: String,
    arguments: Option<[u8; 32]>,
    has_failed: bool,
}

impl TraceComparison {
    /// Compares two traces. Steps are the same if agent, kind, model or tool, arguments and success are.
    pub fn of(first: &Trace, second: &Trace) -> Self {
        let mut left_out = [0, 0];
        let mut flat = [steps_of(first), steps_of(second)];
        for (steps, left_out) in flat.iter_mut().zip(&mut left_out) {
            *left_out = steps.len().saturating_sub(limits::TRACE_COMPARED_STEPS);
            steps.truncate(limits::TRACE_COMPARED_STEPS);
        }
        let keys =
            flat.each_ref().map(|steps| steps.iter().map(|(agent, step)| key_of(agent, step)).collect::<Vec<_>>());
        let deadline = Instant::now() + limits::TRACE_COMPARISON_TIME;
        let operations = capture_diff_slices_deadline(Algorithm::Myers, &keys[0], &keys[1], Some(deadline));
        let [first_steps, second_steps] = &flat;
        let mut steps = Vec::new();
        for operation in operations {
            let (old, new) = (operation.old_range(), operation.new_range());
            if let DiffOp::Equal { .. } = operation {
                let both =
                    old.zip(new).map(|(old, new)| compared(&first_steps[old], StepMatch::Both, [Some(old), Some(new)]));
                steps.extend(both);
                continue;
            }
            steps.extend(old.map(|old| compared(&first_steps[old], StepMatch::First, [Some(old), None])));
            steps.extend(new.map(|new| compared(&second_steps[new], StepMatch::Second, [None, Some(new)])));
        }
        let first_difference = steps.iter().position(|step| step.found_in != StepMatch::Both);
        Self { steps, first_difference, totals: [first.totals(), second.totals()], left_out }
    }

    /// Returns `true` if both traces have the same steps.
    pub fn is_same(&self) -> bool {
        self.first_difference.is_none() && self.left_out == [0, 0]
    }
}

fn compared((agent, step): &(Arc<str>, TraceStep), found_in: StepMatch, at: [Option<usize>; 2]) -> ComparedStep {
    let numbers = at.map(|at| at.map(|at| at + 1));
    ComparedStep { found_in, numbers, agent: Arc::clone(agent), step: step.clone() }
}

fn key_of(agent: &Arc<str>, step: &TraceStep) -> StepKey {
    StepKey {
        agent: Arc::clone(agent),
        is_call: step.kind == TraceStepKind::Call,
        name: step.name.clone(),
        arguments: step.arguments_digest.map(|Sha256Digest(digest)| digest),
        has_failed: step.error.is_some(),
    }
}

/// Returns all steps, run by run in the order of the tree, each with its agent. A further run of an agent has a number, as
/// two runs of it are two different ones.
fn steps_of(trace: &Trace) -> Vec<(Arc<str>, TraceStep)> {
    let mut runs: HashMap<&str, u32> = HashMap::new();
    let mut steps = Vec::new();
    for (at, _) in trace.tree() {
        let run = &trace.runs[at];
        let number = runs.entry(&run.span.agent).or_default();
        *number += 1;
        let agent: Arc<str> = match *number {
            1 => Arc::clone(&run.span.agent),
            further => format!("{}/{further}", run.span.agent).into(),
        };
        steps.extend(run.steps.iter().map(|step| (Arc::clone(&agent), step.clone())));
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::{spans::RunEnd, tests::header, trace::TraceRun};
    use shelly_core::chat::Usage;

    fn call(tool: &str, arguments: &str) -> TraceStep {
        TraceStep {
            number: 0,
            kind: TraceStepKind::Call,
            name: tool.into(),
            arguments: arguments.into(),
            arguments_digest: Some(Sha256Digest::of(arguments)),
            started: UNIX_EPOCH,
            duration: Some(Duration::ZERO),
            usage: Usage::default(),
            usd: None,
            error: None,
        }
    }

    fn failed(step: TraceStep) -> TraceStep {
        TraceStep { error: Some("no".into()), ..step }
    }

    fn request(usage: u64) -> TraceStep {
        let usage = Usage { output_tokens: usage, ..Usage::default() };
        TraceStep { kind: TraceStepKind::Request, arguments_digest: None, usage, ..call("m", "") }
    }

    fn trace(runs: Vec<(&str, Vec<TraceStep>)>) -> Trace {
        let run = |(agent, steps): (&str, Vec<TraceStep>)| TraceRun {
            span: crate::tests::run_span(agent, RunEnd::Open),
            steps,
            children: Vec::new(),
        };
        let runs = runs.into_iter().map(run).collect();
        Trace { header: header(), is_recorded: true, runs, notes: Vec::new(), left_out: 0 }
    }

    /// Returns the steps as `=`, `-` and `+` with their names.
    fn shown(comparison: &TraceComparison) -> String {
        let step = |step: &ComparedStep| {
            let sign = match step.found_in {
                StepMatch::Both => '=',
                StepMatch::First => '-',
                StepMatch::Second => '+',
            };
            format!("{sign}{}:{}", step.agent, step.step.name)
        };
        comparison.steps.iter().map(step).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn steps_are_aligned_by_what_they_do() {
        let (read, list, write) = (|| call("read", "a"), || call("list", ""), || call("write", "b"));
        for (first, second, aligned, parts_at) in [
            (vec![], vec![], "", None),
            (vec![request(1), read()], vec![request(9), read()], "=a:m =a:read", None),
            (vec![read(), write()], vec![read(), list(), write()], "=a:read +a:list =a:write", Some(1)),
            (vec![read(), list()], vec![list()], "-a:read =a:list", Some(0)),
            (vec![read()], vec![call("read", "other")], "-a:read +a:read", Some(0)),
            (vec![read()], vec![failed(read())], "-a:read +a:read", Some(0)),
            (vec![read(), list()], vec![read()], "=a:read -a:list", Some(1)),
        ] {
            let comparison = TraceComparison::of(&trace(vec![("a", first)]), &trace(vec![("a", second)]));
            assert_eq!((&*shown(&comparison), comparison.first_difference), (aligned, parts_at));
            assert_eq!(comparison.is_same(), parts_at.is_none());
        }
    }

    #[test]
    fn runs_of_one_agent_are_compared_in_order() {
        let first = trace(vec![("a", vec![call("x", "")]), ("b", vec![call("y", "")]), ("a", vec![call("z", "")])]);
        let second = trace(vec![("a", vec![call("x", "")]), ("c", vec![call("y", "")]), ("a", vec![call("z", "")])]);
        let comparison = TraceComparison::of(&first, &second);
        assert_eq!(shown(&comparison), "=a:x -b:y +c:y =a/2:z");
        assert_eq!(comparison.steps[3].numbers, [Some(3), Some(3)]);
        assert_eq!(comparison.totals.map(|totals| totals.calls), [3, 3]);
    }

    #[test]
    fn steps_beyond_the_bound_are_not_compared() {
        let many = (0..=limits::TRACE_COMPARED_STEPS).map(|_| call("x", "")).collect();
        let comparison = TraceComparison::of(&trace(vec![("a", many)]), &trace(vec![]));
        assert_eq!((comparison.left_out, comparison.steps.len()), ([1, 0], limits::TRACE_COMPARED_STEPS));
        assert!(!comparison.is_same());
    }
}
