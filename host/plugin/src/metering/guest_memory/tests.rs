use std::time::Duration;

use proptest::{collection::vec, prelude::*};
use tokio::time::{Instant, sleep, timeout};

use super::*;

const PAGE: usize = limits::WASM_PAGE_BYTES;

/// A budget of `pages` pages.
fn budget(pages: usize) -> Arc<GuestMemoryBudget> {
    Arc::new(GuestMemoryBudget::new(pages * PAGE))
}

/// A share of a component and an agent.
fn share(
    budget: &Arc<GuestMemoryBudget>,
    component: &Arc<MemoryAccount>,
    agent: &Arc<MemoryAccount>,
) -> Arc<MemoryShare> {
    Arc::new(MemoryShare::new(Arc::clone(budget), Arc::clone(component), Arc::clone(agent)))
}

/// A share of a plugin that only one agent has, and of an agent with no other plugin.
fn alone(budget: &Arc<GuestMemoryBudget>) -> Arc<MemoryShare> {
    share(budget, &Arc::default(), &Arc::default())
}

/// A running call that holds `pages` pages.
fn running(share: &Arc<MemoryShare>, pages: usize) -> MemoryReservation {
    let mut reservation = MemoryReservation::new(Arc::clone(share));
    reservation.try_reserve(pages * PAGE, false).unwrap();
    reservation
}

/// Reserves as a guest does: at once, or after a wait.
async fn reserve(reservation: &mut MemoryReservation, pages: usize, is_new: bool) -> Result<(), MemoryRefusal> {
    match reservation.try_reserve(pages * PAGE, is_new) {
        Ok(()) => Ok(()),
        Err(_) => reservation.wait(pages * PAGE, is_new, async |_| {}).await,
    }
}

fn held(budget: &GuestMemoryBudget) -> usize {
    assert_eq!(budget.usage().held % PAGE, 0);
    budget.usage().held / PAGE
}

#[test]
fn memory_is_reserved_in_pages_and_returned_whole() {
    let budget = budget(16);
    let share = alone(&budget);
    let mut reservation = MemoryReservation::new(Arc::clone(&share));
    reservation.try_reserve(1, true).unwrap();
    reservation.try_reserve(PAGE, true).unwrap();
    assert_eq!(held(&budget), 1);
    reservation.try_reserve(2 * PAGE + 1, false).unwrap();
    assert_eq!((held(&budget), share.component.held(), share.agent.held()), (3, 3 * PAGE, 3 * PAGE));
    drop(reservation);
    assert_eq!((held(&budget), share.component.held(), share.agent.held()), (0, 0, 0));
}

#[test]
fn component_and_agent_hold_at_most_their_share() {
    let budget = budget(16);
    let (component, agent) = (Arc::default(), Arc::default());
    let (first, second) = (share(&budget, &component, &Arc::default()), share(&budget, &component, &Arc::default()));
    let most = 16 / 4 * limits::PLUGIN_QUARTERS_OF_ONE as usize;
    let _first = running(&first, most - 1);
    let mut other = MemoryReservation::new(second);
    let refused = other.try_reserve(2 * PAGE, false).unwrap_err();
    assert_eq!(refused.shortage, MemoryShortage::Component);
    assert_eq!(held(&budget), most - 1, "what was not given is not held");
    drop((_first, other));

    let (first, second) = (share(&budget, &Arc::default(), &agent), share(&budget, &Arc::default(), &agent));
    let _first = running(&first, most);
    let mut other = MemoryReservation::new(second);
    assert_eq!(other.try_reserve(1, false).unwrap_err().shortage, MemoryShortage::Agent);
    // Another agent with another plugin gets the rest.
    drop(running(&alone(&budget), 16 - most));
    assert_eq!(held(&budget), most);
}

#[test]
fn new_calls_leave_a_reserve_to_running_ones() {
    let budget = budget(16);
    let _held = [running(&alone(&budget), 12), running(&alone(&budget), 2)];
    let mut new = MemoryReservation::new(alone(&budget));
    assert_eq!(new.try_reserve(PAGE, true).unwrap_err().shortage, MemoryShortage::Process);
    new.try_reserve(2 * PAGE, false).unwrap();
    assert_eq!((held(&budget), budget.is_short()), (16, true));
}

#[tokio::test(start_paused = true)]
async fn memory_waiter_is_served_when_bytes_return() {
    let budget = budget(16);
    let first = running(&alone(&budget), 10);
    let mut second = running(&alone(&budget), 2);
    let mut told = None;
    let start = Instant::now();
    let waiting = second.wait(8 * PAGE, false, async |usage| told = Some(usage));
    let ending = async {
        sleep(Duration::from_secs(3)).await;
        drop(first);
    };
    let (waited, ()) = tokio::join!(waiting, ending);
    assert_eq!((waited, start.elapsed().as_secs()), (Ok(()), 3));
    assert_eq!(told, Some(GuestMemoryUse { held: 12 * PAGE, total: 16 * PAGE }));
    assert_eq!(held(&budget), 8);
}

