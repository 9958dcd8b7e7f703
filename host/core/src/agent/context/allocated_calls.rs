use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::capability::{AllocationBounds, Budget, BudgetAccount, BudgetAllocation, RestoredAllocation};

/// The calls of a reply that run agents, in the order of the reply.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentCalls {
    /// The id of the message with the reply; `None` if there is none.
    pub reply: Option<u64>,
    pub calls: Vec<AgentCall>,
}

/// A call that runs agents: `delegate`, or an agent as a tool.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentCall {
    pub id: String,
    /// The most that each of its tasks may spend; empty if it began before the run was interrupted.
    pub budgets: Vec<Budget>,
    /// The agent and the text of each task of a `delegate`; empty for an agent as a tool.
    pub tasks: Vec<(String, String)>,
}

/// The budget of the calls of the last reply that run agents. Each call gets the share that follows from the order of the calls
/// in the reply, whichever of them begins first. Clones are the same set.
#[derive(Clone, Default)]
pub(crate) struct AllocatedCalls(Arc<Mutex<AllocatedCallsState>>);

#[derive(Default)]
struct AllocatedCallsState {
    /// The message with the last reply.
    reply: Option<u64>,
    /// The bounds for the tasks of its calls, as they were when the first of them began, with the budgets asked for.
    planned: HashMap<String, (Vec<Budget>, Vec<AllocationBounds>)>,
    /// Those of its calls that have their allocations.
    begun: HashSet<String>,
    /// The bounds that calls had before the run was interrupted, until they have them again.
    interrupted: HashMap<String, Vec<AllocationBounds>>,
}

impl AllocatedCalls {
    /// Notes the bounds that calls had before the run was interrupted. They are not given to other calls meanwhile.
    pub fn note_interrupted(&self, calls: impl Iterator<Item = (String, Vec<AllocationBounds>)>) {
        self.state().interrupted.extend(calls);
    }

    /// Repeats the allocations that a call had before the run was interrupted.
    pub fn restore(
        &self,
        account: &Arc<BudgetAccount>,
        call: &str,
        shares: &[RestoredAllocation],
    ) -> Vec<BudgetAllocation> {
        let mut state = self.state();
        state.interrupted.remove(call);
        account.restore_allocations(shares)
    }

    /// Allocates the shares of the tasks of a call that begins. `budgets` are the most that each may spend, which middleware may
    /// have changed since the reply.
    pub fn allocate(
        &self,
        account: &Arc<BudgetAccount>,
        reply: &AgentCalls,
        call: &str,
        budgets: &[Budget],
    ) -> Vec<BudgetAllocation> {
        let mut state = self.state();
        if reply.reply.is_none() || state.reply != reply.reply {
            (state.planned, state.begun, state.reply) = (HashMap::new(), HashSet::new(), reply.reply);
        }
        let now = state.bounds_of_waiting(account, reply, call, budgets);
        if state.planned.is_empty() {
            state.planned = now.clone();
        }
        let planned = state.planned.get(call).filter(|(planned, _)| planned == budgets).map(|(_, bounds)| &bounds[..]);
        let now = now.get(call).map_or(&[][..], |(_, bounds)| &bounds[..]);
        // Calls that have ended have returned what they did not spend: no later call gets more for that. Something else may
        // have spent from the account since.
        let share = |(at, budget): (usize, &Budget)| {
            let planned = planned.map(|planned| budget_of(&planned[at])).unwrap_or_default();
            Budget { time: budget.time, ..budget_of(&now[at]).meet(&planned) }
        };
        let shares: Vec<_> = budgets.iter().enumerate().map(share).collect();
        state.begun.insert(call.to_owned());
        account.allocate(&shares)
    }

    fn state(&self) -> MutexGuard<'_, AllocatedCallsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AllocatedCallsState {
    /// Returns the bounds that the tasks of each call without allocations would have if all of these calls began now, with the
    /// budgets that they ask for. Nothing stays allocated.
    fn bounds_of_waiting(
        &self,
        account: &Arc<BudgetAccount>,
        reply: &AgentCalls,
        call: &str,
        budgets: &[Budget],
    ) -> HashMap<String, (Vec<Budget>, Vec<AllocationBounds>)> {
        let waiting = reply.calls.iter().filter(|there| there.id != call && !self.begun.contains(&there.id));
        let waiting = waiting.map(|there| match self.interrupted.get(&there.id) {
            Some(bounds) => (there.id.as_str(), bounds.iter().map(budget_of).collect()),
            None => (there.id.as_str(), there.budgets.clone()),
        });
        let mut waiting: Vec<(&str, Vec<Budget>)> = waiting.collect();
        // At its place in the reply: named budgets are served in order.
        let before = reply.calls.iter().take_while(|there| there.id != call);
        let at = before.filter(|there| !self.begun.contains(&there.id)).count().min(waiting.len());
        waiting.insert(at, (call, budgets.to_vec()));
        let all: Vec<_> = waiting.iter().flat_map(|(_, budgets)| budgets).copied().collect();
        let mut bounds = account.allocate(&all).into_iter().map(|share| share.bounds());
        let bounds_of = |(id, budgets): (&str, Vec<Budget>)| {
            let bounds = bounds.by_ref().take(budgets.len()).collect();
            (id.to_owned(), (budgets, bounds))
        };
        waiting.into_iter().map(bounds_of).collect()
    }
}

