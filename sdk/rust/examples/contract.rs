//! One example for each interface of the contract. The pages in `docs/contract` show them, and a build checks them.

#![allow(dead_code, reason = "an example shows a use and is not called")]

fn main() {}

mod tool {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

    struct CountWords;

    #[derive(Deserialize, JsonSchema)]
    struct CountWordsArgs {
        /// The text.
        text: String,
    }

    impl Tool for CountWords {
        // `specs` is made of these.
        const NAME: &'static str = "count_words";
        const DESCRIPTION: &'static str = "Counts the words of a text.";
        const HINTS: ToolHints = ToolHints::PURE;
        type Args = CountWordsArgs;

        fn call(args: CountWordsArgs, _: &Call) -> Result<Reply, Error> {
            Ok(args.text.split_whitespace().count().to_string().into())
        }
    }
}

mod effect {
    use shelly_plugin::{
        Error,
        effect::{Edit, Effect, EffectInput, Step, Wake},
    };

    struct Reminder;

    impl Effect for Reminder {
        fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
            if input.iteration < 10 {
                // Until then the host does not start this plugin again.
                return Ok(Step::edits(state, vec![]).until(Wake::at_iteration(10)));
            }
            let note = Edit::Note("Come to an end.".into());
            Ok(Step::edits(state, vec![note]).until(Wake::NEVER))
        }
    }
}

mod run_middleware {
    use shelly_plugin::{
        Error, Message,
        run_middleware::{AfterDecision, Again, BeforeDecision, Outcome, Pass, RunMiddleware},
        types::RunContext,
    };

    struct NoEmptyAnswers;

    impl RunMiddleware for NoEmptyAnswers {
        fn before(_: RunContext, _: Vec<Message>) -> Result<BeforeDecision, Error> {
            Ok(BeforeDecision::Proceed(Pass { input: None, state: Vec::new() }))
        }

        fn after(_: RunContext, outcome: Outcome, state: Vec<u8>) -> Result<AfterDecision, Error> {
            let is_empty = outcome.reply.is_ok_and(|message| message.text().is_empty());
            if !is_empty {
                return Ok(AfterDecision::Accept);
            }
            let feedback = Some("Your answer was empty.".into());
            Ok(AfterDecision::Retry(Again { feedback, delay_ms: 0, state }))
        }
    }
}

mod model_middleware {
    use shelly_plugin::{
        Error,
        model_middleware::{AfterDecision, Again, BeforeDecision, ModelMiddleware, Pass, Sending},
        types::{Completion, RunContext},
    };

    struct SpareModel;

    impl ModelMiddleware for SpareModel {
        fn before(_: RunContext, _: Sending) -> Result<BeforeDecision, Error> {
            Ok(BeforeDecision::Proceed(Pass { model: None, request: None, state: Vec::new() }))
        }

        fn after(
            _: RunContext,
            sending: Sending,
            reply: Result<Completion, Error>,
            state: Vec<u8>,
        ) -> Result<AfterDecision, Error> {
            Ok(match reply {
                // The config names the model `spare`, and grants it.
                Err(Error::Unavailable(_)) if sending.attempt == 0 => {
                    AfterDecision::Retry(Again { model: Some("spare".into()), delay_ms: 0, state })
                }
                _ => AfterDecision::Accept,
            })
        }
    }
}

mod tool_middleware {
    use shelly_plugin::{
        Content, Error,
        tool_middleware::{Decision, Target, ToolMiddleware, Verdict},
        types::{RunContext, ToolCall},
    };

    struct NoDeletes;

    impl ToolMiddleware for NoDeletes {
        fn before(_: RunContext, call: ToolCall, _: Target) -> Result<Decision, Error> {
            let verdict = match call.name.contains("delete") {
                true => Verdict::Deny("files are not deleted here".into()),
                false => Verdict::Allow,
            };
            Ok(Decision { verdict, arguments: None, state: Vec::new() })
        }

        fn after(
            _: RunContext,
            _: ToolCall,
            _: Result<Vec<Content>, Error>,
            _: Vec<u8>,
        ) -> Result<Option<Vec<Content>>, Error> {
            Ok(None)
        }
    }
}

mod provider {
    use shelly_plugin::{
        Error, Streamed,
        provider::Provider,
        types::{Completion, Request, StopReason},
    };

    struct Echo;

    impl Provider for Echo {
        fn complete(model: String, request: Request) -> Result<Completion, Error> {
            let mut reply = Streamed::new(&model);
            if let Some(message) = request.messages.last() {
                reply.text(&message.text())?;
            }
            reply.finish(StopReason::EndTurn)
        }
    }
}

mod coordinator {
    use shelly_plugin::{
        Error,
        coordinator::{Assignment, Coordinator, CoordinatorInput, MemberOutcome, Step},
    };

