//! The budget account of a run, from which it allocates to the runs that it delegates to.

use std::{
    fmt,
    ops::AddAssign,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{AllocationBounds, Budget, BudgetExhausted, Price, Usd, budget::smaller};
use crate::{chat::Usage, limits};

/// Amounts of the divisible resources: tokens, pico-dollars, tool calls, in this order.
type BudgetAmounts = [u64; 3];
const TOKENS: usize = 0;
const MONEY: usize = 1;
const CALLS: usize = 2;

/// The remaining budget of one run. Shared by reference; every operation is one short critical section.
///
/// An account is created from a [`Budget`] or [allocated](Self::allocate) from another account. An allocation is set aside in
/// the parent account at once. When the child account is settled, what it spent counts as spent by the parent and the rest
/// returns to the parent. So no amount is promised twice, and in the end the parent has spent exactly what was charged to it
/// and to its descendants.
#[derive(Debug)]
pub struct BudgetAccount {
    bounds: [Option<u64>; 3],
    start: Instant,
    deadline: Option<Instant>,
    parent: Option<Arc<BudgetAccount>>,
    state: Mutex<BudgetAccountState>,
}

#[derive(Debug, Default)]
struct BudgetAccountState {
    own: BudgetUsage,
    of_children: BudgetUsage,
    /// Amounts promised to unsettled children. Counted only for bounded resources.
    set_aside: BudgetAmounts,
    settled: bool,
}

impl BudgetAccountState {
    fn after(BudgetBreakdown { own, of_children }: BudgetBreakdown) -> Self {
        Self { own, of_children, ..Self::default() }
    }
}

/// Amounts spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// Tokens.
    pub usage: Usage,
    /// Cost in US dollars.
    pub usd: Usd,
    /// Tool calls.
    pub tool_calls: u64,
}

impl BudgetUsage {
    fn amounts(&self) -> BudgetAmounts {
        [self.usage.total(), self.usd.pico(), self.tool_calls]
    }
}

impl AddAssign for BudgetUsage {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.usd = self.usd.saturating_add(other.usd);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
    }
}

/// The amounts spent from an account, by spender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetBreakdown {
    /// Spent by the run itself.
    pub own: BudgetUsage,
    /// Spent by settled children, including their descendants.
    pub of_children: BudgetUsage,
}

impl BudgetBreakdown {
    /// Returns the sum of both.
    pub fn total(&self) -> BudgetUsage {
        let mut total = self.own;
        total += self.of_children;
        total
    }
}

/// The amount by which spending exceeds the bounds, since the usage that a vendor reports is out of the host's control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BudgetOvershoot {
    /// Tokens.
    pub tokens: u64,
    /// Cost in US dollars.
    pub usd: Usd,
}

impl fmt::Display for BudgetOvershoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tokens, self.usd) {
            (tokens, Usd::ZERO) => write!(f, "{tokens} tokens"),
            (0, usd) => write!(f, "{usd}"),
            (tokens, usd) => write!(f, "{tokens} tokens and {usd}"),
        }
    }
}

/// An earlier allocation, to be repeated from an account that is [restored](BudgetAccount::restored).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredAllocation {
    /// The bounds, as returned by [`BudgetAllocation::bounds`].
    pub bounds: AllocationBounds,
    /// The time limit that the child was given.
    pub time: Option<Duration>,
    /// The time of the allocation, shifted so that the elapsed time equals the time that its run was at work.
    pub start: Instant,
    /// The amounts spent from it.
    pub spent: BudgetBreakdown,
}

impl BudgetAccount {
    /// Creates a root account for a run that began at `start`.
    pub fn new(budget: &Budget, start: Instant) -> Arc<Self> {
        Self::restored(budget, start, BudgetBreakdown::default())
    }

    /// Restores a root account that has spent `spent`. `start` is shifted so that the elapsed time equals the time that the
    /// run was at work. Allocations of unsettled children have to be [repeated](Self::restore_allocations).
    pub fn restored(budget: &Budget, start: Instant, spent: BudgetBreakdown) -> Arc<Self> {
        let deadline = budget.time.and_then(|time| start.checked_add(time));
        let state = Mutex::new(BudgetAccountState::after(spent));
        Arc::new(Self { bounds: amounts(budget), start, deadline, parent: None, state })
    }

