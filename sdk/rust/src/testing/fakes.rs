//! Replacements for the generated imports in unit tests. They have the signatures of the bindings, and the
//! [`Host`](super::Host) of the thread answers them.

pub mod attachments {
    pub use crate::bindings::imports::shelly::plugin::attachments::*;
    use crate::testing::in_host;

    /// The contract's bound of a call.
    const MOST: usize = 1 << 20;

    #[track_caller]
    pub fn read(id: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error> {
        in_host("attachments::read", |state| {
            let bytes = state.attachments.get(id);
            let bytes = bytes.ok_or_else(|| Error::NotFound(format!("there is no attachment `{id}`")))?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let end = start.saturating_add((max as usize).min(MOST)).min(bytes.len());
            Ok(bytes[start..end].to_vec())
        })
    }
}

pub mod chat {
    use std::ops::Range;

    pub use crate::bindings::imports::shelly::plugin::chat::{Entry, Traits};
    use crate::{
        testing::in_host,
        types::{Content, Message, Part},
    };

    /// The contract's bound of entries in a call.
    const MOST_ENTRIES: usize = 1_024;

    /// The number of bytes of a text that count as a token.
    const TOKEN: usize = 4;

    #[track_caller]
    pub fn length() -> u32 {
        in_host("chat::length", |state| number(state.chat.len()))
    }

    #[track_caller]
    pub fn entries(start: u32, end: u32) -> Vec<Entry> {
        in_host("chat::entries", |state| {
            let all = all_entries(&state.chat);
            let mut found = all[range(start, end, all.len())].to_vec();
            found.truncate(MOST_ENTRIES);
            found
        })
    }

    #[track_caller]
    pub fn read(start: u32, end: u32) -> Vec<Message> {
        in_host("chat::read", |state| state.chat[range(start, end, state.chat.len())].to_vec())
    }

    #[track_caller]
    pub fn find(id: u64) -> Option<u32> {
        let position = |length: usize| u32::try_from(id.checked_sub(1)?).ok().filter(|at| (*at as usize) < length);
        in_host("chat::find", |state| position(state.chat.len()))
    }

    #[track_caller]
    pub fn tools() -> Vec<String> {
        in_host("chat::tools", |state| state.tools.clone())
    }

    fn number(length: usize) -> u32 {
        u32::try_from(length).unwrap_or(u32::MAX)
    }

    fn range(start: u32, end: u32, length: usize) -> Range<usize> {
        let end = (end as usize).min(length);
        (start as usize).min(end)..end
    }

    /// Returns the facts about all messages. The id of a message is its position plus 1.
    fn all_entries(messages: &[Message]) -> Vec<Entry> {
        let (mut entries, mut group) = (Vec::with_capacity(messages.len()), None);
        for (id, message) in (1_u64..).zip(messages) {
            let mut traits = Traits::empty();
            let mut bytes = 0;
            for part in &message.parts {
                match part {
                    Part::Text(text) => bytes += text.len(),
                    Part::ToolCall(call) => {
                        traits |= Traits::CALLS;
                        bytes += call.arguments.len();
                    }
                    Part::ToolResult(result) => {
                        traits |= if result.is_error { Traits::RESULTS | Traits::FAILED } else { Traits::RESULTS };
                        let has_media = result.content.iter().any(|content| matches!(content, Content::Media(_)));
                        traits.set(Traits::MEDIA, has_media || traits.contains(Traits::MEDIA));
                        bytes += result.text().len();
                    }
                    Part::Media(_) => traits |= Traits::MEDIA,
                    Part::Thinking(thinking) => bytes += thinking.text.len(),
                    Part::Other(opaque) => bytes += opaque.json.len(),
                }
            }
            if message.fact("shelly.note").is_some() {
                traits |= Traits::NOTE;
            }
            group = match (traits.contains(Traits::CALLS), traits.contains(Traits::RESULTS)) {
                (true, _) => Some(id),
                (false, true) => group,
                (false, false) => None,
            };
            let tokens = number(bytes.div_ceil(TOKEN));
            entries.push(Entry { id, role: message.role, traits, group, tokens });
        }
        entries
    }
}

pub mod clock {
    use crate::testing::in_host;

