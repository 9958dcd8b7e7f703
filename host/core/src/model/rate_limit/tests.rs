use futures_util::future::join_all;
use proptest::{collection::vec, option, prelude::*};
use tokio::time::{advance, sleep};

use super::*;
use crate::{
    chat::{ChatSnapshot, Message, Part, StopReason},
    event::EventSink,
};

const SECOND: Duration = Duration::from_secs(1);
/// The time at which requests that began at 0 expire.
const MINUTE: Duration = Duration::from_millis(60_100);

/// A model that takes a second, unless configured otherwise. It reports the usage given in `meta` as `input output
/// cache_read cache_write`, else the estimate of the request. `meta` may contain `fail`, too.
struct Model {
    info: ModelInfo,
    takes: Duration,
    /// The agents whose requests began, with the times.
    began: Mutex<Vec<(String, Duration)>>,
    start: Instant,
    fault: Mutex<Option<Fault>>,
}

impl Model {
    fn new(takes: Duration) -> Self {
        let info = ModelInfo::named("m");
        Self { info, takes, began: Mutex::default(), start: Instant::now(), fault: Mutex::default() }
    }

    fn began(&self) -> Vec<(String, Duration)> {
        self.began.lock().unwrap().clone()
    }
}

#[async_trait]
impl Completer for Model {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, _: &DeltaSink) -> Result<Completion, Fault> {
        self.began.lock().unwrap().push((cx.agent.to_string(), self.start.elapsed()));
        sleep(self.takes).await;
        if let Some(fault) = self.fault.lock().unwrap().take() {
            return Err(fault);
        }
        let used = request.meta.iter().find(|(key, _)| key == "used").map(|(_, used)| {
            let used: Vec<u64> = used.split(' ').map(|tokens| tokens.parse().unwrap()).collect();
            Usage {
                input_tokens: used[0],
                output_tokens: used[1],
                cache_read_tokens: used[2],
                cache_write_tokens: used[3],
            }
        });
        let as_estimated = || Usage { input_tokens: request.tokens(), output_tokens: 1, ..Usage::default() };
        let (parts, stop) = (vec![Part::Text("yes".into())], StopReason::EndTurn);
        let usage = used.unwrap_or_else(as_estimated);
        Ok(Completion { parts, stop, usage, model: "m".into(), meta: vec![] })
    }
}

/// A request of this many tokens, or the smallest possible number above.
fn request(tokens: u64) -> CompletionRequest {
    let text = "abcd".repeat(usize::try_from(tokens.saturating_sub(4)).unwrap());
    CompletionRequest::new(ChatSnapshot::from_messages(vec![Message::user(text)]).unwrap(), [].into())
}

fn using(request: CompletionRequest, used: &str) -> CompletionRequest {
    CompletionRequest { meta: vec![("used".into(), used.into())], ..request }
}

struct Scene {
    model: Arc<Model>,
    limited: RateLimitedCompleter,
}

fn scene_with(limit: ProviderRateLimiter, takes: Duration) -> Scene {
    let model = Arc::new(Model::new(takes));
    Scene { limited: RateLimitedCompleter::new(model.clone(), Arc::new(limit)), model }
}

fn scene(config: RateLimitConfig) -> Scene {
    scene_with(ProviderRateLimiter::new(config), SECOND)
}

fn rpm(rpm: u64) -> RateLimitConfig {
    RateLimitConfig { rpm: Some(rpm), ..RateLimitConfig::default() }
}

fn input_tpm(tokens: u64) -> RateLimitConfig {
    RateLimitConfig { input_tpm: Some(tokens), ..RateLimitConfig::default() }
}

fn output_tpm(tokens: u64) -> RateLimitConfig {
    RateLimitConfig { output_tpm: Some(tokens), ..RateLimitConfig::default() }
}

impl Scene {
    async fn ask(&self, agent: &str, request: CompletionRequest) -> Result<Completion, Fault> {
        self.limited.complete(&RunCx::new(agent), &request, &DeltaSink::none()).await
    }