    struct Relay;

    impl Coordinator for Relay {
        fn next(input: CoordinatorInput, state: Vec<u8>) -> Result<Step, Error> {
            // The member to whom the last one hands over, or the first member in the first step.
            let next = match input.reports.last().map(|report| &report.outcome) {
                Some(MemberOutcome::HandedOver(member)) => Some(member),
                Some(MemberOutcome::Replied | MemberOutcome::Failed(_)) => None,
                None => input.members.first().map(|member| &member.name),
            };
            Ok(match next {
                Some(member) => Step::run(state, vec![Assignment::of(member)]),
                None => Step::done(),
            })
        }
    }
}

mod log {
    use shelly_plugin::{info, log};

    fn tell(pages: usize) {
        info!("{pages} pages");
        // The same without the macro.
        log::write(log::Level::Info, &format!("{pages} pages"));
    }
}

mod config {
    use serde::Deserialize;
    use shelly_plugin::{Error, config};

    #[derive(Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Params {
        pages: u32,
    }

    impl Default for Params {
        fn default() -> Params {
            Params { pages: 10 }
        }
    }

    fn pages() -> Result<u32, Error> {
        // Calls `get` and reads the JSON.
        Ok(config::<Params>()?.pages)
    }
}

mod progress {
    use shelly_plugin::progress;

    fn tell(done: u32, total: u32) {
        progress::report(f64::from(done), Some(f64::from(total)), Some("reading pages"));
    }
}

mod sink {
    use shelly_plugin::sink::{self, Delta};

    fn pass_on(piece: &str) {
        sink::emit(&Delta::Text(piece.into()));
    }
}

mod outgoing {
    use shelly_plugin::outgoing;

    fn has_tools() -> bool {
        !outgoing::get().tools.is_empty()
    }
}

mod attachments {
    use shelly_plugin::{Error, attachments};

    fn whole(id: &str) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        loop {
            let more = attachments::read(id, bytes.len() as u64, 1 << 20)?;
            if more.is_empty() {
                return Ok(bytes);
            }
            bytes.extend(more);
        }
    }
}

mod chat {
    use shelly_plugin::{
        Message,
        chat::{self, Traits},
    };

    /// The messages with failed results, found without reading any other.
    fn failed() -> Vec<Message> {
        let entries = chat::entries(0, chat::length());
        let failed = entries.iter().filter(|entry| entry.traits.contains(Traits::FAILED));
        failed.filter_map(|entry| chat::find(entry.id)).flat_map(|at| chat::read(at, at + 1)).collect()
    }

    fn can_write() -> bool {
        chat::tools().iter().any(|name| name == "write_file")
    }
}

mod kv {
    use shelly_plugin::{Error, kv};

    /// Counts, also if several calls count at once.
    fn count(key: &str) -> Result<u8, Error> {
        loop {
            let before = kv::get(key)?;
            let count = before.as_ref().and_then(|entry| entry.value.first()).map_or(1, |count| count.wrapping_add(1));
            if kv::compare_and_swap(key, before.map(|entry| entry.revision), Some(&[count]))? {
                return Ok(count);
            }
        }
    }

    fn reset() -> Result<(), Error> {
        kv::keys("", None)?.iter().try_for_each(|key| kv::set(key, &[0]))
    }
}

mod http {
    use shelly_plugin::{
        Error,
        http::{self, Request},
    };

    fn page() -> Result<String, Error> {
        let response = Request::get("https://example.com").send()?.ok()?;
        // Calls `body.read` until the end.
        response.text()
    }

    /// The body follows in pieces, so the SDK calls `begin` and then `upload.write`.
    fn send_pieces(pieces: &[&[u8]]) -> Result<u16, Error> {
        let mut upload = Request::put("https://example.com/file").credential("example").upload()?;
        pieces.iter().try_for_each(|piece| upload.write(piece))?;
        Ok(upload.finish()?.status)
    }

    fn has_key() -> bool {
        http::credentials().iter().any(|name| name == "example")
    }
}

mod clock {
    use shelly_plugin::clock;

    fn milliseconds_of(work: impl FnOnce()) -> u64 {
        let start = clock::monotonic();
        work();
        (clock::monotonic() - start) / 1_000_000
    }

    fn days_since_1970() -> u64 {
        clock::now() / 86_400_000
    }
}

mod random {
    use shelly_plugin::random;

    fn key() -> Vec<u8> {
        random::bytes(32)
    }
}

mod process {
    use shelly_plugin::{
        Error,
        process::{self, Command},
    };

    fn version() -> Result<String, Error> {
        let args = vec!["--version".to_owned()];
        let command = Command { program: "git".to_owned(), args, stdin: Vec::new(), timeout_ms: Some(5_000) };
        let output = process::run(&command)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
