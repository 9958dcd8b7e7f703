use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

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
        let order = first.tree().into_iter().map(|(at, _)| at).collect();
        let mut flat = [steps_of(first, order), steps_of(second, order_like(second, first))];
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

/// Returns all steps, run by run in this order, each with its agent. A further run of an agent has a number, as two runs of it
/// are two different ones.
fn steps_of(trace: &Trace, order: Vec<usize>) -> Vec<(Arc<str>, TraceStep)> {
    let mut runs: HashMap<&str, u32> = HashMap::new();
    let mut steps = Vec::new();
    for at in order {
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

/// Returns the positions of the runs of a trace from each root down, in the order that their counterparts have in `model`:
/// runs that worked at once begin in any order. The counterpart of a run has the same agent and the counterpart of its
/// parent; the second run of an agent is that of the second. A run without a counterpart stays behind the one before it.
fn order_like(trace: &Trace, model: &Trace) -> Vec<usize> {
    let mut order = Vec::new();
    let mut left = siblings_like(trace, trace.roots(), model, model.roots());
    while let Some((at, counterpart)) = left.pop() {
        order.push(at);
        let children = counterpart.map(|at| &*model.runs[at].children).unwrap_or_default();
        left.extend(siblings_like(trace, trace.runs[at].children.iter().copied(), model, children.iter().copied()));
    }
    order
}

/// Returns the positions of sibling runs, the last one first, each with that of its counterpart.
fn siblings_like(
    trace: &Trace,
    siblings: impl Iterator<Item = usize>,
    model: &Trace,
    counterparts: impl Iterator<Item = usize>,
) -> Vec<(usize, Option<usize>)> {
    let mut of_agents: HashMap<&str, VecDeque<(usize, usize)>> = HashMap::new();
    for (rank, at) in counterparts.enumerate() {
        of_agents.entry(&model.runs[at].span.agent).or_default().push_back((rank, at));
    }
    let mut last_rank = 0;
    let mut ranked: Vec<_> = siblings
        .map(|at| {
            let counterpart = of_agents.get_mut(&*trace.runs[at].span.agent).and_then(VecDeque::pop_front);
            last_rank = counterpart.map_or(last_rank, |(rank, _)| rank);
            (last_rank, at, counterpart.map(|(_, at)| at))
        })
        .collect();
    ranked.sort_by_key(|(rank, _, counterpart)| (*rank, counterpart.is_none()));
    ranked.into_iter().rev().map(|(_, at, counterpart)| (at, counterpart)).collect()
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
            continues: None,
            continued_by: None,
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
    fn runs_that_worked_at_once_are_compared_in_any_order() {
        let below_lead = |order: [&'static str; 3]| {
            let steps = |agent| vec![call(agent, "1"), call(agent, "2")];
            let mut trace = trace(vec![("lead", vec![call("delegate", "")])]);
            for (at, agent) in order.into_iter().enumerate() {
                trace.runs.extend(self::trace(vec![(agent, steps(agent))]).runs);
                trace.runs[at + 1].span = Arc::new(crate::spans::RunSpan {
                    parent: Some("lead".into()),
                    ..crate::spans::RunSpan::clone(&trace.runs[at + 1].span)
                });
            }
            trace.runs[0].children = vec![1, 2, 3];
            trace
        };
        let model = below_lead(["a", "b", "c"]);
        for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]] {
            let comparison = TraceComparison::of(&model, &below_lead(order));
            assert!(comparison.is_same(), "{order:?}: {}", shown(&comparison));
        }
        let comparison = TraceComparison::of(&model, &below_lead(["c", "d", "a"]));
        let aligned = "=lead:delegate =a:a =a:a -b:b -b:b =c:c =c:c +d:d +d:d";
        assert_eq!(shown(&comparison), aligned, "a run without a counterpart stays behind the one before it");
    }

    #[test]
    fn steps_beyond_the_bound_are_not_compared() {
        let many = (0..=limits::TRACE_COMPARED_STEPS).map(|_| call("x", "")).collect();
        let comparison = TraceComparison::of(&trace(vec![("a", many)]), &trace(vec![]));
        assert_eq!((comparison.left_out, comparison.steps.len()), ([1, 0], limits::TRACE_COMPARED_STEPS));
        assert!(!comparison.is_same());
    }
}
