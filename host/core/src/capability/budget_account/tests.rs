use std::{collections::BTreeMap, time::Duration};

use proptest::{collection::vec, option, prelude::*, sample::Index};

use super::*;
use crate::error::Fault;

fn usage(tokens: u64) -> Usage {
    Usage { input_tokens: tokens, ..Usage::default() }
}

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), ..Budget::default() }
}

fn dollars(text: &str) -> Usd {
    text.parse().unwrap()
}

fn budget_account(budget: Budget) -> Arc<BudgetAccount> {
    BudgetAccount::new(&budget, Instant::now())
}

/// $3 per million input tokens, $15 per million output tokens.
fn price() -> Price {
    let input = dollars("3");
    Price { input, output: dollars("15"), cache_read: dollars("0.3"), cache_write: input }
}

#[test]
fn budget_account_without_bounds_counts_usage() {
    let budget_account = budget_account(Budget::default());
    budget_account.charge(&usage(u64::MAX), dollars("5"));
    budget_account.charge(&usage(7), dollars("0.01"));
    budget_account.take_call().unwrap();
    assert_eq!(budget_account.check(), Ok(()));
    assert_eq!(budget_account.left(), Budget::default());
    assert_eq!(budget_account.overshoot(), None);
    let own = BudgetUsage { usage: usage(u64::MAX), usd: dollars("5.01"), tool_calls: 1 };
    assert_eq!(budget_account.spent(), BudgetBreakdown { own, of_children: BudgetUsage::default() });
}

#[test]
fn exhausted_budget_error_has_figures() {
    let bound = Budget { usd: Some(dollars("0.50")), tool_calls: Some(2), ..tokens(1_000) };
    for (spent, cost, says) in [
        (999, "0.4999", None),
        (1_000, "0", Some("the budget of 1000 tokens is used up: 1000 spent")),
        (1_300, "0.70", Some("the budget of 1000 tokens is used up: 1300 spent")),
        (0, "0.50", Some("the budget of $0.50 is used up: $0.50 spent")),
    ] {
        let budget_account = budget_account(bound);
        budget_account.charge(&usage(spent), dollars(cost));
        assert_eq!(budget_account.check().err().map(|error| error.to_string()).as_deref(), says, "{spent} {cost}");
    }
    let budget_account = budget_account(bound);
    let share = budget_account.allocate(&[Budget { tool_calls: Some(1), ..tokens(600) }]);
    assert_eq!(budget_account.take_call(), Ok(()));
    let error = budget_account.take_call().unwrap_err();
    assert_eq!(error.to_string(), "the budget of 2 tool calls is used up: 1 spent, 1 reserved for delegated work");
    assert_eq!(budget_account.check(), Ok(()), "it can still conclude");
    assert_eq!(budget_account.spent().own.tool_calls, 1, "nothing was taken in vain");
    drop(share);
    assert_eq!(budget_account.take_call(), Ok(()));
    let fault = Fault::from(budget_account.take_call().unwrap_err());
    let message = "the budget of 2 tool calls is used up: 2 spent; finish with what you have".into();
    assert_eq!(fault, Fault::Exhausted { message });
}

#[tokio::test(start_paused = true)]
async fn budget_time_limit_expires() {
    let minute = Duration::from_secs(60);
    let budget_account = budget_account(Budget { time: Some(minute), ..Budget::default() });
    tokio::time::advance(minute / 2).await;
    // Named and longer than what is left; named and shorter; not named.
    let shares = [Some(minute), Some(minute / 6), None].map(|time| Budget { time, ..Budget::default() });
    let shares = budget_account.allocate(&shares);
    let left: Vec<_> = shares.iter().map(|share| share.budget_account().left().time.unwrap().as_secs()).collect();
    assert_eq!(left, [30, 10, 30]);
    tokio::time::advance(minute / 6).await;
    let checks = |budget_account: &BudgetAccount| {
        (budget_account.check(), budget_account.take_call(), budget_account.clamp(None, 0, None))
    };
    let up = BudgetExhausted::Time { bound: minute / 6 };
    assert_eq!(checks(shares[1].budget_account()), (Err(up), Err(up), Err(up)));
    assert_eq!(checks(shares[0].budget_account()), (Ok(()), Ok(()), Ok(None)));
    tokio::time::advance(minute).await;
    assert_eq!(budget_account.check().unwrap_err().to_string(), "the time budget of 1m is used up");
    assert_eq!(budget_account.left().time, Some(Duration::ZERO));
    let late = budget_account.allocate(&[Budget::default()]);
    assert_eq!(late[0].budget_account().check(), Err(BudgetExhausted::Time { bound: Duration::ZERO }));
}

