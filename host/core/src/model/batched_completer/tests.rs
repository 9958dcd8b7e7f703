use std::collections::{BTreeSet, VecDeque};

use futures_util::future::join_all;
use proptest::{collection::vec, option, prelude::*};
use tokio::time::{Instant, advance};

use super::*;
use crate::{
    chat::{ChatSnapshot, Message, Part, StopReason, Usage},
    event::EventSink,
};

const SECOND: Duration = Duration::from_secs(1);

fn request(text: &str) -> CompletionRequest {
    CompletionRequest::new(ChatSnapshot::from_messages(vec![Message::user(text)]).unwrap(), [].into())
}

fn said(request: &CompletionRequest) -> String {
    request.messages.last().unwrap().message.text_content()
}

fn reply(text: String) -> Completion {
    let stop = StopReason::EndTurn;
    Completion { parts: vec![Part::Text(text)], stop, usage: Usage::default(), model: "m".into(), meta: vec![] }
}

fn unavailable() -> Fault {
    Fault::Unavailable { message: "gone".into(), after: None }
}

/// A model that replies `direct <text>` after a second.
struct Direct {
    info: ModelInfo,
    asked: Mutex<Vec<String>>,
}

impl Direct {
    fn new() -> Arc<Self> {
        let info = ModelInfo::named("m");
        Arc::new(Self { info, asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }
}

#[async_trait]
impl Completer for Direct {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, _: &RunCx, request: &CompletionRequest, _: &DeltaSink) -> Result<Completion, Fault> {
        lock(&self.asked).push(said(request));
        sleep(SECOND).await;
        Ok(reply(format!("direct {}", said(request))))
    }
}

/// A vendor whose batches end at the first poll, with the reply `batch <text>` to each request, unless configured otherwise.
#[derive(Default)]
struct Vendor {
    /// The outcomes of the first calls, before the usual behavior.
    submits: Mutex<VecDeque<Fault>>,
    polls: Mutex<VecDeque<Result<BatchState, Fault>>>,
    results: Mutex<VecDeque<Fault>>,
    takes: Duration,
    /// `true`: batches never end.
    works_on: bool,
    hangs_at_cancel: bool,
    left_out: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// `true`: returns results of requests that were never made, and each result twice.
    raves: bool,
    /// The calls received, with their times in milliseconds.
    log: Mutex<Vec<(String, u128)>>,
    batches: Mutex<Vec<Vec<String>>>,
    began: Mutex<Option<Instant>>,
}

impl Vendor {
    fn did(&self, what: impl Into<String>) {
        let began = *lock(&self.began).get_or_insert_with(Instant::now);
        lock(&self.log).push((what.into(), began.elapsed().as_millis()));
    }

    fn log(&self) -> Vec<(String, u128)> {
        lock(&self.log).clone()
    }

    fn deeds(&self) -> Vec<String> {
        self.log().into_iter().map(|(what, _)| what).collect()
    }

    fn batches(&self) -> Vec<Vec<String>> {
        lock(&self.batches).clone()
    }
}

#[async_trait]
impl BatchSubmitter for Vendor {
    async fn submit(&self, requests: &[(String, CompletionRequest)]) -> Result<BatchId, Fault> {
        self.did("submit");
        sleep(self.takes).await;
        if let Some(fault) = lock(&self.submits).pop_front() {
            return Err(fault);
        }
        let mut batches = lock(&self.batches);
        batches.push(requests.iter().map(|(_, request)| said(request)).collect());
        format!("b{}", batches.len() - 1).parse()
    }

    async fn poll(&self, batch: &BatchId) -> Result<BatchState, Fault> {
        self.did(format!("poll {batch}"));
        let usual = if self.works_on { BatchState::Working { done: 0 } } else { BatchState::Ended };
        lock(&self.polls).pop_front().unwrap_or(Ok(usual))
    }

