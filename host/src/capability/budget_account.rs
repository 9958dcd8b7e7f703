//! What a run has left to spend, alone and divided among those that it delegates to.

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

/// Amounts of what is divided: tokens, pico-dollars, tool calls, in this order.
type BudgetAmounts = [u64; 3];
const TOKENS: usize = 0;
const MONEY: usize = 1;
const CALLS: usize = 2;

/// What one run of an agent may still spend. Shared by reference; every operation is one short critical section.
///
/// A purse is made from a [`Budget`] or [carved](Self::carve) out of another. What is carved out is set aside in the
/// parent at once. When the child is settled, what it spent counts as spent by the parent and the rest returns to it, so
/// nothing is ever promised twice, and in the end the parent has spent exactly what was charged to it and below it.
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
    /// Promised to children that are not settled. Counted only for what is bounded.
    set_aside: BudgetAmounts,
    settled: bool,
}

impl BudgetAccountState {
    fn after(BudgetBreakdown { own, of_children }: BudgetBreakdown) -> Self {
        Self { own, of_children, ..Self::default() }
    }
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// Tokens.
    pub usage: Usage,
    /// Money.
    pub usd: Usd,
    /// Calls of tools.
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

/// Who spent what of a purse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetBreakdown {
    /// By the run itself.
    pub own: BudgetUsage,
    /// By those that it delegated to, theirs included, as far as they are settled.
    pub of_children: BudgetUsage,
}

impl BudgetBreakdown {
    /// By all of them.
    pub fn total(&self) -> BudgetUsage {
        let mut total = self.own;
        total += self.of_children;
        total
    }
}

/// What was spent beyond the bounds: a vendor reports what it likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BudgetOvershoot {
    /// Tokens.
    pub tokens: u64,
    /// Money.
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

/// A share that was carved before, out of a purse that is [restored](BudgetAccount::restored).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredAllocation {
    /// What it was bounded by, as [`BudgetAllocation::bounds`] said.
    pub bounds: AllocationBounds,
    /// The time that it was given.
    pub time: Option<Duration>,
    /// When it was carved: as long ago as its run was at work.
    pub start: Instant,
    /// What was spent of it.
    pub spent: BudgetBreakdown,
}

impl BudgetAccount {
    /// A purse of its own, for a run that began at `start`.
    pub fn new(budget: &Budget, start: Instant) -> Arc<Self> {
        Self::restored(budget, start, BudgetBreakdown::default())
    }

    /// A purse of its own, for a run that began at `start`, as long ago as it was at work, and that has spent this since.
    /// What it had given to children that were not settled has to be [carved again](Self::carve_exactly).
    pub fn restored(budget: &Budget, start: Instant, spent: BudgetBreakdown) -> Arc<Self> {
        let deadline = budget.time.and_then(|time| start.checked_add(time));
        let state = Mutex::new(BudgetAccountState::after(spent));
        Arc::new(Self { bounds: amounts(budget), start, deadline, parent: None, state })
    }

    /// What is left: nothing of what is bounded once the purse is settled, and less while children have their shares.
    pub fn left(&self) -> Budget {
        let [tokens, usd, tool_calls] = self.lefts(&self.state());
        let time = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        Budget { tokens, usd: usd.map(Usd::from_pico), tool_calls, time }
    }

    /// The moment when its time is up.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Who spent what so far.
    pub fn spent(&self) -> BudgetBreakdown {
        let state = self.state();
        BudgetBreakdown { own: state.own, of_children: state.of_children }
    }

    /// What was spent beyond the bounds, by the run itself and its settled children.
    pub fn overshoot(&self) -> Option<BudgetOvershoot> {
        let [tokens, usd, _] = self.spent().total().amounts();
        let over = |at: usize, spent: u64| self.bounds[at].map_or(0, |bound| spent.saturating_sub(bound));
        let overshoot = BudgetOvershoot { tokens: over(TOKENS, tokens), usd: Usd::from_pico(over(MONEY, usd)) };
        (overshoot.tokens > 0 || overshoot.usd > Usd::ZERO).then_some(overshoot)
    }

    /// Records what a completion used. It is recorded even if it is more than is left, and if the purse was settled in
    /// the meantime it is recorded above as well, so that sums stay exact.
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

    /// Takes one tool call, to be asked before the call.
    ///
    /// # Errors
    ///
    /// [`BudgetExhausted`] if none is left or the time is up; nothing is taken then.
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

    /// Whether another completion may begin. Tool calls do not matter: a run without any can still conclude.
    ///
    /// # Errors
    ///
    /// [`BudgetExhausted`] if no token, no money or no time is left.
    pub fn check(&self) -> Result<(), BudgetExhausted> {
        self.may_complete(&self.state())
    }