    /// Sends all requests at once and returns the seconds, rounded down, at which they began.
    async fn began(&self, requests: Vec<CompletionRequest>) -> Vec<u64> {
        join_all(requests.into_iter().map(|request| self.ask("a", request))).await;
        self.model.began().iter().map(|(_, at)| at.as_secs()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn requests_run_side_by_side_up_to_the_limit() {
    let size = request(100).tokens();
    let three = |request: CompletionRequest| vec![request.clone(), request.clone(), request];
    let short = |request| CompletionRequest { max_output_tokens: Some(10), ..request };
    for (config, requests, expected) in [
        (RateLimitConfig::default(), three(request(100)), vec![0, 0, 0]),
        (rpm(3), three(request(100)), vec![0, 0, 0]),
        (rpm(2), three(request(100)), vec![0, 0, 60]),
        (rpm(1), three(request(100)), vec![0, 60, 120]),
        (input_tpm(3 * size), three(request(100)), vec![0, 0, 0]),
        (input_tpm(3 * size - 1), three(request(100)), vec![0, 0, 60]),
        // A request larger than the limit proceeds alone, and is not refused.
        (input_tpm(size - 1), three(request(100)), vec![0, 60, 120]),
        (input_tpm(2 * size), vec![request(100), request(1_000), request(100)], vec![0, 60, 120]),
        // It used less than estimated, which is known after a second.
        (input_tpm(2 * size), three(using(request(100), "1 1 0 0")), vec![0, 0, 1]),
        // It used more: running requests continue, but the next one waits.
        (input_tpm(2 * size + 1), vec![using(request(100), "5000 1 0 0"), request(100), request(100)], vec![0, 0, 60]),
        // A reply is estimated at the average length, or at the request's limit.
        (output_tpm(limits::RATE_LIMIT_FIRST_REPLY), three(using(request(9), "9 500 0 0")), vec![0, 60, 120]),
        (output_tpm(limits::RATE_LIMIT_FIRST_REPLY), three(using(request(9), "9 0 0 0")), vec![0, 1, 2]),
        (output_tpm(20), three(using(short(request(9)), "9 10 0 0")), vec![0, 0, 60]),
        // Cached tokens.
        (input_tpm(2 * size), three(using(request(100), "1 1 1 0")), vec![0, 0, 1]),
        (input_tpm(2 * size), three(using(request(100), "1 1 0 500")), vec![0, 0, 60]),
        (input_tpm(2 * size), three(using(request(100), "1 1 500 0")), vec![0, 0, 60]),
        // Absurd counts from a server.
        (input_tpm(1), three(using(request(100), &format!("{0} {0} {0} {0}", u64::MAX))), vec![0, 60, 120]),
    ] {
        let scene = scene(config);
        let of = format!("{config:?} {:?}", requests[0].meta);
        assert_eq!(scene.began(requests).await, expected, "{of}");
    }
    let cached = scene_with(ProviderRateLimiter::new(input_tpm(2 * size)).without_cache_reads(), SECOND);
    assert_eq!(cached.began(three(using(request(100), "1 1 500 0"))).await, [0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn request_longer_than_window_counts_only_excess() {
    for (used, expected) in [("9 400 0 0", 100), ("9 100000 0 0", 160)] {
        let config = RateLimitConfig { output_tpm: Some(500), ..RateLimitConfig::default() };
        let scene = scene_with(ProviderRateLimiter::new(config), SECOND * 100);
        scene.ask("a", using(request(9), used)).await.unwrap();
        let _ = timeout(SECOND * 200, scene.ask("b", request(9))).await;
        let began: Vec<_> = scene.model.began().iter().map(|(_, at)| at.as_secs()).collect();
        assert_eq!(began, [0, expected], "{used}");
    }
}

#[tokio::test(start_paused = true)]
async fn absurd_token_count_expires_within_minutes() {
    let config = RateLimitConfig { output_tpm: Some(1_000), ..RateLimitConfig::default() };
    let scene = scene_with(ProviderRateLimiter::new(config), SECOND);
    scene.ask("a", using(request(9), &format!("9 {} 0 0", u64::MAX))).await.unwrap();
    // The second request waits for the first to expire; the others run concurrently with it.
    for _ in 0..3 {
        scene.ask("b", using(request(9), "9 1 0 0")).await.unwrap();
    }
    let began: Vec<_> = scene.model.began().iter().map(|(_, at)| at.as_secs()).collect();
    assert_eq!(began, [0, 60, 61, 62]);
}

#[tokio::test(start_paused = true)]
async fn thousand_agents_wait_for_rate_limit_concurrently() {
    let scene = scene_with(ProviderRateLimiter::new(rpm(100)), SECOND * 30);
    let names: Vec<_> = (0..1_000).map(|n| format!("a{n}")).collect();
    join_all(names.iter().map(|name| scene.ask(name, request(10)))).await;
    let began = scene.model.began();
    assert!(began.iter().map(|(name, _)| name).eq(&names), "whoever comes first goes first");
    for (n, (_, at)) in began.iter().enumerate() {
        assert_eq!(*at, MINUTE * (n as u32 / 100), "{n}");
    }
    assert_eq!(scene.model.start.elapsed(), MINUTE * 9 + SECOND * 30);
}

#[tokio::test(start_paused = true)]
async fn large_request_is_not_starved_by_small_ones() {
    let scene = scene(input_tpm(request(100).tokens()));
    let small = async {
        for n in 0..200 {
            scene.ask(&format!("s{n}"), request(5)).await.unwrap();
        }
    };
    let large = async {
        sleep(SECOND * 2).await;
        scene.ask("large", request(1_000)).await.unwrap();
    };
    tokio::join!(small, large);
    let began = scene.model.began();
    let (_, at) = began.iter().find(|(name, _)| name == "large").unwrap();
    assert!((SECOND * 60..SECOND * 63).contains(at), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn abandoned_request_leaves_rate_limit_queue() {
    let scene = scene(rpm(1));
    scene.ask("first", request(9)).await.unwrap();
    let drops = async |name: &str, after| assert!(timeout(after, scene.ask(name, request(9))).await.is_err());
    // The head of the queue, one in the middle and the last one.
    tokio::join!(
        drops("head", SECOND * 10),
        async { scene.ask("b", request(9)).await.unwrap() },
        drops("middle", SECOND * 20),
        async { scene.ask("c", request(9)).await.unwrap() },
        drops("last", SECOND * 70),
    );
    let began = scene.model.began();
    let began: Vec<_> = began.iter().map(|(name, at)| (&**name, at.as_secs())).collect();
    assert_eq!(began, [("first", 0), ("b", 60), ("c", 120)]);
    // A request that is dropped while the model works keeps its reservation.
    advance(MINUTE * 2).await;
    let before = scene.model.start.elapsed();
    drops("gone", SECOND / 2).await;
    scene.ask("d", request(9)).await.unwrap();
    assert_eq!(scene.model.began().last().unwrap().1.checked_sub(before).unwrap().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn rate_limit_refusal_pauses_all_requests() {
    let limited = |after| Fault::RateLimited { message: "slow".into(), after };
    for (config, fault, second) in [
        (rpm(1), Fault::other("no"), 60),
        (rpm(2), Fault::other("no"), 1),
        (rpm(2), limited(None), 1),
        (rpm(2), limited(Some(SECOND * 20)), 21),
        (rpm(2), limited(Some(SECOND * 9_000)), 61),
        (RateLimitConfig::default(), limited(Some(SECOND * 20)), 21),
    ] {
        let scene = scene(config);
        *scene.model.fault.lock().unwrap() = Some(fault.clone());
        assert_eq!(scene.ask("a", request(9)).await.unwrap_err(), fault);
        scene.ask("b", request(9)).await.unwrap();
        assert_eq!(scene.model.began()[1].1.as_secs(), second, "{config:?} {fault:?}");
    }
    // A shorter pause does not end a longer one.
    let scene = scene(RateLimitConfig::default());
    scene.limited.limit.pause(SECOND * 30);
    scene.limited.limit.pause(SECOND);
    assert_eq!(scene.began(vec![request(9)]).await, [30]);
}

#[tokio::test(start_paused = true)]
async fn long_rate_limit_wait_is_reported_and_times_out() {
    let scene = scene(RateLimitConfig { rpm: Some(1), input_tpm: Some(50), output_tpm: None });
    let watched = async |agent: &str| {
        let (sink, mut events) = EventSink::channel();
        let cx = RunCx::new(agent).with_events(sink);
        let reply = scene.limited.complete(&cx, &request(9), &DeltaSink::none()).await;
        drop(cx);
        (reply.err(), events.next_event().await, events.next_event().await)
    };
    let (a, b) = tokio::join!(watched("a"), watched("b"));
    let detail = "waiting for the rate limit of 1 requests, 50 tokens sent a minute".to_owned();
    let waits = Event::ModelWaits { agent: "b".into(), model: "m".into(), wait: ModelWait::RateLimit, detail };
    assert_eq!((a, b), ((None, None, None), (None, Some(waits), None)));

    let before = limits::RATE_LIMIT_WAIT.as_secs() / 60 + 10;
    let replies = join_all((0..before).map(|_| scene.ask("a", request(9)))).await;
    let refused: Vec<_> = replies.into_iter().filter_map(Result::err).collect();
    assert!((10..15).contains(&refused.len()), "{}", refused.len());
    assert!(matches!(&refused[0], Fault::RateLimited { after: None, .. }), "{:?}", refused[0]);
    let says = "the request has waited 1h for the rate limit of 1 requests, 50 tokens sent a minute; run fewer agents";
    assert!(refused[0].to_string().starts_with(says), "{}", refused[0]);
}

#[test]
fn configs_are_read_and_bounded() {
    let read = |json: &str| serde_json::from_str::<RateLimitConfig>(json).map_err(|error| error.to_string());
    assert_eq!(read("{}"), Ok(RateLimitConfig::default()));
    let all = RateLimitConfig { input_tpm: Some(1), output_tpm: Some(limits::RATE_LIMIT_CEILING), rpm: None };
    assert_eq!(read(r#"{"input_tpm":1,"output_tpm":1000000000000,"rpm":null}"#), Ok(all));
    for (json, says) in [
        (r#"{"rpm":0}"#, "the minimum is 1; leave the key out for no limit"),
        (r#"{"input_tpm":1000000000001}"#, "the maximum is 1000000000000"),
        (r#"{"rpm":-1}"#, "invalid value"),
        (r#"{"rpm":1.5}"#, "invalid type"),
        (r#"{"tpm":5}"#, "unknown field `tpm`"),
    ] {
        let error = read(json).unwrap_err();
        assert!(error.contains(says), "{json}: {error}");
    }
}

/// The arrival time, number of tokens and waiting time of each request.
type Plan = Vec<(u64, u64, Option<u64>)>;

async fn play(plan: Plan, config: RateLimitConfig, takes: u64) {
    let scene = scene_with(ProviderRateLimiter::new(config), Duration::from_millis(takes));
    let replies = join_all(plan.iter().enumerate().map(|(n, (after, tokens, patience))| {
        let scene = &scene;
        async move {
            sleep(Duration::from_millis(*after)).await;
            let patience = patience.map_or(Duration::MAX, Duration::from_millis);
            timeout(patience, scene.ask(&n.to_string(), request(*tokens))).await.ok()
        }
    }))
    .await;
    let began = scene.model.began();
    for (n, (reply, (_, _, patience))) in replies.iter().zip(&plan).enumerate() {
        let times = began.iter().filter(|(name, _)| *name == n.to_string()).count();
        match reply {
            Some(reply) => assert!(reply.is_ok() && times == 1),
            None => assert!(patience.is_some() && times <= 1),
        }
    }
    let tokens = |name: &str| request(plan[name.parse::<usize>().unwrap()].1).tokens();
    for (first, (_, from)) in began.iter().enumerate() {
        let window = began[first..].iter().take_while(|(_, at)| *at < *from + limits::RATE_LIMIT_WINDOW);
        let (count, sent) = window.fold((0, 0), |(count, sent), (name, _)| (count + 1, sent + tokens(name)));
        assert!(config.rpm.is_none_or(|rpm| count <= rpm), "{count} in a minute: {began:?}");
        assert!(config.input_tpm.is_none_or(|tpm| sent <= tpm || count == 1), "{sent} tokens in a minute: {began:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn requests_never_exceed_limit_in_any_minute(
        plan in vec((0_u64..200_000, 5_u64..60, option::weighted(0.3, 0_u64..200_000)), 1..40),
        rpm in option::of(1_u64..6),
        input_tpm in option::of(10_u64..200),
        takes in 0_u64..100_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(plan, RateLimitConfig { input_tpm, output_tpm: None, rpm }, takes));
    }
}