#[test]
fn budget_time_beyond_the_clock_is_unbounded() {
    let budget_account = budget_account(Budget { time: Some(Duration::MAX), ..Budget::default() });
    assert_eq!((budget_account.check(), budget_account.deadline()), (Ok(()), None));
}

#[test]
fn reply_limit_is_clamped_to_the_remaining_budget() {
    let any = limits::REPLY_TOKENS_OF_ANY_MODEL;
    let money = |text| Budget { usd: Some(dollars(text)), ..Budget::default() };
    let (tokens_say, money_says) = (
        |needed| format!("the budget of 100 tokens is used up: 0 spent, about {needed} needed for the next request"),
        |bound, needed| {
            format!("the budget of {bound} is used up: $0.00 spent, about {needed} needed for the next request")
        },
    );
    for (budget, longest, request, price, clamped) in [
        (Budget::default(), None, u64::MAX, Some(price()), Ok(None)),
        (Budget::default(), Some(5), u64::MAX, Some(price()), Ok(Some(5))),
        (tokens(100), Some(1_000), 30, None, Ok(Some(70))),
        (tokens(100), Some(50), 30, None, Ok(Some(50))),
        (tokens(100), None, 99, None, Ok(Some(1))),
        (tokens(100), None, 100, None, Err(tokens_say("101"))),
        (tokens(100), Some(1), 200, None, Err(tokens_say("201"))),
        // A request without a limit gets one only when there is room for less than any model writes.
        (tokens(any + 10), None, 10, None, Ok(None)),
        (tokens(any + 10), None, 11, None, Ok(Some(any as u32 - 1))),
        (tokens(u64::MAX), Some(u32::MAX), 0, None, Ok(Some(u32::MAX))),
        // $0.003 for the request leaves the price of 100 tokens.
        (money("0.0045"), Some(1_000), 1_000, Some(price()), Ok(Some(100))),
        (money("0.0045"), None, 1_000, Some(price()), Ok(Some(100))),
        (money("0.0045"), None, 1_000, None, Ok(None)),
        (money("0.003"), None, 1_000, Some(price()), Err(money_says("$0.003", "$0.003015"))),
        (money("0.002"), None, 1_000, Some(price()), Err(money_says("$0.002", "$0.003015"))),
        // The tighter of both.
        (Budget { tokens: Some(1_050), ..money("0.0045") }, None, 1_000, Some(price()), Ok(Some(50))),
        (Budget { tokens: Some(1_150), ..money("0.0045") }, None, 1_000, Some(price()), Ok(Some(100))),
    ] {
        let clamp = budget_account(budget).clamp(longest, request, price.as_ref());
        assert_eq!(clamp.map_err(|error| error.to_string()), clamped, "{budget:?} {longest:?} {request}");
    }
}

