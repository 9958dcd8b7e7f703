//! The result of a trial.

use std::{collections::BTreeMap, fmt};

use super::{disturbance::Disturbance, plan::FaultPlan};

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct FaultReport {
    /// The plan.
    pub plan: FaultPlan,
    /// The runs with an answer.
    pub completed: usize,
    /// The runs that were cancelled, as they were to be.
    pub cancelled: usize,
    /// The runs with which too many workers died, or with one that they have begun.
    pub poisoned: usize,
    /// The runs on other workers that they have begun.
    pub children: usize,
    /// The tasks of boards that an agent has claimed.
    pub claims: usize,
    /// The runs that have seen a message of the person.
    pub notes: usize,
    /// The number of faults of each kind.
    pub faults: BTreeMap<Disturbance, usize>,
    /// The workers that ended by themselves.
    pub ended_workers: usize,
    /// The calls that cannot be repeated and were made.
    pub effects: usize,
    /// The results of such calls that say that nobody knows.
    pub unknown: usize,
    /// The attempts that another worker continued, or the same one later.
    pub interrupted: u32,
    /// The requests beyond one for each step.
    pub repeated: u32,
    /// Those of them for steps that the journal had by then, of workers that did not know yet that they had lost a run.
    pub late: u32,
    /// The faults that this system does not allow, and why.
    pub left_out: Vec<String>,
    /// The checks that failed.
    pub failures: Vec<String>,
}

impl FaultReport {
    /// Creates the report of a trial of which nothing is counted yet.
    pub fn new(plan: &FaultPlan) -> Self {
        Self {
            plan: plan.clone(),
            completed: 0,
            cancelled: 0,
            poisoned: 0,
            children: 0,
            claims: 0,
            notes: 0,
            faults: BTreeMap::new(),
            ended_workers: 0,
            effects: 0,
            unknown: 0,
            interrupted: 0,
            repeated: 0,
            late: 0,
            left_out: Vec::new(),
            failures: Vec::new(),
        }
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultPlan { runs, seed, servers, workers, .. } = &self.plan;
        writeln!(f, "{runs} runs, seed {seed}, {servers} servers, {workers} workers")?;
        writeln!(f, "{:6} runs with the answer that they have without faults", self.completed)?;
        writeln!(f, "{:6} runs that were cancelled, and those that they had begun", self.cancelled)?;
        writeln!(f, "{:6} runs with which too many workers died", self.poisoned)?;
        writeln!(f, "{:6} runs on other workers begun by them, each once", self.children)?;
        for (fault, count) in &self.faults {
            writeln!(f, "{count:6} × {}", fault.words())?;
        }
        writeln!(f, "{:6} workers ended by themselves and were started again", self.ended_workers)?;
        writeln!(f, "{:6} calls that cannot be repeated, each made once", self.effects)?;
        writeln!(f, "{:6} results of such calls that are unknown after a crash", self.unknown)?;
        writeln!(f, "{:6} attempts that were interrupted, and continued", self.interrupted)?;
        writeln!(f, "{:6} requests to the model beyond one for each step", self.repeated)?;
        writeln!(f, "{:6} of them for steps that another worker had recorded", self.late)?;
        writeln!(f, "{:6} tasks of boards, each claimed by one agent", self.claims)?;
        writeln!(f, "{:6} runs that have seen a message, none of them more often than it was sent", self.notes)?;
        self.left_out.iter().try_for_each(|fault| writeln!(f, "left out: {fault}"))?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "failed: {failure}"))
    }
}
