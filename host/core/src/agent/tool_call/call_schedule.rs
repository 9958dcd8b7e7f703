//! The order in which the calls of one reply begin.

use std::collections::BTreeSet;

use crate::tool::ToolConcurrency;

/// Returns, for each call of a reply, the positions of the earlier calls that must end before it begins.
fn dependencies(calls: &[ToolConcurrency]) -> Vec<Vec<usize>> {
    let before = |(at, call): (usize, &ToolConcurrency)| {
        calls[..at].iter().enumerate().filter(|(_, earlier)| call.waits_for(earlier)).map(|(at, _)| at).collect()
    };
    calls.iter().enumerate().map(before).collect()
}

/// The calls of one reply that have not begun, by their positions.
///
/// A call depends only on earlier calls, so the first call that has not ended never waits for another one.
pub(super) struct CallSchedule {
    /// For each call, the number of calls that it still waits for.
    open: Vec<usize>,
    /// For each call, the calls that wait for it.
    waiting: Vec<Vec<usize>>,
    ready: BTreeSet<usize>,
}

impl CallSchedule {
    /// Creates the schedule for the calls of a reply, in its order.
    pub fn new(calls: &[ToolConcurrency]) -> Self {
        let dependencies = dependencies(calls);
        let mut waiting = vec![Vec::new(); calls.len()];
        for (call, earlier) in dependencies.iter().enumerate() {
            earlier.iter().for_each(|earlier| waiting[*earlier].push(call));
        }
        let open: Vec<_> = dependencies.iter().map(Vec::len).collect();
        let ready = (0..calls.len()).filter(|call| open[*call] == 0).collect();
        Self { open, waiting, ready }
    }

    /// Takes the first call that waits for no other one.
    pub fn begin_next(&mut self) -> Option<usize> {
        self.ready.pop_first()
    }

    /// Notes that a call has ended, with any outcome: calls that waited only for it can begin.
    pub fn end(&mut self, call: usize) {
        for later in std::mem::take(&mut self.waiting[call]) {
            self.open[later] -= 1;
            if self.open[later] == 0 {
                self.ready.insert(later);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{chat::ToolHints, tool::ConcurrencyDomain};

    fn touching(read_only: bool, domains: &[ConcurrencyDomain]) -> ToolConcurrency {
        ToolConcurrency::touching(ToolHints { read_only, ..ToolHints::default() }, domains)
    }

    #[test]
    fn commit_waits_for_add_and_reads_wait_for_nothing() {
        let (read, write) = (touching(true, &[ConcurrencyDomain::Files]), touching(false, &[ConcurrencyDomain::Files]));
        let delegate = ToolConcurrency::Delegation { conversation: None };
        let calls = [&read, &read, &write, &write, &ToolConcurrency::Independent, &read, &delegate, &delegate];
        let calls: Vec<_> = calls.into_iter().cloned().collect();
        let expected: [&[usize]; 8] = [&[], &[], &[0, 1], &[0, 1, 2], &[], &[2, 3], &[2, 3], &[2, 3]];
        assert_eq!(dependencies(&calls), expected);
    }

    fn concurrency() -> impl Strategy<Value = ToolConcurrency> {
        let domain = prop_oneof![Just(ConcurrencyDomain::Files), "[ab]".prop_map(ConcurrencyDomain::named)];
        let domains = prop::collection::vec(domain, 0..3);
        prop_oneof![
            1 => Just(ToolConcurrency::Independent),
            1 => "[ab]".prop_map(|name| ToolConcurrency::Watches([ConcurrencyDomain::named(name)].into())),
            4 => (any::<bool>(), domains).prop_map(|(read_only, domains)| touching(read_only, &domains)),
            1 => prop::option::of("[xy]").prop_map(|name| ToolConcurrency::Delegation { conversation: name.map(Into::into) }),
            1 => any::<bool>().prop_map(|changes| ToolConcurrency::Anything { changes }),
        ]
    }

    proptest! {
        /// Each call begins once, after those that it waits for, and as early as possible, in whichever order the calls
        /// end.
        #[test]
        fn every_call_begins_once_its_dependencies_ended(
            calls in prop::collection::vec(concurrency(), 0..24),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 24),
        ) {
            let before = dependencies(&calls);
            let mut schedule = CallSchedule::new(&calls);
            let (mut running, mut ended, mut begun) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
            for pick in &picks {
                while let Some(call) = schedule.begin_next() {
                    prop_assert!(begun.insert(call), "call {call} begins twice");
                    prop_assert!(before[call].iter().all(|earlier| ended.contains(earlier)), "call {call} is too early");
                    running.push(call);
                }
                for (call, earlier) in before.iter().enumerate() {
                    let may = earlier.iter().all(|earlier| ended.contains(earlier));
                    prop_assert!(begun.contains(&call) == may, "call {call} waits for nothing");
                }
                if running.is_empty() {
                    break;
                }
                let call = running.swap_remove(pick.index(running.len()));
                ended.insert(call);
                schedule.end(call);
            }
            prop_assert_eq!(ended.len(), calls.len());
        }
    }
}