#[test]
fn budget_allocations_are_named_amounts_or_equal_parts() {
    let none = Budget::default();
    for (bound, shares, get, left) in [
        // One more part is kept back.
        (Some(100), vec![none; 3], vec![25; 3], 25),
        (Some(103), vec![none; 3], vec![25; 3], 28),
        (Some(2), vec![none; 3], vec![0; 3], 2),
        (Some(100), vec![none], vec![50], 50),
        // Named amounts first, in order; then equal parts of the rest.
        (Some(100), vec![none, tokens(40)], vec![30, 40], 30),
        (Some(100), vec![tokens(70), tokens(70), none], vec![70, 30, 0], 0),
        (Some(100), vec![tokens(10), tokens(20)], vec![10, 20], 70),
        (Some(100), vec![], vec![], 100),
        (None, vec![tokens(7), none], vec![7, u64::MAX], u64::MAX),
    ] {
        let budget_account = budget_account(Budget { tokens: bound, ..none });
        let allocated = budget_account.allocate(&shares);
        let left_of = |budget_account: &Arc<BudgetAccount>| budget_account.left().tokens.unwrap_or(u64::MAX);
        assert_eq!(
            allocated.iter().map(|share| left_of(share.budget_account())).collect::<Vec<_>>(),
            get,
            "{bound:?} {shares:?}"
        );
        assert_eq!(left_of(&budget_account), left, "{bound:?} {shares:?}");
        drop(allocated);
        assert_eq!(budget_account.left().tokens, bound, "{shares:?}");
    }
}

#[test]
fn child_spending_counts_for_the_parent_account() {
    let parent = budget_account(tokens(1_000));
    parent.charge(&usage(100), dollars("0.1"));
    let share = parent.allocate(&[tokens(300)]).pop().unwrap();
    let child = share.budget_account().clone();
    child.charge(&usage(250), dollars("0.2"));
    child.take_call().unwrap();
    assert_eq!((parent.left().tokens, child.left().tokens), (Some(600), Some(50)));
    let spent = BudgetUsage { usage: usage(250), usd: dollars("0.2"), tool_calls: 1 };
    assert_eq!(share.settle(), BudgetBreakdown { own: spent, of_children: BudgetUsage::default() });
    let own = BudgetUsage { usage: usage(100), usd: dollars("0.1"), tool_calls: 0 };
    assert_eq!(parent.spent(), BudgetBreakdown { own, of_children: spent });
    assert_eq!(parent.left().tokens, Some(650));
    assert_eq!((child.check(), child.take_call()), (Err(BudgetExhausted::Settled), Err(BudgetExhausted::Settled)));
    assert_eq!(child.left().tokens, Some(0));
    assert!(child.allocate(&[tokens(5), Budget::default()]).iter().all(|late| late.budget_account().check().is_err()));
    // A reply that arrives after the end is charged all the same.
    child.charge(&usage(1_000), Usd::ZERO);
    assert_eq!(parent.spent().of_children.usage, usage(1_250));
    assert_eq!(parent.left().tokens, Some(0));
    assert_eq!(parent.overshoot(), Some(BudgetOvershoot { tokens: 350, usd: Usd::ZERO }));
}

#[test]
fn budget_overshoot_shows_in_account_and_ancestors() {
    let parent = budget_account(Budget { usd: Some(dollars("1")), ..tokens(1_000) });
    let share = parent.allocate(&[Budget { usd: Some(dollars("0.2")), ..tokens(300) }]).pop().unwrap();
    share.budget_account().charge(&usage(400), dollars("0.25"));
    assert_eq!(share.budget_account().overshoot(), Some(BudgetOvershoot { tokens: 100, usd: dollars("0.05") }));
    assert_eq!(parent.overshoot(), None);
    drop(share);
    assert_eq!((parent.left().tokens, parent.left().usd), (Some(600), Some(dollars("0.75"))));
    assert_eq!(parent.overshoot(), None, "there was room for it");
}

#[test]
fn concurrent_calls_never_exceed_the_call_budget() {
    let budget_account = budget_account(Budget { tool_calls: Some(1_000), ..Budget::default() });
    let share = budget_account.allocate(&[Budget { tool_calls: Some(400), ..Budget::default() }]).pop().unwrap();
    let take = |budget_account: &BudgetAccount| (0..300).filter(|_| budget_account.take_call().is_ok()).count();
    let (of_parent, of_child) = std::thread::scope(|scope| {
        let [mine, theirs] = [&budget_account, share.budget_account()]
            .map(|budget_account| (0..4).map(|_| scope.spawn(|| take(budget_account))).collect::<Vec<_>>());
        let sum = |threads: Vec<std::thread::ScopedJoinHandle<'_, usize>>| {
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        };
        (sum(mine), sum(theirs))
    });
    assert_eq!((of_parent, of_child), (600, 400));
}

