//! A fake host for unit tests, in which a test prepares params, chat, models, servers, clock and programs. It is there only
//! in native builds, not in a component.
//!
//! ```
//! use shelly_plugin::{Error, http::{Body, Request, Response}, kv, testing::Host};
//!
//! fn title(number: u32) -> Result<String, Error> {
//!     let title = Request::get(format!("https://example.com/{number}")).send()?.ok()?.text()?;
//!     kv::put("newest", &title)?;
//!     Ok(title)
//! }
//!
//! let host = Host::new();
//! host.respond("GET", "https://example.com/7", Ok(Response::new(200, &[], Body::of(["A"]))));
//! assert_eq!(title(7), Ok("A".to_owned()));
//! assert_eq!(host.stored("newest"), Some(b"\"A\"".to_vec()));
//! ```

pub(crate) mod fakes;

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    marker::PhantomData,
    time::Duration,
};

use serde::Serialize;

use crate::{
    coordinator::{self, Coordinator},
    effect::{self, Effect},
    http::Response,
    log::Level,
    process::{Command, Output},
    tool::{self, Tool},
    types::{Ask, Completion, Content, Error, Message, Request, ToolCall},
};

/// The most questions to a model in a row that one call of [`Host::eval`] or [`Host::next`] answers.
const MOST_ASKS: usize = 8;

/// The time at which the clock of a test begins: 2025-01-01, in milliseconds.
const BEGINNING: u64 = 1_735_689_600_000;

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Values that a test has prepared, and actions of the plugin that a test reads.
struct State {
    params: String,
    chat: Vec<Message>,
    tools: Vec<String>,
    outgoing: Option<Request>,
    attachments: BTreeMap<String, Vec<u8>>,
    now_ms: u64,
    monotonic: u64,
    /// The state of the generator of random numbers.
    random: u64,
    /// The values with their revisions.
    stored: BTreeMap<String, (Vec<u8>, u64)>,
    newest_revision: u64,
    responses: BTreeMap<(String, String), VecDeque<Result<Response, Error>>>,
    requests: Vec<SentRequest>,
    credentials: Vec<String>,
    replies: VecDeque<Result<Completion, Error>>,
    asked: Vec<Ask>,
    outputs: BTreeMap<String, VecDeque<Result<Output, Error>>>,
    commands: Vec<Command>,
    log: Vec<(Level, String)>,
    progress: Vec<ProgressReport>,
}

/// A request that the plugin has sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SentRequest {
    /// The method, in upper case.
    pub method: String,
    /// The URL with its query.
    pub url: String,
    /// The headers, as the plugin has set them.
    pub headers: Vec<(String, String)>,
    /// The name of the credential that the host would add.
    pub credential: Option<String>,
    /// The time limit, in milliseconds.
    pub timeout_ms: Option<u32>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// A report of a tool's progress.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressReport {
    /// The finished amount.
    pub done: f64,
    /// The whole amount, if it is known.
    pub total: Option<f64>,
    /// The text for watchers.
    pub message: Option<String>,
}

/// A host for the unit tests of a plugin. While it exists, the functions of this crate use it on its thread.
///
/// A request, question or command for which nothing was prepared panics, so that the test fails.
#[derive(Debug)]
pub struct Host {
    /// Keeps the value on its thread, because the state is a thread-local.
    of_thread: PhantomData<*const ()>,
}

impl Host {
    /// Creates a host without params, with an empty chat and store.
    ///
    /// # Panics
    ///
    /// If the thread has another host.
    #[allow(clippy::new_without_default, reason = "it changes what the functions of the crate do")]
    #[track_caller]
    pub fn new() -> Host {
        let state = State {
            params: "{}".to_owned(),
            chat: Vec::new(),
            tools: Vec::new(),
            outgoing: None,
            attachments: BTreeMap::new(),
            now_ms: BEGINNING,
            monotonic: 0,
            random: 0,
            stored: BTreeMap::new(),
            newest_revision: 0,
            responses: BTreeMap::new(),
            requests: Vec::new(),
            credentials: Vec::new(),
            replies: VecDeque::new(),
            asked: Vec::new(),
            outputs: BTreeMap::new(),
            commands: Vec::new(),
            log: Vec::new(),
            progress: Vec::new(),
        };
        let is_other = STATE.with_borrow(Option::is_some);
        assert!(!is_other, "this thread has a testing::Host already; drop it before the next");
        STATE.set(Some(state));
        Host { of_thread: PhantomData }
    }