    async fn results(&self, batch: &BatchId, requests: &[(String, CompletionRequest)]) -> Result<BatchResults, Fault> {
        self.did(format!("results {batch}"));
        if let Some(fault) = lock(&self.results).pop_front() {
            return Err(fault);
        }
        let wanted = requests.iter().rev().filter(|(_, request)| !self.left_out.contains(&said(request)));
        let mut results: BatchResults = wanted
            .map(|(id, request)| match self.failed.contains(&said(request)) {
                true => (id.clone(), Err(Fault::other("no luck"))),
                false => (id.clone(), Ok(reply(format!("batch {}", said(request))))),
            })
            .collect();
        if self.raves {
            let other = |(id, _): &(String, _)| (id.clone(), Ok(reply("twice".into())));
            let twice: Vec<_> = results.iter().map(other).collect();
            results.extend(twice);
            results.push(("request-99".into(), Ok(reply("whose?".into()))));
            results.push((String::new(), Err(Fault::other("nobody's"))));
        }
        Ok(results)
    }

    async fn cancel(&self, batch: &BatchId) -> Result<(), Fault> {
        self.did(format!("cancel {batch}"));
        if self.hangs_at_cancel {
            std::future::pending::<()>().await;
        }
        Err(Fault::other("it is over anyway"))
    }
}

struct Scene {
    direct: Arc<Direct>,
    vendor: Arc<Vendor>,
    batched: Arc<BatchedCompleter>,
}

fn scene(vendor: Vendor, config: BatchConfig) -> Scene {
    let (direct, vendor) = (Direct::new(), Arc::new(vendor));
    let batched = Arc::new(BatchedCompleter::new(direct.clone(), vendor.clone(), config));
    Scene { direct, vendor, batched }
}

impl Scene {
    async fn ask(&self, text: &str) -> String {
        let reply = self.batched.complete(&RunCx::new("ada"), &request(text), &DeltaSink::none()).await.unwrap();
        reply.into_message("ada").text_content()
    }