    /// Returns what is left: 0 of each bounded amount once the account is settled, and less while children hold allocations.
    pub fn left(&self) -> Budget {
        let [tokens, usd, tool_calls] = self.lefts(&self.state());
        let time = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        Budget { tokens, usd: usd.map(Usd::from_pico), tool_calls, time }
    }

    /// Returns the time at which the time limit expires.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the amounts spent so far.
    pub fn spent(&self) -> BudgetBreakdown {
        let state = self.state();
        BudgetBreakdown { own: state.own, of_children: state.of_children }
    }

    /// Returns the amount spent beyond the bounds, by the run itself and its settled children.
    pub fn overshoot(&self) -> Option<BudgetOvershoot> {
        let [tokens, usd, _] = self.spent().total().amounts();
        let over = |at: usize, spent: u64| self.bounds[at].map_or(0, |bound| spent.saturating_sub(bound));
        let overshoot = BudgetOvershoot { tokens: over(TOKENS, tokens), usd: Usd::from_pico(over(MONEY, usd)) };
        (overshoot.tokens > 0 || overshoot.usd > Usd::ZERO).then_some(overshoot)
    }

    /// Records the usage of a completion, even if it exceeds what is left. If the account is already settled, the usage is
    /// also recorded in its ancestors, so that sums stay exact.
    pub fn charge(&self, usage: &Usage, cost: Usd) {
        let spent = BudgetUsage { usage: *usage, usd: cost, tool_calls: 0 };
        let settled = {
            let mut state = self.state();
            state.own += spent;
            state.settled
        };
        if let (true, Some(parent)) = (settled, &self.parent) {
            parent.take_back([0; 3], spent);
        }
    }

    /// Records what a child has spent that has no allocation.
    pub(crate) fn charge_child(&self, spent: BudgetUsage) {
        self.take_back([0; 3], spent);
    }

    /// Takes one tool call from the account; to be called before the tool call.
    ///
    /// # Errors
    ///
    /// [`BudgetExhausted`] if no call is left or the time is up; the account is unchanged then.
    pub fn take_call(&self) -> Result<(), BudgetExhausted> {
        let mut state = self.state();
        self.goes_on(&state)?;
        if self.lefts(&state)[CALLS] == Some(0) {
            let [bound, spent, set_aside] = self.figures(CALLS, &state);
            return Err(BudgetExhausted::ToolCalls { bound, spent, set_aside });
        }
        state.own.tool_calls = state.own.tool_calls.saturating_add(1);
        Ok(())
    }

    /// Checks that another completion may begin. Tool calls are ignored: a run without any can still conclude.
    ///
    /// # Errors
    ///
    /// [`BudgetExhausted`] if no token, no money or no time is left.
    pub fn check(&self) -> Result<(), BudgetExhausted> {
        self.may_complete(&self.state())
    }

    /// Returns the reply limit for a request of about `request_tokens`: `longest`, or fewer tokens if what is left does not
    /// suffice. Without a `price`, money does not limit the reply.
    ///
    /// A request without a limit stays without one while there is room for [`limits::REPLY_TOKENS_OF_ANY_MODEL`]; its reply
    /// may then overshoot.
    ///
    /// # Errors
    ///
    /// [`BudgetExhausted`] as from [`check`](Self::check), and if what is left does not pay for the request and one token of
    /// reply.
    pub fn clamp(
        &self,
        longest: Option<u32>,
        request_tokens: u64,
        price: Option<&Price>,
    ) -> Result<Option<u32>, BudgetExhausted> {
        let state = self.state();
        self.may_complete(&state)?;
        let [tokens, money, _] = self.lefts(&state);
        let by_tokens = tokens.map(|left| left.saturating_sub(request_tokens));
        if by_tokens == Some(0) {
            return Err(self.no_tokens(&state, request_tokens.saturating_add(1)));
        }
        let by_money = money.zip(price).map(|(left, price)| {
            let buys = price.reply_tokens(Usd::from_pico(left), request_tokens).filter(|tokens| *tokens > 0);
            buys.ok_or_else(|| self.no_money(&state, price.at_most(request_tokens, 1)))
        });
        let room = smaller(by_tokens, by_money.transpose()?);
        Ok(match longest {
            Some(longest) => Some(room.map_or(longest, |room| longest.min(u32::try_from(room).unwrap_or(u32::MAX)))),
            None => {
                room.filter(|room| *room < limits::REPLY_TOKENS_OF_ANY_MODEL).and_then(|room| u32::try_from(room).ok())
            }
        })
    }