    /// Sets the params, which must become a JSON object.
    ///
    /// # Panics
    ///
    /// If the value cannot be written as JSON.
    pub fn set_params(&self, params: &impl Serialize) {
        let params = serde_json::to_string(params).expect("the params must be a value of JSON");
        change(|state| state.params = params);
    }

    /// Sets the conversation that effects and coordinators read.
    pub fn set_chat(&self, messages: Vec<Message>) {
        change(|state| state.chat = messages);
    }

    /// Sets the names of the agent's tools.
    pub fn set_tools(&self, names: &[&str]) {
        change(|state| state.tools = names.iter().map(|name| (*name).to_owned()).collect());
    }

    /// Sets the request that a model middleware handles.
    pub fn set_outgoing(&self, request: Request) {
        change(|state| state.outgoing = Some(request));
    }

    /// Sets the bytes of an attachment.
    pub fn attach(&self, id: &str, bytes: impl Into<Vec<u8>>) {
        change(|state| drop(state.attachments.insert(id.to_owned(), bytes.into())));
    }

    /// Sets the names of the credentials that are granted.
    pub fn set_credentials(&self, names: &[&str]) {
        change(|state| state.credentials = names.iter().map(|name| (*name).to_owned()).collect());
    }

    /// Lets time pass. The clock stands still otherwise.
    pub fn advance(&self, time: Duration) {
        let as_number = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        change(|state| {
            state.now_ms = state.now_ms.saturating_add(as_number(time.as_millis()));
            state.monotonic = state.monotonic.saturating_add(as_number(time.as_nanos()));
        });
    }

    /// Prepares the response to one request with this method and URL, query included. Several are used in their order.
    pub fn respond(&self, method: &str, url: &str, response: Result<Response, Error>) {
        let request = (method.to_owned(), url.to_owned());
        change(|state| state.responses.entry(request).or_default().push_back(response));
    }

    /// Returns the requests that were sent.
    pub fn requests(&self) -> Vec<SentRequest> {
        change(|state| state.requests.clone())
    }

    /// Returns the bytes that are stored under a key.
    pub fn stored(&self, key: &str) -> Option<Vec<u8>> {
        change(|state| state.stored.get(key).map(|(value, _)| value.clone()))
    }

    /// Prepares the reply to the next question to a model.
    pub fn reply(&self, reply: Result<Completion, Error>) {
        change(|state| state.replies.push_back(reply));
    }

    /// Returns the questions to models.
    pub fn asked(&self) -> Vec<Ask> {
        change(|state| state.asked.clone())
    }

    /// Prepares the outcome of the next run of a program.
    pub fn set_output(&self, program: &str, output: Result<Output, Error>) {
        change(|state| state.outputs.entry(program.to_owned()).or_default().push_back(output));
    }

    /// Returns the commands that were run.
    pub fn commands(&self) -> Vec<Command> {
        change(|state| state.commands.clone())
    }

    /// Returns the entries of the log.
    pub fn log(&self) -> Vec<(Level, String)> {
        change(|state| state.log.clone())
    }

    /// Returns the reports of progress.
    pub fn progress(&self) -> Vec<ProgressReport> {
        change(|state| state.progress.clone())
    }

    /// Calls a tool as a model does, with its arguments in JSON.
    ///
    /// # Errors
    ///
    /// The error that a model would read.
    pub fn call<T: Tool>(&self, arguments: &str) -> Result<Vec<Content>, Error> {
        let (id, name, arguments) = ("call".to_owned(), T::NAME.to_owned(), arguments.to_owned());
        tool::run::<T>(ToolCall { id, name, arguments, meta: Vec::new() })
    }

    /// Calls an effect, and calls it again with the prepared reply for as long as it asks a model.
    ///
    /// # Errors
    ///
    /// The effect's error, or [`Error::Exhausted`] if it asks more than 8 times in a row.
    #[track_caller]
    pub fn eval<E: Effect>(&self, input: effect::EffectInput, state: Vec<u8>) -> Result<effect::Step, Error> {
        let (mut input, mut state) = (input, state);
        for _ in 0..=MOST_ASKS {
            let step = E::eval(input.clone(), state)?;
            match step.action {
                effect::Action::AskModel(ask) => input.reply = Some(self.answer(ask)),
                action => return Ok(effect::Step { action, ..step }),
            }
            state = step.state;
        }
        Err(too_many_asks())
    }