#[tokio::test(start_paused = true)]
async fn memory_wait_ends_and_names_the_shortage() {
    let budget = budget(16);
    let waits = |reservation: MemoryReservation, pages: usize, is_new| async move {
        let (mut reservation, start) = (reservation, Instant::now());
        let refused = reservation.wait(pages * PAGE, is_new, async |_| {}).await.unwrap_err();
        (refused.shortage, refused.reason, refused.bytes / PAGE, start.elapsed())
    };
    let too_long = MemoryRefusalReason::WaitedTooLong;
    // Two of them, neither of which waits.
    let (component, agent) = (Arc::default(), Arc::default());
    let of_agent = share(&budget, &Arc::default(), &agent);
    let _held = [running(&share(&budget, &component, &Arc::default()), 6), running(&of_agent, 6)];
    let new = MemoryReservation::new(alone(&budget));
    let expected = (MemoryShortage::Process, too_long, 3, limits::PLUGIN_PERMIT_WAIT);
    assert_eq!(waits(new, 3, true).await, expected);
    let more = running(&alone(&budget), 1);
    assert_eq!(waits(more, 6, false).await, (MemoryShortage::Process, too_long, 5, limits::GUEST_MEMORY_WAIT));
    let more = MemoryReservation::new(share(&budget, &component, &Arc::default()));
    assert_eq!(waits(more, 7, false).await, (MemoryShortage::Component, too_long, 7, limits::GUEST_MEMORY_WAIT));
    let more = MemoryReservation::new(share(&budget, &Arc::default(), &agent));
    assert_eq!(waits(more, 7, true).await, (MemoryShortage::Agent, too_long, 7, limits::PLUGIN_PERMIT_WAIT));
    // More than any share, so there is no wait.
    let more = MemoryReservation::new(alone(&budget));
    let expected = (MemoryShortage::Component, MemoryRefusalReason::BeyondShare, 13, Duration::ZERO);
    assert_eq!(waits(more, 13, false).await, expected);
    assert_eq!((held(&budget), budget.waiting.load(SeqCst)), (12, 0));
}

#[tokio::test(start_paused = true)]
async fn memory_deadlock_refuses_the_smallest_call() {
    let budget = budget(16);
    let (component, start) = (Arc::default(), Instant::now());
    let deadlock = Err(MemoryRefusalReason::Deadlock);
    // First the call of the component that holds most is refused; then, in a component at its share, the smallest call.
    for (accounts, pages, expected) in [
        ([alone(&budget), alone(&budget), alone(&budget)], [4, 6, 5], [Ok(()), deadlock, Ok(())]),
        ([0, 1, 2].map(|_| share(&budget, &component, &Arc::default())), [3, 5, 4], [deadlock, Ok(()), Ok(())]),
    ] {
        let calls = accounts.iter().zip(pages).map(|(share, pages)| {
            let mut reservation = running(share, pages);
            async move {
                let waited = reserve(&mut reservation, pages + 3, false).await;
                drop(reservation);
                waited.map_err(|refused| refused.reason)
            }
        });
        let waited = futures_util::future::join_all(calls).await;
        assert_eq!(waited, expected);
        assert_eq!((held(&budget), start.elapsed()), (0, Duration::ZERO), "nobody waited for a time to end");
    }
}