fn budget_of(bounds: &AllocationBounds) -> Budget {
    let AllocationBounds { tokens, usd, tool_calls } = *bounds;
    Budget { tokens, usd, tool_calls, time: None }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::capability::BudgetBreakdown;

    fn tokens(tokens: u64) -> Budget {
        Budget { tokens: Some(tokens), ..Budget::default() }
    }

    /// Returns a budget that names nothing.
    fn unnamed() -> Budget {
        Budget::default()
    }

    /// Returns a reply whose calls `a`, `b`, … have tasks with these budgets.
    fn reply(calls: &[&[Budget]]) -> AgentCalls {
        let call = |(at, budgets): (usize, &&[Budget])| AgentCall {
            id: char::from(b'a' + at as u8).into(),
            budgets: budgets.to_vec(),
            tasks: Vec::new(),
        };
        AgentCalls { reply: Some(7), calls: calls.iter().enumerate().map(call).collect() }
    }

    #[test]
    fn calls_of_a_reply_get_the_same_shares_in_any_order() {
        let none = unnamed();
        for (total, calls, shares) in [
            (1_000, &[&[none][..], &[none]][..], &[&[333][..], &[333]][..]),
            // Divided with a remainder, which a later call must not get.
            (5, &[&[none], &[none]], &[&[1], &[1]]),
            (1_200, &[&[none], &[none, none]], &[&[300], &[300, 300]]),
            (1_000, &[&[none], &[tokens(100), none]], &[&[300], &[100, 300]]),
            // Named amounts are served in the order of the reply.
            (1_000, &[&[tokens(800)], &[tokens(800)]], &[&[800], &[200]]),
        ] {
            let reply = reply(calls);
            for order in [[0, 1], [1, 0]] {
                for is_settled in [false, true] {
                    let account = BudgetAccount::new(&tokens(total), Instant::now());
                    let (allocated, mut held) = (AllocatedCalls::default(), Vec::new());
                    for at in order {
                        let got = allocated.allocate(&account, &reply, &reply.calls[at].id, calls[at]);
                        let bounds: Vec<_> = got.iter().filter_map(|share| share.bounds().tokens).collect();
                        assert_eq!(bounds, shares[at], "{total} {order:?} {is_settled}");
                        if !is_settled {
                            held.push(got);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn call_changed_by_middleware_gets_what_it_asks_for_now() {
        let account = BudgetAccount::new(&tokens(1_200), Instant::now());
        let (reply, allocated) = (reply(&[&[unnamed()], &[unnamed()]]), AllocatedCalls::default());
        let first = allocated.allocate(&account, &reply, "a", &[unnamed()]);
        let second = allocated.allocate(&account, &reply, "b", &[tokens(200), unnamed()]);
        let bounds = |shares: &[BudgetAllocation]| shares.iter().map(|share| share.bounds().tokens).collect::<Vec<_>>();
        assert_eq!((bounds(&first), bounds(&second)), (vec![Some(400)], vec![Some(200), Some(300)]));
        // The next reply is planned anew.
        drop((first, second));
        let next = AgentCalls { reply: Some(8), ..reply };
        assert_eq!(bounds(&allocated.allocate(&account, &next, "b", &[unnamed()])), [Some(400)]);
    }

    #[test]
    fn share_of_an_interrupted_call_is_kept_for_it() {
        let bounds = AllocationBounds { tokens: Some(300), ..AllocationBounds::default() };
        let reply = reply(&[&[], &[unnamed()]]);
        for is_restored_first in [false, true] {
            let account = BudgetAccount::new(&tokens(900), Instant::now());
            let allocated = AllocatedCalls::default();
            allocated.note_interrupted([("a".to_owned(), vec![bounds])].into_iter());
            let restored =
                RestoredAllocation { bounds, time: None, start: Instant::now(), spent: BudgetBreakdown::default() };
            let restore = || allocated.restore(&account, "a", &[restored]);
            let mut held = if is_restored_first { restore() } else { Vec::new() };
            let new = allocated.allocate(&account, &reply, "b", &[unnamed()]);
            assert_eq!(new[0].bounds().tokens, Some(300), "{is_restored_first}");
            held.extend(if is_restored_first { Vec::new() } else { restore() });
            assert_eq!(held[0].bounds(), bounds);
        }
    }
}