    /// Divides what is left among children that work at once, one per element of `shares`, and sets it aside.
    ///
    /// For each amount that is bounded here, a child that names one gets that amount, or what is left of it, in order. The
    /// other children get equal parts of the rest, rounded down, and one such part is kept back so that this run can
    /// conclude. For an unbounded amount, a child gets what it names. A child's time ends when its share says, but not after
    /// this run's time.
    ///
    /// An allocation can be 0: [`check`](Self::check) of the child reports it. Children that together name everything that
    /// is left leave this run nothing until they are settled.
    pub fn allocate(self: &Arc<Self>, shares: &[Budget]) -> Vec<BudgetAllocation> {
        let start = Instant::now();
        let allocated = |share: &Budget| {
            let Budget { tokens, usd, tool_calls, time } = *share;
            RestoredAllocation {
                bounds: AllocationBounds { tokens, usd, tool_calls },
                time,
                start,
                spent: BudgetBreakdown::default(),
            }
        };
        self.allocate_with_past(&shares.iter().map(allocated).collect::<Vec<_>>())
    }

    /// Allocates an equal part of all that is left to each of `count` children: the run itself spends nothing while they
    /// hold it.
    pub fn share_out(self: &Arc<Self>, count: usize) -> Vec<BudgetAllocation> {
        let equal = |left: Option<u64>| left.map(|left| left / u64::try_from(count.max(1)).unwrap_or(u64::MAX));
        let [tokens, usd, tool_calls] = self.lefts(&self.state()).map(equal);
        let share = Budget { tokens, usd: usd.map(Usd::from_pico), tool_calls, time: None };
        self.allocate(&vec![share; count])
    }

    /// Repeats earlier allocations, including what was spent from them since. Allocations made later have to be repeated
    /// later.
    ///
    /// Each gets its earlier bounds, but no more than what is left; the result equals the earlier state unless an account
    /// has overshot. As always, what an allocation has spent counts as spent by this run once it is settled.
    pub fn restore_allocations(self: &Arc<Self>, shares: &[RestoredAllocation]) -> Vec<BudgetAllocation> {
        self.allocate_with_past(shares)
    }

    /// Sets the shares aside, each with what was spent from it before, which is nothing for a new one.
    fn allocate_with_past(self: &Arc<Self>, shares: &[RestoredAllocation]) -> Vec<BudgetAllocation> {
        let mut state = self.state();
        let left = self.lefts(&state);
        let mut bounds: Vec<_> = shares.iter().map(|share| of_bounds(&share.bounds)).collect();
        for at in [TOKENS, MONEY, CALLS] {
            let Some(mut rest) = left[at] else { continue };
            let mut unnamed = 0;
            for bound in &mut bounds {
                match &mut bound[at] {
                    Some(named) => {
                        *named = rest.min(*named);
                        rest -= *named;
                    }
                    None => unnamed += 1,
                }
            }
            let equal = rest / (unnamed + 1);
            for bound in &mut bounds {
                state.set_aside[at] += *bound[at].get_or_insert(equal);
            }
        }
        let child = |(share, bounds): (&RestoredAllocation, [Option<u64>; 3])| {
            let named = share.time.and_then(|time| share.start.checked_add(time));
            BudgetAllocation(Arc::new(Self {
                bounds,
                start: share.start,
                deadline: smaller(self.deadline, named),
                parent: Some(self.clone()),
                // An allocation from a settled account cannot be spent, but usage charged to it is still counted.
                state: Mutex::new(BudgetAccountState {
                    settled: state.settled,
                    ..BudgetAccountState::after(share.spent)
                }),
            }))
        };
        let allocated = shares.iter().zip(bounds).map(child).collect();
        if state.settled {
            drop(state);
            // These allocations will not be settled any more.
            shares.iter().for_each(|share| self.take_back([0; 3], share.spent.total()));
        }
        allocated
    }

    /// Returns what is unspent to the parent, once.
    fn settle(&self) {
        let mut state = self.state();
        let Some(parent) = self.parent.as_ref().filter(|_| !state.settled) else { return };
        state.settled = true;
        // What children still hold comes back through this account when they are settled.
        let back = |at: usize| self.bounds[at].map_or(0, |bound| bound - state.set_aside[at]);
        let (back, mut spent) = ([back(TOKENS), back(MONEY), back(CALLS)], state.own);
        spent += state.of_children;
        drop(state);
        parent.take_back(back, spent);
    }