    #[track_caller]
    pub fn now() -> u64 {
        in_host("clock::now", |state| state.now_ms)
    }

    #[track_caller]
    pub fn monotonic() -> u64 {
        in_host("clock::monotonic", |state| state.monotonic)
    }
}

pub mod config {
    use crate::testing::change_if_present;

    /// Returns the params; `{}` without a host.
    pub fn get() -> String {
        change_if_present(|state| state.params.clone()).unwrap_or_else(|| "{}".to_owned())
    }
}

pub mod http {
    use std::cell::RefCell;

    pub use crate::bindings::imports::shelly::plugin::http::Request;
    use crate::{
        http,
        testing::{SentRequest, in_host},
        types::Error,
    };

    /// A response with the fields of the generated type.
    #[derive(Debug)]
    pub struct Response {
        pub status: u16,
        pub headers: Vec<(String, String)>,
        pub body: Body,
    }

    /// The body of a response. The box is needed because `http::Body` contains this type.
    #[derive(Debug)]
    pub struct Body(RefCell<Box<http::Body>>);

    impl Body {
        pub fn read(&self, max: u32) -> Result<Vec<u8>, Error> {
            self.0.borrow_mut().read(max)
        }
    }

    /// A request whose body is being sent.
    #[derive(Debug)]
    pub struct Upload {
        request: Request,
        body: RefCell<Vec<u8>>,
    }

    impl Upload {
        pub fn write(&self, chunk: &[u8]) -> Result<(), Error> {
            self.body.borrow_mut().extend_from_slice(chunk);
            Ok(())
        }

        #[track_caller]
        pub fn finish(upload: Upload) -> Result<Response, Error> {
            send(&upload.request, &upload.body.into_inner())
        }
    }

    #[track_caller]
    pub fn send(request: &Request, body: &[u8]) -> Result<Response, Error> {
        let (key, sent) = ((request.method.clone(), request.url.clone()), sent(request, body));
        let prepared = in_host("http::Request::send", |state| {
            state.requests.push(sent);
            state.responses.get_mut(&key).and_then(|responses| responses.pop_front())
        });
        let Some(response) = prepared else {
            panic!("no response is prepared for {} {}; prepare it with `Host::respond`", request.method, request.url);
        };
        let http::Response { status, headers, body, .. } = response?;
        Ok(Response { status, headers, body: Body(RefCell::new(Box::new(body))) })
    }

    #[track_caller]
    pub fn begin(request: &Request) -> Result<Upload, Error> {
        let request = in_host("http::Request::upload", |_| request.clone());
        Ok(Upload { request, body: RefCell::default() })
    }

    #[track_caller]
    pub fn credentials() -> Vec<String> {
        in_host("http::credentials", |state| state.credentials.clone())
    }

    fn sent(request: &Request, body: &[u8]) -> SentRequest {
        let Request { method, url, headers, credential, timeout_ms } = request.clone();
        SentRequest { method, url, headers, credential, timeout_ms, body: body.to_vec() }
    }
}

pub mod kv {
    pub use crate::bindings::imports::shelly::plugin::kv::Entry;
    use crate::{
        testing::{State, in_host},
        types::Error,
    };

    /// The contract's bounds: bytes of a key and of a value, and keys that are listed in a call.
    const MOST_KEY: usize = 512;
    const MOST_VALUE: usize = 1 << 20;
    const MOST_LISTED: usize = 1_000;

    #[track_caller]
    pub fn get(key: &str) -> Result<Option<Entry>, Error> {
        in_host("kv::get", |state| read(state, key))
    }

    #[track_caller]
    pub fn set(key: &str, value: Option<&[u8]>) -> Result<(), Error> {
        let function = if value.is_some() { "kv::set" } else { "kv::remove" };
        in_host(function, |state| write(state, key, value))
    }

