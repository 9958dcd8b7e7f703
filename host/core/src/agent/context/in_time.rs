use futures_util::{FutureExt, future::Either};

use crate::{agent::outcome::RunError, capability::BudgetAccount};

/// Runs `work` until the time of the budget ends.
pub(crate) fn in_time<T>(
    budget_account: &BudgetAccount,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, RunError>> {
    // Not `async`: an async function would hold the work twice, and every running agent pays for that.
    match budget_account.deadline() {
        None => Either::Left(work.map(Ok)),
        Some(deadline) => Either::Right(tokio::time::timeout_at(deadline, work).map(|done| {
            done.map_err(|_| budget_account.check().map_or_else(RunError::Budget, |()| RunError::Cancelled))
        })),
    }
}