    /// Takes back the reservation of a child and counts what it spent. A settled account passes both on to its parent.
    fn take_back(&self, back: BudgetAmounts, spent: BudgetUsage) {
        let mut budget_account = self;
        loop {
            let mut state = budget_account.state();
            for at in [TOKENS, MONEY, CALLS] {
                // For an unbounded amount nothing is set aside, here or in the ancestors.
                if budget_account.bounds[at].is_some() {
                    state.set_aside[at] -= back[at];
                }
            }
            state.of_children += spent;
            match &budget_account.parent {
                Some(parent) if state.settled => budget_account = parent,
                _ => return,
            }
        }
    }

    /// Fails if the account's run is over or its time is up.
    fn goes_on(&self, state: &BudgetAccountState) -> Result<(), BudgetExhausted> {
        if state.settled {
            return Err(BudgetExhausted::Settled);
        }
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => {
                Err(BudgetExhausted::Time { bound: deadline.saturating_duration_since(self.start) })
            }
            _ => Ok(()),
        }
    }

    fn may_complete(&self, state: &BudgetAccountState) -> Result<(), BudgetExhausted> {
        self.goes_on(state)?;
        let left = self.lefts(state);
        if left[TOKENS] == Some(0) {
            return Err(self.no_tokens(state, 0));
        }
        if left[MONEY] == Some(0) {
            return Err(self.no_money(state, Usd::ZERO));
        }
        Ok(())
    }

    fn lefts(&self, state: &BudgetAccountState) -> [Option<u64>; 3] {
        let mut total = state.own;
        total += state.of_children;
        let spent = total.amounts();
        let left = |at: usize| match self.bounds[at]? {
            _ if state.settled => Some(0),
            bound => Some(bound.saturating_sub(spent[at]).saturating_sub(state.set_aside[at])),
        };
        [left(TOKENS), left(MONEY), left(CALLS)]
    }

    /// Returns bound, spent, set aside.
    fn figures(&self, at: usize, state: &BudgetAccountState) -> [u64; 3] {
        let mut total = state.own;
        total += state.of_children;
        [self.bounds[at].unwrap_or(u64::MAX), total.amounts()[at], state.set_aside[at]]
    }

    fn no_tokens(&self, state: &BudgetAccountState, needed: u64) -> BudgetExhausted {
        let [bound, spent, set_aside] = self.figures(TOKENS, state);
        BudgetExhausted::Tokens { bound, spent, set_aside, needed }
    }

    fn no_money(&self, state: &BudgetAccountState, needed: Usd) -> BudgetExhausted {
        let [bound, spent, set_aside] = self.figures(MONEY, state).map(Usd::from_pico);
        BudgetExhausted::Money { bound, spent, set_aside, needed }
    }

    fn state(&self) -> MutexGuard<'_, BudgetAccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn amounts(budget: &Budget) -> [Option<u64>; 3] {
    [budget.tokens, budget.usd.map(Usd::pico), budget.tool_calls]
}

fn of_bounds(bounds: &AllocationBounds) -> [Option<u64>; 3] {
    [bounds.tokens, bounds.usd.map(Usd::pico), bounds.tool_calls]
}

/// The account of a child; it is settled on drop.
#[derive(Debug)]
#[must_use = "it is settled when it goes away"]
pub struct BudgetAllocation(Arc<BudgetAccount>);

impl BudgetAllocation {
    /// Returns the account, for the child's run.
    pub fn budget_account(&self) -> &Arc<BudgetAccount> {
        &self.0
    }

    /// Returns the bounds, regardless of what is spent.
    pub fn bounds(&self) -> AllocationBounds {
        let [tokens, usd, tool_calls] = self.0.bounds;
        AllocationBounds { tokens, usd: usd.map(Usd::from_pico), tool_calls }
    }

    /// Returns what is left to the parent, and reports what was spent.
    pub fn settle(self) -> BudgetBreakdown {
        self.0.settle();
        self.0.spent()
    }
}

impl Drop for BudgetAllocation {
    fn drop(&mut self) {
        self.0.settle();
    }
}

#[cfg(test)]
mod tests;