    async fn ask_all(&self, texts: &[&str]) -> Vec<String> {
        join_all(texts.iter().map(|text| self.ask(text))).await
    }
}

#[tokio::test(start_paused = true)]
async fn requests_within_a_window_make_one_batch() {
    let scene = scene(Vendor::default(), BatchConfig::default());
    let late = async {
        sleep(limits::BATCH_WINDOW - Duration::from_millis(1)).await;
        scene.ask("c").await
    };
    let (early, late) = tokio::join!(scene.ask_all(&["a", "b"]), late);
    assert_eq!((early, late), (vec!["batch a".into(), "batch b".into()], "batch c".into()));
    assert_eq!(scene.ask("d").await, "batch d");
    assert_eq!(scene.vendor.batches(), [vec!["a", "b", "c"], vec!["d"]]);
    assert_eq!(scene.direct.asked(), [""; 0]);
    assert_eq!(scene.vendor.deeds(), ["submit", "poll b0", "results b0", "submit", "poll b1", "results b1"]);
}

#[tokio::test(start_paused = true)]
async fn full_batch_is_submitted_at_once() {
    let scene = scene(Vendor::default(), BatchConfig { max_size: 2, ..BatchConfig::default() });
    let began = Instant::now();
    scene.ask_all(&["a", "b", "c", "d", "e"]).await;
    assert_eq!(scene.vendor.batches(), [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
    let submits: Vec<_> = scene.vendor.log().into_iter().filter(|(what, _)| what == "submit").collect();
    assert_eq!(submits.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [0, 0, 500]);
    assert_eq!(began.elapsed(), limits::BATCH_WINDOW + limits::BATCH_POLL);
}

#[tokio::test(start_paused = true)]
async fn requests_of_failed_batch_are_sent_directly() {
    let fault = || Fault::invalid("no batches here");
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let (poll, cancel) = ("poll b0", "cancel b0");
    for (vendor, direct, deeds) in [
        (
            Vendor { submits: [fault()].into_iter().collect::<VecDeque<_>>().into(), ..Vendor::default() },
            "ab",
            vec!["submit"],
        ),
        (
            Vendor { polls: VecDeque::from([Err(fault())]).into(), ..Vendor::default() },
            "ab",
            vec!["submit", poll, cancel],
        ),
        (
            Vendor { results: VecDeque::from([fault()]).into(), ..Vendor::default() },
            "ab",
            vec!["submit", poll, "results b0"],
        ),
        (Vendor { left_out: texts(&["a", "b"]), ..Vendor::default() }, "ab", vec!["submit", poll, "results b0"]),
        (Vendor { left_out: texts(&["b"]), ..Vendor::default() }, "b", vec!["submit", poll, "results b0"]),
        (Vendor { failed: texts(&["a"]), ..Vendor::default() }, "a", vec!["submit", poll, "results b0"]),
        (Vendor { raves: true, ..Vendor::default() }, "", vec!["submit", poll, "results b0"]),
        (Vendor { raves: true, failed: texts(&["b"]), ..Vendor::default() }, "b", vec!["submit", poll, "results b0"]),
    ] {
        let scene = scene(vendor, BatchConfig::default());
        let began = Instant::now();
        let replies = scene.ask_all(&["a", "b"]).await;
        let expected = ["a", "b"].map(|text| match direct.contains(text) {
            true => format!("direct {text}"),
            false => format!("batch {text}"),
        });
        assert_eq!(replies, expected);
        assert!(began.elapsed() <= limits::BATCH_WINDOW + limits::BATCH_POLL + SECOND, "one after the other");
        scene.batched.settled().await;
        assert_eq!(scene.vendor.deeds(), deeds);
    }
}

#[tokio::test(start_paused = true)]
async fn batch_poll_survives_transient_failures() {
    let times = |n: u32| (0..n).map(|_| unavailable());
    for (polls, results, answered) in [
        (limits::BATCH_POLL_FAILURES, 0, true),
        (0, limits::BATCH_POLL_FAILURES, true),
        (limits::BATCH_POLL_FAILURES + 1, 0, false),
        (1, limits::BATCH_POLL_FAILURES, false),
    ] {
        let vendor = Vendor {
            polls: Mutex::new(times(polls).map(Err).collect()),
            results: Mutex::new(times(results).collect()),
            ..Vendor::default()
        };
        let scene = scene(vendor, BatchConfig::default());
        let expected = if answered { "batch a" } else { "direct a" };
        assert_eq!(scene.ask("a").await, expected, "{polls} {results}");
    }
    // A successful poll resets the count of failures; the server's own waiting time is respected.
    let after = |seconds| Fault::RateLimited { message: "slow".into(), after: Some(SECOND * seconds) };
    let working = || Ok(BatchState::Working { done: 0 });
    let polls: Vec<_> = (0..20).map(|n| if n % 4 == 3 { working() } else { Err(after(50)) }).collect();
    let scene = scene(Vendor { polls: VecDeque::from(polls).into(), ..Vendor::default() }, BatchConfig::default());
    assert_eq!(scene.ask("a").await, "batch a");
    assert!(scene.vendor.log()[2].1 >= 5_000 + 50_000, "{:?}", scene.vendor.log());
}

#[tokio::test(start_paused = true)]
async fn batch_poll_pauses_grow_until_timeout() {
    let scene = scene(Vendor { works_on: true, ..Vendor::default() }, BatchConfig::default());
    let began = Instant::now();
    assert_eq!(scene.ask_all(&["a", "b"]).await, ["direct a", "direct b"]);
    assert_eq!(began.elapsed(), limits::BATCH_WINDOW + limits::BATCH_TIME + SECOND);
    scene.batched.settled().await;
    let times: Vec<_> = scene.vendor.log().iter().map(|(_, at)| *at).collect();
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[..4], [5_000, 7_500, 11_250, 16_875]);
    assert!(pauses[..pauses.len() - 1].iter().all(|pause| *pause <= limits::BATCH_POLL_CEILING.as_millis()));
    assert_eq!(scene.vendor.deeds().last().unwrap(), "cancel b0");
    assert!(times.len() < 80, "{}", times.len());
}

/// Polls `asking` until `after` has passed, and then drops it.
async fn give_up<T>(asking: impl Future<Output = T>, after: Duration) {
    assert!(timeout(after, asking).await.is_err(), "it was answered");
}

#[tokio::test(start_paused = true)]
async fn abandoned_request_is_removed_from_batch() {
    let window = limits::BATCH_WINDOW;
    // Before the submission: the request is not in the batch.
    let one = scene(Vendor::default(), BatchConfig::default());
    let (_, replies) = tokio::join!(give_up(one.ask("x"), window / 2), one.ask_all(&["a", "b"]));
    assert_eq!(
        (replies, one.vendor.batches()),
        (vec!["batch a".into(), "batch b".into()], vec![vec!["a".into(), "b".into()]])
    );
    // All callers: there is no batch.
    let none = scene(Vendor::default(), BatchConfig::default());
    give_up(none.ask_all(&["x", "y"]), window / 2).await;
    advance(window).await;
    assert_eq!(none.ask("a").await, "batch a");
    assert_eq!(none.vendor.batches(), [["a"]]);
    // One caller leaves a full batch before it is submitted.
    let full =
        scene(Vendor { takes: SECOND, ..Vendor::default() }, BatchConfig { max_size: 2, ..BatchConfig::default() });
    assert_eq!(full.ask_all(&["a", "b", "c"]).await, ["batch a", "batch b", "batch c"]);
    // After the submission: the others get their replies, whoever came first.
    for gone in ["a", "b"] {
        let scene = scene(Vendor::default(), BatchConfig::default());
        let stays = if gone == "a" { "b" } else { "a" };
        let (first, second) = match gone {
            "a" => (window * 2, Duration::MAX),
            _ => (Duration::MAX, window * 2),
        };
        let ask = |text, time| timeout(time, scene.ask(text));
        let (a, b) = tokio::join!(ask("a", first), ask("b", second));
        assert_eq!([a, b].into_iter().flatten().collect::<Vec<_>>(), [format!("batch {stays}")]);
        scene.batched.settled().await;
        assert_eq!(scene.vendor.deeds(), ["submit", "poll b0", "results b0"]);
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_batch_is_cancelled_in_bounded_time() {
    for (takes, hangs_at_cancel, deeds, within) in [
        (Duration::ZERO, false, vec!["submit", "cancel b0"], Duration::ZERO),
        (Duration::ZERO, true, vec!["submit", "cancel b0"], limits::BATCH_CANCEL_TIME),
        // During the submission: its id is awaited.
        (SECOND * 5, false, vec!["submit", "cancel b0"], SECOND * 5),
        (SECOND * 3_600, false, vec!["submit"], limits::BATCH_CANCEL_TIME),
        (SECOND * 10, true, vec!["submit", "cancel b0"], limits::BATCH_CANCEL_TIME * 2),
    ] {
        let scene =
            scene(Vendor { works_on: true, takes, hangs_at_cancel, ..Vendor::default() }, BatchConfig::default());
        give_up(scene.ask_all(&["a", "b"]), limits::BATCH_WINDOW + SECOND).await;
        let began = Instant::now();
        scene.batched.settled().await;
        assert!(began.elapsed() <= within, "{takes:?} {:?}", began.elapsed());
        assert_eq!(scene.vendor.deeds(), deeds, "{takes:?}");
        assert_eq!(scene.direct.asked(), [""; 0]);
    }
    // There is nothing to wait for.
    let idle = scene(Vendor::default(), BatchConfig::default());
    idle.batched.settled().await;
    assert_eq!(idle.ask("a").await, "batch a");
}

#[tokio::test(start_paused = true)]
async fn batched_request_emits_progress_events() {
    let working = |done| Ok(BatchState::Working { done });
    let polls = VecDeque::from([working(0), working(1), working(1), working(2)]);
    let failed = ["b".to_owned()].into();
    let scene = scene(Vendor { polls: polls.into(), failed, ..Vendor::default() }, BatchConfig::default());
    let watched = async |text: &str| {
        let (sink, mut events) = EventSink::channel();
        let cx = RunCx::new("ada").with_events(sink);
        scene.batched.complete(&cx, &request(text), &DeltaSink::none()).await.unwrap();
        drop(cx);
        let mut told = Vec::new();
        while let Some(event) = events.next_event().await {
            let Event::ModelWaits { agent, model, wait, detail } = event else { panic!("{event:?}") };
            assert_eq!((&*agent, &*model), ("ada", "m"));
            told.push((wait, detail));
        }
        told
    };
    let (a, b, ()) = tokio::join!(watched("a"), watched("b"), async {
        scene.ask("unwatched").await;
    });
    let common = [
        (ModelWait::BatchSubmitted, "submitted: 3 requests in batch b0"),
        (ModelWait::BatchPolling, "1 of 3 requests in batch b0 done"),
        (ModelWait::BatchPolling, "2 of 3 requests in batch b0 done"),
    ];
    for (told, last) in [
        (a, (ModelWait::BatchCompleted, "answered in a batch")),
        (b, (ModelWait::BatchFallback, "sent directly: no luck")),
    ] {
        let told: Vec<_> = told.iter().map(|(wait, detail)| (*wait, &**detail)).collect();
        assert_eq!(told, common.iter().copied().chain([last]).collect::<Vec<_>>());
    }
}

#[derive(Debug, Clone)]
struct Plan {
    /// The arrival time of each request and the time it waits, in milliseconds.
    asked: Vec<(u64, Option<u64>)>,
    max_size: usize,
    takes: u64,
    submits: Vec<bool>,
    polls: Vec<u8>,
    results: Vec<bool>,
    left_out: BTreeSet<usize>,
    failed: BTreeSet<usize>,
    raves: bool,
    works_on: bool,
}

fn plans() -> impl Strategy<Value = Plan> {
    let asked = vec((0_u64..2_000, option::weighted(0.4, 0_u64..12_000)), 1..12);
    let which = || proptest::collection::btree_set(0_usize..12, 0..4);
    let server = (vec(any::<bool>(), 0..3), vec(0_u8..4, 0..8), vec(any::<bool>(), 0..3));
    (asked, 1_usize..5, 0_u64..3_000, server, which(), which(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(asked, max_size, takes, (submits, polls, results), left_out, failed, raves, works_on)| Plan {
            asked,
            max_size,
            takes,
            submits,
            polls,
            results,
            left_out,
            failed,
            raves,
            works_on,
        },
    )
}

async fn play(plan: Plan) {
    let texts = |which: &BTreeSet<usize>| which.iter().map(|n| format!("r{n}")).collect();
    let poll = |kind: &u8| match kind {
        0 => Ok(BatchState::Ended),
        1 => Ok(BatchState::Working { done: 7 }),
        2 => Err(unavailable()),
        _ => Err(Fault::other("no")),
    };
    let faults = |which: &[bool]| {
        let fault = |passing: &bool| if *passing { unavailable() } else { Fault::other("no") };
        Mutex::new(which.iter().map(fault).collect())
    };
    let vendor = Vendor {
        submits: faults(&plan.submits),
        polls: Mutex::new(plan.polls.iter().map(poll).collect()),
        results: faults(&plan.results),
        takes: Duration::from_millis(plan.takes),
        works_on: plan.works_on,
        left_out: texts(&plan.left_out),
        failed: texts(&plan.failed),
        raves: plan.raves,
        ..Vendor::default()
    };
    let scene = scene(vendor, BatchConfig { max_size: plan.max_size, ..BatchConfig::default() });
    let replies = join_all(plan.asked.iter().enumerate().map(|(n, (after, patience))| {
        let scene = &scene;
        async move {
            sleep(Duration::from_millis(*after)).await;
            let patience = patience.map_or(Duration::MAX, Duration::from_millis);
            timeout(patience, scene.ask(&format!("r{n}"))).await.ok()
        }
    }))
    .await;
    scene.batched.settled().await;
    let submitted: Vec<_> = scene.vendor.batches().concat();
    let direct = scene.direct.asked();
    for (n, (reply, (_, patience))) in replies.iter().zip(&plan.asked).enumerate() {
        let text = format!("r{n}");
        let times = |asked: &[String]| asked.iter().filter(|asked| **asked == text).count();
        assert!(times(&submitted) <= 1 && times(&direct) <= 1, "{text} was asked twice: {submitted:?} {direct:?}");
        match reply {
            None => assert!(patience.is_some(), "{text} was never answered"),
            Some(reply) if *reply == format!("batch {text}") => {
                assert_eq!((times(&submitted), times(&direct)), (1, 0), "{text}");
                assert!(!plan.left_out.contains(&n) && !plan.failed.contains(&n));
            }
            Some(reply) => {
                assert_eq!((reply, times(&direct)), (&format!("direct {text}"), 1));
            }
        }
    }
    // Each batch has ended according to the vendor, or was cancelled.
    let deeds = scene.vendor.deeds();
    for (n, batch) in scene.vendor.batches().iter().enumerate() {
        assert!((1..=plan.max_size).contains(&batch.len()));
        let cancels = deeds.iter().filter(|deed| **deed == format!("cancel b{n}")).count();
        let ended = deeds.contains(&format!("results b{n}"));
        assert_eq!(cancels, usize::from(!ended), "b{n}: {deeds:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_batched_request_is_answered_exactly_once(plan in plans()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(plan));
    }
}