/// One step of a run in a tree of runs.
#[derive(Debug, Clone)]
enum Step {
    Carve(Index, Vec<Budget>),
    Charge(Index, u64, u64),
    Call(Index),
    Settle(Index),
}

fn budget(most: u64, named: f64) -> impl Strategy<Value = Budget> {
    let amount = || option::weighted(named, 0..most);
    (amount(), amount(), amount()).prop_map(|(tokens, usd, tool_calls)| Budget {
        tokens,
        usd: usd.map(Usd::from_pico),
        tool_calls,
        time: None,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (any::<Index>(), vec(budget(400, 0.5), 0..4)).prop_map(|(at, shares)| Step::Carve(at, shares)),
        3 => (any::<Index>(), 0..200_u64, 0..200_u64).prop_map(|(at, tokens, pico)| Step::Charge(at, tokens, pico)),
        4 => any::<Index>().prop_map(Step::Call),
        1 => any::<Index>().prop_map(Step::Settle),
    ];
    vec(step, 0..60)
}

/// A tree of accounts: all accounts that ever existed, and the unsettled allocations.
struct Tree {
    budget_accounts: Vec<Arc<BudgetAccount>>,
    shares: Vec<BudgetAllocation>,
    /// The sum of everything charged or taken.
    charged: BudgetUsage,
}

impl Tree {
    fn new(budget: &Budget) -> Self {
        Self { budget_accounts: vec![budget_account(*budget)], shares: Vec::new(), charged: BudgetUsage::default() }
    }

    /// Takes a step. A charge is cut to what is left, unless `freely`.
    fn take(&mut self, step: &Step, freely: bool) {
        match step {
            Step::Carve(at, shares) => {
                let allocated = at.get(&self.budget_accounts).allocate(shares);
                self.budget_accounts.extend(allocated.iter().map(|share| share.budget_account().clone()));
                self.shares.extend(allocated);
            }
            Step::Charge(at, tokens, pico) => {
                let budget_account = at.get(&self.budget_accounts);
                let left = if freely { Budget::default() } else { budget_account.left() };
                let tokens = left.tokens.map_or(*tokens, |left| left.min(*tokens));
                let usd = left.usd.map_or(Usd::from_pico(*pico), |left| left.min(Usd::from_pico(*pico)));
                budget_account.charge(&usage(tokens), usd);
                self.charged += BudgetUsage { usage: usage(tokens), usd, tool_calls: 0 };
            }
            Step::Call(at) => {
                let budget_account = at.get(&self.budget_accounts);
                let left = budget_account.left().tool_calls;
                let taken = budget_account.take_call().is_ok();
                assert!(!taken || left != Some(0));
                self.charged.tool_calls += u64::from(taken);
            }
            Step::Settle(at) => {
                if !self.shares.is_empty() {
                    drop(self.shares.swap_remove(at.index(self.shares.len())));
                }
            }
        }
    }

    /// Returns what all accounts together may still spend, of each amount.
    fn left(&self) -> [Option<u64>; 3] {
        let add = |sum: [Option<u64>; 3], budget_account: &Arc<BudgetAccount>| {
            let left = amounts(&budget_account.left());
            [TOKENS, MONEY, CALLS].map(|at| Some(sum[at]? + left[at]?))
        };
        self.budget_accounts.iter().fold([Some(0); 3], add)
    }
}

proptest! {
    #[test]
    fn spending_within_limits_sums_to_the_bound(bound in budget(2_000, 0.8), steps in steps()) {
        let mut tree = Tree::new(&bound);
        for step in &steps {
            tree.take(step, false);
            let (left, charged) = (tree.left(), tree.charged.amounts());
            for at in [TOKENS, MONEY, CALLS] {
                if let Some(bound) = amounts(&bound)[at] {
                    // No amount is promised twice, and none is lost.
                    prop_assert_eq!(left[at].unwrap() + charged[at], bound, "{} after {:?}", at, step);
                }
            }
        }
        prop_assert!(tree.budget_accounts.iter().all(|budget_account| budget_account.overshoot().is_none()));
        tree.shares.clear();
        let (root, left) = (&tree.budget_accounts[0], amounts(&tree.budget_accounts[0].left()));
        prop_assert_eq!(root.spent().total(), tree.charged);
        for at in [TOKENS, MONEY, CALLS] {
            prop_assert_eq!(left[at], amounts(&bound)[at].map(|bound| bound - tree.charged.amounts()[at]));
        }
    }

    #[test]
    fn budget_sums_are_exact_after_overshoot(bound in budget(2_000, 0.8), steps in steps()) {
        let mut tree = Tree::new(&bound);
        for step in &steps {
            tree.take(step, true);
            let left = tree.left();
            for at in [TOKENS, MONEY, CALLS] {
                if let Some(bound) = amounts(&bound)[at] {
                    prop_assert!(left[at].unwrap() <= bound, "{} after {:?}", at, step);
                }
            }
            if let Some(calls) = bound.tool_calls {
                prop_assert!(left[CALLS].unwrap() + tree.charged.tool_calls == calls);
            }
        }
        tree.shares.clear();
        let root = &tree.budget_accounts[0];
        prop_assert_eq!(root.spent().total(), tree.charged);
        let [charged_tokens, charged_pico, _] = tree.charged.amounts();
        let overshoot = root.overshoot().unwrap_or(BudgetOvershoot { tokens: 0, usd: Usd::ZERO });
        prop_assert_eq!(overshoot.tokens, bound.tokens.map_or(0, |bound| charged_tokens.saturating_sub(bound)));
        prop_assert_eq!(overshoot.usd.pico(), bound.usd.map_or(0, |bound| charged_pico.saturating_sub(bound.pico())));
        prop_assert_eq!(root.left().tokens, bound.tokens.map(|bound| bound.saturating_sub(charged_tokens)));
    }
}

fn account(own: u64, of_children: u64) -> BudgetBreakdown {
    let spent = |tokens| BudgetUsage { usage: usage(tokens), ..BudgetUsage::default() };
    BudgetBreakdown { own: spent(own), of_children: spent(of_children) }
}

/// Returns an allocation of this many tokens, made just now.
fn allocated(tokens: u64, spent: BudgetBreakdown) -> RestoredAllocation {
    RestoredAllocation {
        bounds: AllocationBounds { tokens: Some(tokens), ..AllocationBounds::default() },
        time: None,
        start: Instant::now(),
        spent,
    }
}

#[tokio::test(start_paused = true)]
async fn restored_budget_account_keeps_elapsed_time() {
    let minute = Duration::from_secs(60);
    let budget = Budget { time: Some(minute), ..Budget::default() };
    let start = Instant::now();
    tokio::time::advance(minute * 2 / 3).await;
    let budget_account = BudgetAccount::restored(&budget, start, BudgetBreakdown::default());
    assert_eq!(budget_account.deadline(), Some(start + minute));
    // Named and longer than what is left; named and shorter; not named.
    let shares = [Some(minute * 2), Some(minute / 2), None];
    let shares = budget_account.restore_allocations(&shares.map(|time| RestoredAllocation {
        time,
        start,
        ..allocated(1, BudgetBreakdown::default())
    }));
    let left: Vec<_> = shares.iter().map(|share| share.budget_account().left().time.unwrap().as_secs()).collect();
    assert_eq!(left, [20, 0, 20]);
    assert_eq!(shares[1].budget_account().check(), Err(BudgetExhausted::Time { bound: minute / 2 }));
    assert_eq!(shares[0].budget_account().check(), Ok(()));
}

#[test]
fn restored_allocation_is_capped_by_the_remaining_budget() {
    for (bound, spent, shares, get, left) in [
        // Unchanged.
        (
            Some(1_000),
            account(100, 50),
            vec![allocated(300, account(200, 10)), allocated(0, account(0, 0))],
            vec![90, 0],
            550,
        ),
        // There is less than before.
        (
            Some(500),
            account(300, 0),
            vec![allocated(300, account(50, 0)), allocated(5, account(0, 0))],
            vec![150, 0],
            0,
        ),
        (Some(500), account(300, 0), vec![allocated(300, account(250, 0))], vec![0], 0),
        (Some(500), account(600, 0), vec![allocated(300, account(0, 0))], vec![0], 0),
        // The amount was unbounded, and now it is bounded.
        (
            Some(500),
            account(100, 0),
            vec![RestoredAllocation { bounds: AllocationBounds::default(), ..allocated(0, account(0, 0)) }],
            vec![200],
            200,
        ),
        (None, account(100, 0), vec![allocated(300, account(50, 0))], vec![250], u64::MAX),
        (Some(u64::MAX), account(0, 0), vec![allocated(u64::MAX, account(7, 0)); 2], vec![u64::MAX - 7, 0], 0),
    ] {
        let budget_account =
            BudgetAccount::restored(&Budget { tokens: bound, ..Budget::default() }, Instant::now(), spent);
        let again = budget_account.restore_allocations(&shares);
        let left_of = |budget_account: &Arc<BudgetAccount>| budget_account.left().tokens.unwrap_or(u64::MAX);
        assert_eq!(
            again.iter().map(|share| left_of(share.budget_account())).collect::<Vec<_>>(),
            get,
            "{bound:?} {shares:?}"
        );
        assert_eq!(left_of(&budget_account), left, "{bound:?} {shares:?}");
        let settled: Vec<_> = again.into_iter().map(BudgetAllocation::settle).collect();
        assert_eq!(settled, shares.iter().map(|share| share.spent).collect::<Vec<_>>(), "it says all that it spent");
        let total = shares.iter().fold(spent.total(), |mut total, share| {
            total += share.spent.total();
            total
        });
        assert_eq!(budget_account.spent().total(), total, "{bound:?} {shares:?}");
    }
}

#[test]
fn late_allocation_of_a_settled_account_counts_once() {
    let root = budget_account(tokens(1_000));
    let share = root.allocate(&[tokens(500)]).pop().unwrap();
    let over = Arc::clone(share.budget_account());
    drop(share);
    let late = over.restore_allocations(&[allocated(100, account(30, 10))]).pop().unwrap();
    assert_eq!((late.bounds().tokens, late.budget_account().check()), (Some(0), Err(BudgetExhausted::Settled)));
    drop(late);
    assert_eq!((root.spent(), root.left().tokens), (account(0, 40), Some(960)));
}

/// A tree of accounts whose children are settled before their parents, as those of runs are.
struct Runs {
    live: BTreeMap<usize, Run>,
    named: usize,
    charged: BudgetUsage,
}

struct Run {
    budget_account: Arc<BudgetAccount>,
    /// Its parent, and the allocation from it; `None` for the first one.
    of: Option<(usize, BudgetAllocation)>,
}

impl Runs {
    fn new(budget_account: Arc<BudgetAccount>) -> Self {
        let charged = budget_account.spent().total();
        Self { live: BTreeMap::from([(0, Run { budget_account, of: None })]), named: 0, charged }
    }

    fn take(&mut self, step: &Step, freely: bool) {
        let at = |at: &Index| *self.live.keys().nth(at.index(self.live.len())).unwrap();
        match step {
            Step::Carve(parent, shares) => {
                let parent = at(parent);
                for share in self.live[&parent].budget_account.allocate(shares) {
                    self.add(parent, share);
                }
            }
            Step::Charge(run, tokens, pico) => {
                let budget_account = &self.live[&at(run)].budget_account;
                let left = if freely { Budget::default() } else { budget_account.left() };
                let tokens = left.tokens.map_or(*tokens, |left| left.min(*tokens));
                let usd = left.usd.map_or(Usd::from_pico(*pico), |left| left.min(Usd::from_pico(*pico)));
                budget_account.charge(&usage(tokens), usd);
                self.charged += BudgetUsage { usage: usage(tokens), usd, tool_calls: 0 };
            }
            Step::Call(run) => {
                let taken = self.live[&at(run)].budget_account.take_call().is_ok();
                self.charged.tool_calls += u64::from(taken);
            }
            Step::Settle(run) => {
                let run = at(run);
                if run != 0 {
                    self.settle(run);
                }
            }
        }
    }

    fn add(&mut self, parent: usize, share: BudgetAllocation) {
        self.named += 1;
        let run = Run { budget_account: Arc::clone(share.budget_account()), of: Some((parent, share)) };
        self.live.insert(self.named, run);
    }

    fn settle(&mut self, run: usize) {
        let is_child = |(_, other): &(&usize, &Run)| other.of.as_ref().is_some_and(|(parent, _)| *parent == run);
        let children: Vec<_> = self.live.iter().filter(is_child).map(|(name, _)| *name).collect();
        children.into_iter().for_each(|child| self.settle(child));
        self.live.remove(&run);
    }

    /// Restores the tree from its recorded form.
    fn restored(&self, budget: &Budget) -> Self {
        let written = |account: BudgetBreakdown| -> BudgetBreakdown {
            serde_json::from_str(&serde_json::to_string(&account).unwrap()).unwrap()
        };
        let start = Instant::now();
        let mut runs = Self::new(BudgetAccount::restored(budget, start, written(self.live[&0].budget_account.spent())));
        runs.charged = self.charged;
        for (name, run) in &self.live {
            let Some((parent, share)) = &run.of else { continue };
            let bounds = serde_json::from_str(&serde_json::to_string(&share.bounds()).unwrap()).unwrap();
            let allocated =
                RestoredAllocation { bounds, time: None, start, spent: written(run.budget_account.spent()) };
            let share = runs.live[parent].budget_account.restore_allocations(&[allocated]).pop().unwrap();
            runs.named = name - 1;
            runs.add(*parent, share);
        }
        runs.named = self.named;
        runs
    }

    fn figures(&self) -> Vec<(usize, Budget, BudgetBreakdown)> {
        self.live.iter().map(|(name, run)| (*name, run.budget_account.left(), run.budget_account.spent())).collect()
    }
}

proptest! {
    #[test]
    fn restored_accounts_equal_uninterrupted_ones(
        bound in budget(2_000, 0.8), steps in steps(), cut in any::<Index>(),
    ) {
        let (before, after) = steps.split_at(cut.index(steps.len() + 1));
        let mut runs = Runs::new(budget_account(bound));
        before.iter().for_each(|step| runs.take(step, false));
        let mut again = runs.restored(&bound);
        prop_assert_eq!(runs.figures(), again.figures());
        for step in after {
            runs.take(step, false);
            again.take(step, false);
            prop_assert_eq!(runs.figures(), again.figures(), "after {:?}", step);
        }
        let children: Vec<_> = again.live.keys().copied().filter(|run| *run != 0).collect();
        children.into_iter().for_each(|run| again.settle(run));
        prop_assert_eq!(again.live[&0].budget_account.spent().total(), again.charged);
    }

    #[test]
    fn restored_budget_sums_are_exact_after_overshoot(
        bound in budget(2_000, 0.8), steps in steps(), cut in any::<Index>(),
    ) {
        let (before, after) = steps.split_at(cut.index(steps.len() + 1));
        let mut runs = Runs::new(budget_account(bound));
        before.iter().for_each(|step| runs.take(step, true));
        let mut again = runs.restored(&bound);
        for ((name, left, spent), (_, left_again, spent_again)) in runs.figures().into_iter().zip(again.figures()) {
            prop_assert_eq!(spent, spent_again, "{}", name);
            prop_assert_eq!(left_again.meet(&left), left_again, "{}", name);
        }
        after.iter().for_each(|step| again.take(step, true));
        let children: Vec<_> = again.live.keys().copied().filter(|run| *run != 0).collect();
        children.into_iter().for_each(|run| again.settle(run));
        prop_assert_eq!(again.live[&0].budget_account.spent().total(), again.charged);
    }
}