    #[track_caller]
    pub fn compare_and_swap(key: &str, expected: Option<u64>, value: Option<&[u8]>) -> Result<bool, Error> {
        in_host("kv::compare_and_swap", |state| {
            let is_expected = read(state, key)?.map(|entry| entry.revision) == expected;
            if is_expected {
                write(state, key, value)?;
            }
            Ok(is_expected)
        })
    }

    #[track_caller]
    pub fn keys(prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
        in_host("kv::keys", |state| {
            let is_wanted = |key: &&String| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after);
            Ok(state.stored.keys().filter(is_wanted).take(MOST_LISTED).cloned().collect())
        })
    }

    fn check(key: &str) -> Result<(), Error> {
        match key.len() {
            1..=MOST_KEY => Ok(()),
            length => Err(Error::Invalid(format!("a key has 1 to {MOST_KEY} bytes, this one has {length}"))),
        }
    }

    fn read(state: &State, key: &str) -> Result<Option<Entry>, Error> {
        check(key)?;
        Ok(state.stored.get(key).map(|(value, revision)| Entry { value: value.clone(), revision: *revision }))
    }

    fn write(state: &mut State, key: &str, value: Option<&[u8]>) -> Result<(), Error> {
        check(key)?;
        let Some(value) = value else {
            state.stored.remove(key);
            return Ok(());
        };
        if value.len() > MOST_VALUE {
            let length = value.len();
            return Err(Error::TooLarge(format!("a value has at most {MOST_VALUE} bytes, this one has {length}")));
        }
        state.newest_revision += 1;
        state.stored.insert(key.to_owned(), (value.to_vec(), state.newest_revision));
        Ok(())
    }
}

pub mod log {
    pub use crate::bindings::imports::shelly::plugin::log::Level;
    use crate::testing::change_if_present;

    /// Keeps an entry; writes it to the standard error without a host.
    pub fn write(level: Level, message: &str) {
        let kept = change_if_present(|state| state.log.push((level, message.to_owned())));
        if kept.is_none() {
            eprintln!("{level:?}: {message}");
        }
    }
}

pub mod outgoing {
    pub use crate::bindings::imports::shelly::plugin::outgoing::*;
    use crate::testing::in_host;

    #[track_caller]
    pub fn get() -> Request {
        let request = in_host("outgoing::get", |state| state.outgoing.clone());
        request.expect("no request is set; set it with `Host::set_outgoing`")
    }
}

pub mod process {
    pub use crate::bindings::imports::shelly::plugin::process::*;
    use crate::testing::in_host;

    #[track_caller]
    pub fn run(command: &Command) -> Result<Output, Error> {
        let prepared = in_host("process::run", |state| {
            state.commands.push(command.clone());
            state.outputs.get_mut(&command.program).and_then(|outputs| outputs.pop_front())
        });
        match prepared {
            Some(output) => output,
            None => panic!(
                "no output is prepared for the program `{}`; prepare it with `Host::set_output`",
                command.program
            ),
        }
    }
}

pub mod progress {
    use crate::testing::{ProgressReport, change_if_present};

    /// Keeps a report; drops it without a host.
    pub fn report(done: f64, total: Option<f64>, message: Option<&str>) {
        let report = ProgressReport { done, total, message: message.map(str::to_owned) };
        let _ = change_if_present(|state| state.progress.push(report));
    }
}

pub mod random {
    use crate::testing::in_host;

    /// Returns the same bytes in each test: those of a linear congruential generator.
    #[track_caller]
    pub fn bytes(len: u32) -> Vec<u8> {
        in_host("random::bytes", |state| {
            let mut next = || {
                state.random =
                    state.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state.random.to_be_bytes()[0]
            };
            (0..len).map(|_| next()).collect()
        })
    }
}

pub mod sink {
    pub use crate::bindings::imports::shelly::plugin::sink::Delta;
}
