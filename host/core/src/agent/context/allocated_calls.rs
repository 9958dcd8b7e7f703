use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use crate::capability::{Budget, BudgetAccount, BudgetAllocation};

/// The calls of the last reply that run agents and whose budget was allocated. Clones are the same set.
#[derive(Clone, Default)]
pub(crate) struct AllocatedCalls(Arc<Mutex<HashSet<String>>>);

impl AllocatedCalls {
    /// Allocates an equal share for each of the `due` calls without one, and returns the share of this call.
    pub fn share(&self, budget_account: &Arc<BudgetAccount>, call: &str, due: &[String]) -> BudgetAllocation {
        let mut allocated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        allocated.retain(|earlier| due.contains(earlier));
        let count = due.iter().filter(|call| !allocated.contains(*call)).count();
        allocated.insert(call.to_owned());
        // The other calls allocate theirs when they begin; until then the budget returns to the account.
        budget_account.allocate(&vec![Budget::default(); count.max(1)]).swap_remove(0)
    }
}