    /// Calls a coordinator, and calls it again with the prepared reply for as long as it asks a model.
    ///
    /// # Errors
    ///
    /// The coordinator's error, or [`Error::Exhausted`] if it asks more than 8 times in a row.
    #[track_caller]
    pub fn next<C: Coordinator>(
        &self,
        input: coordinator::CoordinatorInput,
        state: Vec<u8>,
    ) -> Result<coordinator::Step, Error> {
        let (mut input, mut state) = (input, state);
        for _ in 0..=MOST_ASKS {
            let step = C::next(input.clone(), state)?;
            match step.action {
                coordinator::Action::AskModel(ask) => input.reply = Some(self.answer(ask)),
                action => return Ok(coordinator::Step { action, ..step }),
            }
            state = step.state;
        }
        Err(too_many_asks())
    }

    /// Returns the next prepared reply.
    #[track_caller]
    fn answer(&self, ask: Ask) -> Result<Completion, Error> {
        let reply = change(|state| {
            state.asked.push(ask);
            state.replies.pop_front()
        });
        reply.expect("no reply of a model is prepared; prepare it with `Host::reply`")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        STATE.set(None);
    }
}

fn too_many_asks() -> Error {
    Error::Exhausted(format!("the plugin asked a model more than {MOST_ASKS} times in a row"))
}

/// Applies a function to the state of the thread's host.
fn change<T>(function: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(|state| function(state.as_mut().expect("a host exists as long as its state")))
}

/// Applies a function to the state of the thread's host; returns `None` if there is none.
fn change_if_present<T>(function: impl FnOnce(&mut State) -> T) -> Option<T> {
    STATE.with_borrow_mut(|state| state.as_mut().map(function))
}