    /// The longest reply that a request of about `request_tokens` may ask for: `longest`, or fewer tokens if what is left
    /// does not suffice. Without a `price` money is no bound.
    ///
    /// A request that names none is left so while there is room for [`limits::REPLY_TOKENS_OF_ANY_MODEL`]; its reply may
    /// then overshoot.
    ///
    /// # Errors
    ///
    /// [`BudgetExhausted`] as from [`check`](Self::check), and if what is left does not buy the request and one token of reply.
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

    /// Divides what is left among children that work at once, one for each of `shares`, and sets it aside.
    ///
    /// Of each amount that is bounded here, a child that names one gets that, or what is left for it, in their order. The
    /// others get equal shares of the rest, rounded down, and one such share is kept back so that this run can conclude.
    /// Of an amount without a bound a child has what it names. Its time ends when it says, and not after this run's.
    ///
    /// A share can be 0: [`check`](Self::check) of the child says so. Children that together name all that is left leave
    /// this run nothing until they are settled.
    pub fn carve(self: &Arc<Self>, shares: &[Budget]) -> Vec<BudgetAllocation> {
        let start = Instant::now();
        let carved = |share: &Budget| {
            let Budget { tokens, usd, tool_calls, time } = *share;
            RestoredAllocation {
                bounds: AllocationBounds { tokens, usd, tool_calls },
                time,
                start,
                spent: BudgetBreakdown::default(),
            }
        };
        self.carve_exactly(&shares.iter().map(carved).collect::<Vec<_>>())
    }

    /// An equal share of all that is left for each of these many: the run itself spends nothing while they have it.
    pub fn share_out(self: &Arc<Self>, count: usize) -> Vec<BudgetAllocation> {
        let equal = |left: Option<u64>| left.map(|left| left / u64::try_from(count.max(1)).unwrap_or(u64::MAX));
        let [tokens, usd, tool_calls] = self.lefts(&self.state()).map(equal);
        let share = Budget { tokens, usd: usd.map(Usd::from_pico), tool_calls, time: None };
        self.carve(&vec![share; count])
    }

    /// Carves shares as they were carved before, with what was spent of them since. What was carved later has to be
    /// carved again later.
    ///
    /// Each gets what it was bounded by, and no more than what is left; all is as it was then if nobody has overshot. What
    /// it has spent counts as spent by this run once it is settled, as ever.
    pub fn carve_exactly(self: &Arc<Self>, shares: &[RestoredAllocation]) -> Vec<BudgetAllocation> {
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
                // Whoever is given a share of a run that is over cannot spend it, but what it says it spent is counted.
                state: Mutex::new(BudgetAccountState {
                    settled: state.settled,
                    ..BudgetAccountState::after(share.spent)
                }),
            }))
        };
        let carved = shares.iter().zip(bounds).map(child).collect();
        if state.settled {
            drop(state);
            // They will not be settled any more.
            shares.iter().for_each(|share| self.take_back([0; 3], share.spent.total()));
        }
        carved
    }

    /// Gives what is not spent back to the parent, once.
    fn settle(&self) {
        let mut state = self.state();
        let Some(parent) = self.parent.as_ref().filter(|_| !state.settled) else { return };
        state.settled = true;
        // What children still have comes back through this purse when they are settled.
        let back = |at: usize| self.bounds[at].map_or(0, |bound| bound - state.set_aside[at]);
        let (back, mut spent) = ([back(TOKENS), back(MONEY), back(CALLS)], state.own);
        spent += state.of_children;
        drop(state);
        parent.take_back(back, spent);
    }

    /// Takes back what was set aside for a child, and counts what it spent. A settled purse hands both on.
    fn take_back(&self, back: BudgetAmounts, spent: BudgetUsage) {
        let mut purse = self;
        loop {
            let mut state = purse.state();
            for at in [TOKENS, MONEY, CALLS] {
                // Where there is no bound nothing is set aside, here and above.
                if purse.bounds[at].is_some() {
                    state.set_aside[at] -= back[at];
                }
            }
            state.of_children += spent;
            match &purse.parent {
                Some(parent) if state.settled => purse = parent,
                _ => return,
            }
        }
    }

    /// Fails if the run that it is for is over, by its end or by the clock.
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

    /// Bound, spent, set aside.
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

/// The purse of a child, settled when this goes away.
#[derive(Debug)]
#[must_use = "it is settled when it goes away"]
pub struct BudgetAllocation(Arc<BudgetAccount>);

impl BudgetAllocation {
    /// The purse, for the child's run.
    pub fn purse(&self) -> &Arc<BudgetAccount> {
        &self.0
    }

    /// What it is bounded by, whatever of it is spent.
    pub fn bounds(&self) -> AllocationBounds {
        let [tokens, usd, tool_calls] = self.0.bounds;
        AllocationBounds { tokens, usd: usd.map(Usd::from_pico), tool_calls }
    }

    /// Gives back what is left, and says what was spent.
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