#[tokio::test(start_paused = true)]
async fn component_that_holds_least_memory_is_served_first() {
    let budget = budget(16);
    let (hog, little) = (Arc::default(), alone(&budget));
    let of_hog = || share(&budget, &hog, &Arc::default());
    let (first, _second, blocker) = (running(&of_hog(), 5), running(&of_hog(), 5), running(&alone(&budget), 4));
    let order = Mutex::new(Vec::new());
    let call = async |share: Arc<MemoryShare>, name: &'static str, pages, is_new| {
        let mut reservation = MemoryReservation::new(share);
        reserve(&mut reservation, pages, is_new).await.unwrap();
        order.lock().unwrap().push(name);
        sleep(Duration::from_secs(1)).await;
    };
    let ending = async {
        sleep(Duration::from_secs(1)).await;
        drop(blocker);
        sleep(Duration::from_secs(1)).await;
        drop(first);
    };
    tokio::join!(
        call(of_hog(), "hog", 3, true),
        call(of_hog(), "hog runs", 2, false),
        call(little, "little", 4, true),
        ending
    );
    assert_eq!(order.into_inner().unwrap(), ["hog runs", "little", "hog"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_memory_waiter_leaves_the_queue() {
    let budget = budget(16);
    let first = running(&alone(&budget), 12);
    let mut second = running(&alone(&budget), 4);
    let mut third = MemoryReservation::new(alone(&budget));
    assert!(timeout(Duration::from_secs(1), second.wait(8 * PAGE, false, async |_| {})).await.is_err());
    // Dropped during `begin`, after its request was granted.
    let telling = third.wait(2 * PAGE, true, async |_| std::future::pending().await);
    let ending = async {
        sleep(Duration::from_secs(1)).await;
        drop(first);
        assert_eq!(held(&budget), 6, "it has it");
        sleep(Duration::from_secs(1)).await;
    };
    tokio::select! {
        _ = telling => panic!("it is never told"),
        () = ending => {}
    }
    assert_eq!((held(&budget), budget.waiting.load(SeqCst)), (4, 0));
    drop((second, third));
    assert_eq!(held(&budget), 0);
}

/// A call: component, agent, start time, growth steps with the work after each, and the time at which it is dropped.
type RandomCall = (u8, u8, u64, Vec<(usize, u64)>, Option<u64>);

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn random_calls_respect_memory_total_and_all_waits_end(
        pages in 4_usize..64,
        calls in vec((0..3_u8, 0..3_u8, 0..20_u64, vec((0..24_usize, 0..20_u64), 1..4), proptest::option::of(0..40_u64)), 1..24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(random_calls(pages, calls));
    }
}

async fn random_calls(pages: usize, calls: Vec<RandomCall>) {
    let budget = budget(pages);
    let components: [Arc<MemoryAccount>; 3] = Default::default();
    let agents: [Arc<MemoryAccount>; 3] = Default::default();
    let of_one = budget.most_of_one();
    let within = || {
        assert!(budget.usage().held <= budget.usage().total);
        assert!(components.iter().chain(&agents).all(|account| account.held() <= of_one));
    };
    let started = calls.into_iter().map(|(component, agent, begins, steps, dropped)| {
        let share = share(&budget, &components[usize::from(component)], &agents[usize::from(agent)]);
        async move {
            sleep(Duration::from_secs(begins)).await;
            let work = async {
                let (mut reservation, mut pages) = (MemoryReservation::new(share), 0);
                for (at, (more, works)) in steps.into_iter().enumerate() {
                    pages += more;
                    let asked = Instant::now();
                    let waited = reserve(&mut reservation, pages, at == 0).await;
                    within();
                    let most = if at == 0 { limits::PLUGIN_PERMIT_WAIT } else { limits::GUEST_MEMORY_WAIT };
                    assert!(asked.elapsed() <= most + Duration::from_millis(1), "{:?}", asked.elapsed());
                    if waited.is_err() {
                        return;
                    }
                    assert_eq!(reservation.bytes, pages * PAGE);
                    sleep(Duration::from_secs(works)).await;
                }
            };
            match dropped {
                Some(after) => drop(timeout(Duration::from_secs(after), work).await),
                None => work.await,
            }
            within();
        }
    });
    futures_util::future::join_all(started).await;
    assert_eq!((held(&budget), budget.waiting.load(SeqCst), budget.queue().waiters.len()), (0, 0, 0));
    assert!(components.iter().chain(&agents).all(|account| account.held() == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reservations_lose_no_byte_or_wakeup() {
    let budget = budget(32);
    let components: [Arc<MemoryAccount>; 2] = Default::default();
    let call = |at: usize| {
        let share = share(&budget, &components[at % 2], &Arc::default());
        tokio::spawn(async move {
            let mut got = 0;
            for round in 0..500 {
                let mut reservation = MemoryReservation::new(Arc::clone(&share));
                let pages = 1 + (at * 7 + round) % 6;
                let is_new = reserve(&mut reservation, pages, true).await.is_ok();
                tokio::task::yield_now().await;
                let grown = is_new && reserve(&mut reservation, pages + 4, false).await.is_ok();
                assert!(share.budget.usage().held <= share.budget.usage().total);
                got += usize::from(grown);
            }
            got
        })
    };
    let calls: Vec<_> = (0..16).map(call).collect();
    let got =
        timeout(Duration::from_secs(100), futures_util::future::join_all(calls)).await.expect("nobody is forgotten");
    assert!(got.into_iter().map(Result::unwrap).sum::<usize>() > 0);
    assert_eq!((held(&budget), budget.waiting.load(SeqCst)), (0, 0));
}