/// Applies a function to the state of the thread's host, for a function of the host.
///
/// # Panics
///
/// If there is none. The generated function would abort the process with all of its tests.
#[track_caller]
fn in_host<T>(function: &str, apply: impl FnOnce(&mut State) -> T) -> T {
    match change_if_present(apply) {
        Some(result) => result,
        None => panic!(
            "shelly_plugin::{function} calls the host, which does not exist in a unit test; create a \
             `shelly_plugin::testing::Host` in the test, or run the plugin in shelly-host"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::{
        attachments, chat, clock, config,
        effect::{Action, Edit, EffectInput, Phase, Step},
        http::{self, Body},
        kv, outgoing, process, random,
        types::{Part, Role, RunContext, StopReason, ToolChoice, ToolResult, Usage},
    };

    fn request(text: &str) -> Request {
        Request {
            messages: vec![Message::new(Role::User, text)],
            tools: vec![],
            tool_choice: ToolChoice::Auto,
            max_output_tokens: None,
            temperature: None,
            response_schema: None,
            meta: vec![],
        }
    }

    fn completion(text: &str) -> Completion {
        let parts = vec![Part::from(text)];
        Completion { parts, stop: StopReason::EndTurn, usage: Usage::default(), model: "m".into(), meta: vec![] }
    }

    fn input() -> EffectInput {
        EffectInput {
            cx: RunContext { run: "run".into(), agent: "a".into(), depth: 0 },
            phase: Phase::BeforeModel,
            iteration: 0,
            messages: 0,
            request_tokens: 0,
            context_window: None,
            last_usage: None,
            run_usage: Usage::default(),
            model_ms: 0,
            elapsed_ms: 0,
            reply: None,
        }
    }

    #[test]
    fn params_and_log_belong_to_the_host_while_it_exists() {
        #[derive(serde::Deserialize)]
        struct Params {
            turns: u32,
        }
        let host = Host::new();
        host.set_params(&serde_json::json!({ "turns": 3 }));
        assert_eq!(config::<Params>().unwrap().turns, 3);
        crate::warn!("a {}", 1);
        crate::progress::report(1.0, None, Some("b"));
        assert_eq!(host.log(), [(Level::Warn, "a 1".to_owned())]);
        assert_eq!(host.progress()[0].message.as_deref(), Some("b"));
        assert!(catch_unwind(Host::new).is_err(), "a thread has one host");
        drop(host);
        assert!(config::<Params>().is_err(), "without a host there are no params");
        drop(Host::new());
    }

    #[test]
    fn values_are_stored_with_revisions_and_bounds() {
        let host = Host::new();
        assert_eq!(kv::compare_and_swap("a/1", None, Some(b"x")), Ok(true));
        assert_eq!(kv::compare_and_swap("a/1", None, Some(b"y")), Ok(false));
        let entry = kv::get("a/1").unwrap().unwrap();
        kv::set("a/1", b"x").unwrap();
        assert_eq!(kv::compare_and_swap("a/1", Some(entry.revision), None), Ok(false), "the revision has changed");
        assert_eq!(kv::update("n", |count: Option<u32>| count.unwrap_or(0) + 1), Ok(1));
        assert_eq!(kv::update("n", |count: Option<u32>| count.unwrap_or(0) + 1), Ok(2));
        assert_eq!(host.stored("n"), Some(b"2".to_vec()));
        kv::set("a/2", b"x").unwrap();
        assert_eq!(kv::keys("a/", None), Ok(vec!["a/1".to_owned(), "a/2".to_owned()]));
        assert_eq!(kv::keys("", Some("a/1")), Ok(vec!["a/2".to_owned(), "n".to_owned()]));
        kv::remove("n").unwrap();
        assert_eq!(kv::get("n"), Ok(None));
        assert!(matches!(kv::get(""), Err(Error::Invalid(_))));
        assert!(matches!(kv::set("a", &vec![0; (1 << 20) + 1]), Err(Error::TooLarge(_))));
    }

    #[test]
    fn prepared_responses_answer_requests_in_order() {
        let host = Host::new();
        let url = "https://example.com/a";
        host.set_credentials(&["key"]);
        host.respond("POST", url, Ok(Response::new(200, &[("a", "b")], Body::of(["x", "y"]))));
        host.respond("POST", url, Err(Error::Denied("no".into())));
        let credential = http::credential(None).unwrap();
        let response = http::Request::post(url).credential(credential.as_deref()).body("sent").send().unwrap();
        assert_eq!(response.header("a"), Some("b"));
        assert_eq!(response.text(), Ok("xy".to_owned()));
        let mut upload = http::Request::post(url).upload().unwrap();
        upload.write(b"1").unwrap();
        upload.write(b"2").unwrap();
        assert_eq!(upload.finish().unwrap_err(), Error::Denied("no".into()));
        let sent: Vec<_> = host.requests().into_iter().map(|request| (request.credential, request.body)).collect();
        assert_eq!(sent, [(Some("key".to_owned()), b"sent".to_vec()), (None, b"12".to_vec())]);
        let unprepared = catch_unwind(AssertUnwindSafe(|| http::Request::get(url).send()));
        let text = *unprepared.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("no response is prepared for GET https://example.com/a"), "{text}");
        assert_eq!(host.requests().len(), 3, "the host works on after a panic");
    }

    #[test]
    fn broken_body_of_a_prepared_response_is_an_error() {
        let host = Host::new();
        let body = Body::of(["a"]).and_then_fails(Error::unavailable("cut"));
        host.respond("GET", "https://example.com", Ok(Response::new(200, &[], body)));
        let response = http::Request::get("https://example.com").send().unwrap();
        assert_eq!(response.text(), Err(Error::unavailable("cut")));
    }

    #[test]
    fn chat_of_the_host_has_groups_and_traits() {
        let call = ToolCall { id: "1".into(), name: "t".into(), arguments: "{}".into(), meta: vec![] };
        let result = ToolResult { call_id: "1".into(), content: vec!["x".into()], is_error: true };
        let with = |role, part| Message { parts: vec![part], ..Message::new(role, "") };
        let host = Host::new();
        host.set_chat(vec![
            Message::new(Role::User, "a"),
            with(Role::Assistant, Part::ToolCall(call)),
            with(Role::Tool, Part::ToolResult(result)),
            Message { meta: vec![("shelly.note".into(), "e".into())], ..Message::new(Role::User, "b") },
        ]);
        host.set_tools(&["t"]);
        let entries = chat::all_entries(0, chat::length());
        assert_eq!(entries.iter().map(|entry| entry.group).collect::<Vec<_>>(), [None, Some(2), Some(2), None]);
        assert_eq!(entries[1].traits, chat::Traits::CALLS);
        assert_eq!(entries[2].traits, chat::Traits::RESULTS | chat::Traits::FAILED);
        assert_eq!(entries[3].traits, chat::Traits::NOTE);
        assert_eq!(chat::calls_of(2), [("1".to_owned(), "t".to_owned())]);
        assert_eq!((chat::find(9), chat::message(0).map(|message| message.text())), (None, Some("a".to_owned())));
        assert_eq!(chat::tools(), ["t"]);
    }

    #[test]
    fn effect_is_called_again_with_the_prepared_reply() {
        struct Judge;
        impl Effect for Judge {
            fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
                match input.reply {
                    None => Ok(Step::ask(vec![1], Ask { model: None, request: request("good?") })),
                    Some(reply) => Ok(Step::edits(state, vec![Edit::Note(format!("{:?}", reply?.parts.len()))])),
                }
            }
        }
        let host = Host::new();
        host.reply(Ok(completion("yes")));
        let step = host.eval::<Judge>(input(), vec![]).unwrap();
        assert_eq!((step.state, step.action), (vec![1], Action::Edits(vec![Edit::Note("1".into())])));
        assert_eq!(host.asked(), [Ask { model: None, request: request("good?") }]);
        host.reply(Err(Error::Denied("no".into())));
        assert_eq!(host.eval::<Judge>(input(), vec![]), Err(Error::Denied("no".into())));
    }

    #[test]
    fn coordinator_that_only_asks_is_ended() {
        struct Asks;
        impl Coordinator for Asks {
            fn next(_: coordinator::CoordinatorInput, state: Vec<u8>) -> Result<coordinator::Step, Error> {
                Ok(coordinator::Step::ask(state, Ask { model: None, request: request("who?") }))
            }
        }
        let host = Host::new();
        for _ in 0..=MOST_ASKS {
            host.reply(Ok(completion("a")));
        }
        let cx = RunContext { run: "run".into(), agent: "a".into(), depth: 0 };
        let input = coordinator::CoordinatorInput { cx, step: 0, members: vec![], reports: vec![], reply: None };
        assert!(matches!(host.next::<Asks>(input, vec![]), Err(Error::Exhausted(_))));
    }

    #[test]
    fn clock_random_attachments_and_programs_are_prepared() {
        let host = Host::new();
        let begun = (clock::now(), clock::monotonic());
        host.advance(Duration::from_millis(1_500));
        assert_eq!((clock::now() - begun.0, clock::monotonic() - begun.1), (1_500, 1_500_000_000));
        let (one, two) = (random::bytes(9), random::bytes(9));
        assert!(one.len() == 9 && one != two, "{one:?}");
        host.attach("a", "abc");
        assert_eq!(attachments::read("a", 1, 9), Ok(b"bc".to_vec()));
        assert_eq!(attachments::read("a", 9, 9), Ok(vec![]));
        assert!(matches!(attachments::read("b", 0, 1), Err(Error::NotFound(_))));
        host.set_outgoing(request("a"));
        assert_eq!(outgoing::get(), request("a"));
        let output = Output { status: Some(0), stdout: b"x".to_vec(), stderr: vec![], cut: false };
        host.set_output("git", Ok(output.clone()));
        let command = Command { program: "git".into(), args: vec!["status".into()], stdin: vec![], timeout_ms: None };
        assert_eq!(process::run(&command), Ok(output));
        assert_eq!(host.commands(), [command]);
    }

    #[test]
    fn tool_is_called_with_the_arguments_of_a_model() {
        struct Twice;
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        struct TwiceArgs {
            text: String,
        }
        impl Tool for Twice {
            const NAME: &'static str = "twice";
            const DESCRIPTION: &'static str = "Says it twice.";
            type Args = TwiceArgs;

            fn call(args: TwiceArgs, _call: &crate::Call) -> Result<crate::Reply, Error> {
                Ok(args.text.repeat(2).into())
            }
        }
        let host = Host::new();
        assert_eq!(host.call::<Twice>(r#"{"text":"a"}"#), Ok(vec!["aa".into()]));
        assert!(matches!(host.call::<Twice>("{}"), Err(Error::Invalid(_))));
    }
}
