//! Claims about the readers of foreign texts, which hold for any input. Each claim takes bytes, panics if it does not hold,
//! and returns whether the bytes were accepted, so that the caller can see that both happen. Fuzz targets call them with
//! what a fuzzer finds, `tests/all/properties.rs` with what proptest makes of the seeds; they are written once, here.

pub mod multiply;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use shelly_host::{
    capability::{Power, Powers},
    chat::{
        Media, MediaData, Message, OpaqueContent, Part, Role, StopReason, ThinkingPart, ToolCall, ToolResult,
        ToolResultContent, Usage,
    },
    config::{AgentConfig, AgentRuntimeInfo, Config, ConfigRuntimeInfo, EffectiveConfig, PluginRuntimeInfo},
    conformance::AttackSuite,
    error::{Fault, Report},
    fuzz, limits,
    model::Completion,
    plugin::{Anatomy, PluginKind},
    provider::WireApi,
    session::{DiskStorage, SessionStorage, SessionStore, SessionStoreOptions},
};

/// Bytes of the longest sentence that a person is told: beyond that nobody reads it.
const TOLD_BYTES: usize = 16 << 10;

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A manifest is refused with a reason that fits on a screen, or it is what the loader relies on.
pub fn manifest(bytes: &[u8]) -> bool {
    let text = text(bytes);
    let manifest = match fuzz::manifest(&text) {
        Ok(manifest) => manifest,
        Err(reason) => {
            assert!(!reason.trim().is_empty() && reason.len() <= TOLD_BYTES, "{} bytes: {reason}", reason.len());
            return false;
        }
    };
    let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!((1..=64).contains(&manifest.id.len()) && manifest.id.chars().all(is_id), "{:?}", manifest.id);
    // It names a file of its folder, and nothing else.
    let component = Path::new(&manifest.component);
    assert_eq!(component.file_name(), Some(component.as_os_str()), "{component:?}");
    assert!(!manifest.component.contains('\0'));
    assert!(!manifest.kinds.is_empty() && manifest.kinds.is_sorted_by(|a, b| a < b), "{:?}", manifest.kinds);
    let is = |kind| manifest.kinds.contains(&kind);
    assert_eq!(is(PluginKind::Effect), !manifest.phases.is_empty());
    let reads = is(PluginKind::Effect) || is(PluginKind::Tool);
    assert!(reads || !manifest.wants.chat && manifest.wants.powers.is_empty());
    let changes = manifest.wants.powers.iter().any(|power| !power.is_look());
    assert!(is(PluginKind::Effect) || !changes, "{:?}", manifest.wants);
    assert!(!(is(PluginKind::Effect) && is(PluginKind::Tool)) || manifest.wants.powers.contains(&Power::ProvideTools));
    true
}

/// A config is refused with a reason and a mend in plain characters, or all of it can be shown, without its keys.
pub fn config(bytes: &[u8]) -> bool {
    let text = text(bytes);
    let config = match Config::parse(&text, "/project".into()) {
        Ok(config) => config,
        Err(report) => {
            is_told(&report);
            return false;
        }
    };
    let known = |agent: &AgentConfig| AgentRuntimeInfo {
        toolboxes: vec![vec![]; agent.toolboxes.len()],
        skills: vec![],
        plugins: vec![PluginRuntimeInfo::default(); agent.all_plugins().count()],
        ..AgentRuntimeInfo::default()
    };
    let known = ConfigRuntimeInfo {
        plugin_dirs: vec![],
        guest_memory: None,
        prices: vec![None; config.providers.len()],
        agents: config.agents.iter().map(known).collect(),
        teams: config.teams.iter().map(|team| known(&team.own)).collect(),
    };
    let shown = serde_json::to_string(&EffectiveConfig::new(&config, &known)).unwrap();
    for key in config.providers.iter().filter_map(|provider| provider.api_key.as_deref()) {
        let is_secret = key.len() >= 8 && !key.contains("${") && text.matches(key).count() == 1;
        assert!(!is_secret || !shown.contains(key), "a key is shown: {shown}");
    }
    for name in config.everyone().map(|who| who.name.as_str()) {
        assert_eq!(config.who(name).unwrap().own().name, name);
    }
    if let Some(entry) = &config.entry_agent {
        assert_eq!(&config.entry().unwrap().own().name, entry);
    }
    true
}

/// A report that a person can read and act on, of which no character acts on the terminal.
fn is_told(report: &Report) {
    let sentences = [std::slice::from_ref(&report.message), &report.causes, report.hint.as_slice()].concat();
    assert!(report.hint.is_some(), "there is no hint: {report:?}");
    for sentence in sentences {
        assert!(!sentence.trim().is_empty() && sentence.len() <= TOLD_BYTES, "{} bytes: {report:?}", sentence.len());
        assert!(!sentence.chars().any(char::is_control), "{report:?}");
    }
}

/// Bytes that decide: from the first on, and nothing but zeros at their end.
struct Tape<'a>(&'a [u8]);

impl<'a> Tape<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Below `most`.
    fn below(&mut self, most: u8) -> u8 {
        self.byte() % most
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// A short text as a rule; one in some is long.
    fn text(&mut self) -> String {
        let length = usize::from(self.byte());
        match length {
            255 => "é".repeat(usize::from(self.byte()) * 64),
            length => text(self.bytes(length % 24)).into_owned(),
        }
    }

    fn meta(&mut self) -> Vec<(String, String)> {
        let count = match self.byte() {
            255 => 40,
            count => count % 3,
        };
        (0..count).map(|_| (self.text(), self.text())).collect()
    }

    fn media(&mut self) -> Media {
        let source = match self.below(2) {
            0 => MediaData::Bytes(Arc::from(self.text().as_bytes())),
            _ => MediaData::Url(self.text()),
        };
        let name = (self.below(2) == 0).then(|| self.text());
        Media { media_type: self.text(), name, source }
    }

    fn content(&mut self) -> ToolResultContent {
        match self.below(4) {
            0 => ToolResultContent::Text(self.text()),
            1 => ToolResultContent::Json(self.text()),
            2 => ToolResultContent::Media(self.media()),
            _ => ToolResultContent::Other(OpaqueContent { kind: self.text(), json: self.text() }),
        }
    }

    fn part(&mut self) -> Part {
        match self.below(6) {
            0 => Part::Text(self.text()),
            1 => Part::Media(self.media()),
            2 => {
                let opaque = (self.below(2) == 0).then(|| self.text());
                Part::Thinking(ThinkingPart { text: self.text(), opaque })
            }
            3 => Part::ToolCall(ToolCall {
                id: self.text(),
                name: self.text(),
                arguments: self.text(),
                meta: self.meta(),
            }),
            4 => {
                let content = (0..self.below(4)).map(|_| self.content()).collect();
                Part::ToolResult(ToolResult { call_id: self.text(), content, is_error: self.below(2) == 0 })
            }
            _ => Part::Other(OpaqueContent { kind: self.text(), json: self.text() }),
        }
    }

    fn message(&mut self) -> Message {
        let role = [Role::System, Role::User, Role::Assistant, Role::Tool][usize::from(self.below(4))];
        let parts = (0..self.below(6)).map(|_| self.part()).collect();
        Message { sender: self.text(), role, parts, meta: self.meta() }
    }

    fn fault(&mut self) -> Fault {
        let after = (self.below(2) == 0).then(|| Duration::from_millis(u64::from(self.byte()) << self.below(40)));
        let message = self.text();
        match self.below(9) {
            0 => Fault::Invalid { message },
            1 => Fault::Denied { message },
            2 => Fault::NotFound { message },
            3 => Fault::TooLarge { message },
            4 => Fault::Exhausted { message },
            5 => Fault::RateLimited { message, after },
            6 => Fault::Unavailable { message, after },
            7 => Fault::Timeout { message },
            _ => Fault::Other { message },
        }
    }
}

/// Asserts that a value that crosses to a guest and back is unchanged, or is over a bound of the contract; and that a guest
/// sees no more than its powers allow.
pub fn convert(bytes: &[u8]) -> bool {
    if let Ok(message) = serde_json::from_slice::<Message>(bytes) {
        crosses(&message);
    }
    let mut tape = Tape(bytes);
    let message = tape.message();
    let crossed = crosses(&message);
    let json = serde_json::to_vec(&message).unwrap();
    assert_eq!(serde_json::from_slice::<Message>(&json).unwrap(), message, "it is not read as it was written");

    let parts: Vec<_> = (0..tape.below(4)).map(|_| tape.part()).collect();
    let stop = match tape.below(6) {
        0 => StopReason::EndTurn,
        1 => StopReason::ToolCalls,
        2 => StopReason::MaxTokens,
        3 => StopReason::StopSequence,
        4 => StopReason::Refusal,
        _ => StopReason::Other(tape.text()),
    };
    let usage = Usage { input_tokens: u64::from(tape.byte()), output_tokens: u64::MAX, ..Usage::default() };
    let completion = Completion { parts, stop, usage, model: tape.text(), meta: tape.meta() };
    match fuzz::completion(&completion) {
        Ok(back) => {
            assert!(is_within(&completion.parts, &completion.meta) && is_own(&completion.meta));
            assert_eq!((&back.parts, back.usage, &back.meta), (&completion.parts, usage, &completion.meta));
            assert!(back.model.len() <= 200 && (completion.model.len() > 200 || back.model == completion.model));
        }
        Err(refused) => {
            let has_result = completion.parts.iter().any(|part| matches!(part, Part::ToolResult(_)));
            let is_within = is_within(&completion.parts, &completion.meta) && is_own(&completion.meta);
            assert!(has_result || !is_within, "{refused}: {completion:?}");
        }
    }

    let fault = tape.fault();
    let back = fuzz::fault(&fault);
    let told = |fault: &Fault| fault.to_string();
    assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&fault));
    assert_eq!(back.retry_after(), fault.retry_after());
    match told(&fault).len() <= limits::ERROR_BYTES {
        true => assert_eq!(back, fault),
        false => assert!(told(&back).len() <= limits::ERROR_BYTES),
    }

    let (name, description, schema) = (tape.text(), tape.text(), text(tape.0));
    match fuzz::tool_spec(&name, &description, &schema) {
        Ok(spec) => {
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name:?}");
            let schema: serde_json::Value = serde_json::from_str(spec.input_schema.get()).unwrap();
            assert_eq!(schema["type"], "object");
            assert_eq!((spec.name, spec.description), (name, description));
        }
        Err(reason) => assert!(!reason.is_empty() && reason.len() <= TOLD_BYTES, "{reason}"),
    }
    crossed
}

/// Returns `true` if the message is within its bounds.
fn crosses(message: &Message) -> bool {
    let back = fuzz::message(message, &message.parts);
    let crossed = back.is_ok();
    match back {
        Ok(back) => {
            assert!(is_within(&message.parts, &message.meta), "it is over a bound: {message:?}");
            assert_eq!(&back, message);
        }
        Err(refused) => assert!(!is_within(&message.parts, &message.meta), "{refused}: {message:?}"),
    }
    let powers = [Power::SeeMessages, Power::SeeArguments, Power::SeeResults];
    for set in 0..1 << powers.len() {
        let granted: Powers = powers.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, p)| *p).collect();
        let Ok(seen) = fuzz::message_seen(message, &granted) else { continue };
        let sees = |power| granted.contains(&power);
        assert_eq!((seen.role, &seen.sender, &seen.meta), (message.role, &message.sender, &message.meta));
        assert_eq!(seen.parts.len(), if sees(Power::SeeMessages) { message.parts.len() } else { 0 });
        for (seen, part) in seen.parts.iter().zip(&message.parts) {
            match (seen, part) {
                (Part::ToolCall(seen), Part::ToolCall(_)) if !sees(Power::SeeArguments) => {
                    assert!(seen.arguments == "{}" && seen.meta.is_empty());
                }
                (Part::ToolResult(seen), Part::ToolResult(result)) if !sees(Power::SeeResults) => {
                    assert!(seen.content.is_empty() && seen.is_error == result.is_error);
                }
                _ => assert_eq!(seen, part),
            }
        }
    }
    crossed
}

/// Returns `true` if the parts are within those bounds of the contract that a tape or a small JSON can exceed.
fn is_within(parts: &[Part], meta: &[(String, String)]) -> bool {
    let meta_is = |meta: &[(String, String)]| {
        let bytes: usize = meta.iter().map(|(key, value)| key.len() + value.len()).sum();
        let twice = meta.iter().enumerate().any(|(at, (key, _))| meta[..at].iter().any(|(before, _)| before == key));
        meta.len() <= limits::META_PAIRS && bytes <= limits::META_BYTES && !twice
    };
    let media_is = |media: &Media| {
        let url = if let MediaData::Url(url) = &media.source { url.len() } else { 0 };
        let most = limits::MEDIA_NAME_BYTES;
        [media.media_type.len(), media.name.as_ref().map_or(0, String::len), url].iter().all(|bytes| *bytes <= most)
    };
    meta_is(meta)
        && parts.iter().all(|part| match part {
            Part::Media(media) => media_is(media),
            Part::ToolCall(call) => meta_is(&call.meta) && is_own(&call.meta),
            Part::ToolResult(result) => result.content.iter().all(|content| match content {
                ToolResultContent::Media(media) => media_is(media),
                _ => true,
            }),
            _ => true,
        })
}

/// Returns `true` if none of the keys is reserved for the host: a guest may not make up those.
fn is_own(meta: &[(String, String)]) -> bool {
    !meta.iter().any(|(key, _)| key.starts_with("shelly."))
}

/// The pieces that the first bytes cut the others into, and the others.
fn pieces(bytes: &[u8]) -> (Vec<Vec<u8>>, &[u8]) {
    let (cuts, stream) = bytes.split_at(bytes.len().min(8));
    let (mut pieces, mut rest) = (Vec::new(), stream);
    for cut in cuts.iter().cycle().take(if cuts.is_empty() { 0 } else { 1_000 }) {
        let (piece, after) = rest.split_at(rest.len().min(usize::from(*cut)));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces.push(rest.to_vec());
    (pieces, stream)
}

/// However a stream is cut, its events are the same: those that the standard has, within the bound. The reply that is
/// put together from them is the same too, and is a reply that an agent can take.
pub fn sse(bytes: &[u8]) -> bool {
    let (pieces, stream) = pieces(bytes);
    let whole = vec![stream.to_vec()];
    let all = fuzz::events(whole.clone(), 1 << 20);
    assert_eq!(all, (events_of(stream), None));
    for limit in [0, 20, 100, 1 << 20] {
        let (events, fault) = fuzz::events(pieces.clone(), limit);
        assert_eq!((&events, &fault), (&fuzz::events(whole.clone(), limit).0, &fuzz::events(whole.clone(), limit).1));
        assert!(events.iter().all(|(_, data)| data.len() <= limit), "an event is over {limit} bytes");
        assert!(all.0.starts_with(&events));
        match fault {
            None => assert_eq!(events, all.0),
            Some(fault) => assert!(matches!(fault, Fault::TooLarge { .. }), "{fault}"),
        }
    }
    let apis = [WireApi::Chat, WireApi::Responses, WireApi::Messages, WireApi::GenerateContent];
    apis.map(|api| is_reply(api, &pieces, &whole)).contains(&true)
}

/// Returns `true` if the pieces are a reply in this wire format; asserts that it is the same however it is cut.
fn is_reply(api: WireApi, pieces: &[Vec<u8>], whole: &[Vec<u8>]) -> bool {
    let reply = fuzz::reply(api, pieces.to_vec());
    assert_eq!(reply, fuzz::reply(api, whole.to_vec()), "{api:?}");
    let accepted = reply.is_ok();
    match reply {
        Ok(reply) => {
            let calls =
                reply.parts.iter().filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None });
            let calls: Vec<_> = calls.collect();
            assert!(calls.iter().all(|call| !call.name.is_empty() && !call.arguments.trim().is_empty()), "{reply:?}");
            assert!(reply.stop != StopReason::ToolCalls || !calls.is_empty());
            assert!(reply.parts.iter().all(|part| !matches!(part, Part::ToolResult(_))));
        }
        Err(fault) => {
            let told = fault.to_string();
            assert!(!told.is_empty() && told.len() <= 2 * limits::ERROR_BYTES, "{} bytes: {told}", told.len());
        }
    }
    accepted
}

/// The events of a stream that is there as a whole, as the standard says it, word for word.
fn events_of(stream: &[u8]) -> Vec<(String, String)> {
    let stream = stream.strip_prefix("\u{feff}".as_bytes()).unwrap_or(stream);
    let (mut lines, mut line, mut at) = (Vec::new(), Vec::new(), 0);
    while at < stream.len() {
        match stream[at] {
            b'\r' | b'\n' => {
                at += usize::from(stream[at] == b'\r' && stream.get(at + 1) == Some(&b'\n'));
                lines.push(text(&std::mem::take(&mut line)).into_owned());
            }
            byte => line.push(byte),
        }
        at += 1;
    }
    let (mut events, mut name, mut data) = (Vec::new(), String::new(), Vec::new());
    for line in lines {
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            _ if line.is_empty() => {
                let (name, data) = (std::mem::take(&mut name), std::mem::take(&mut data));
                if !data.is_empty() {
                    events.push((name, data.join("\n")));
                }
            }
            "data" => data.push(value.to_owned()),
            "event" => name = value.to_owned(),
            _ => {}
        }
    }
    events
}

/// A journal is read up to what is wrong with it, which is named; its lines are numbered; and of any beginning of it no
/// line is read that is not read of the whole.
pub fn journal(bytes: &[u8], folder: &Path) -> bool {
    // As a foreign program left it, and with checksums that are right.
    let lines: Vec<_> = text(bytes).lines().flat_map(fuzz::journal_line).collect();
    let mut accepted = false;
    for journal in [bytes, &lines] {
        let read = read_journal(journal, folder);
        accepted |= !read.is_empty();
        let cut = journal.get(..journal.len() * 2 / 3).unwrap_or_default();
        let beginning = read_journal(cut, folder);
        assert!(read.starts_with(&beginning), "of a beginning more is read than of the whole");
    }
    accepted
}

fn read_journal(bytes: &[u8], folder: &Path) -> Vec<shelly_host::session::JournalLine> {
    let session = folder.join("a");
    let storage: Arc<dyn SessionStorage> = Arc::new(DiskStorage);
    std::fs::create_dir_all(&session).unwrap();
    std::fs::write(session.join("journal.jsonl"), bytes).unwrap();
    let store = SessionStore::new(storage, folder, SessionStoreOptions::default());
    let mut journal = match store.read("a") {
        Ok(journal) => journal,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Vec::new();
        }
    };
    let mut lines = Vec::new();
    for line in &mut journal {
        match line {
            Ok(line) => {
                assert_eq!(line.n, lines.len() as u64 + 2);
                lines.push(line);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break;
            }
        }
    }
    assert!(journal.next().is_none(), "after its end there is more");
    lines
}

/// A component of the hostile suite whose structure is multiplied as the bytes say is refused with a reason or is a plugin.
/// Memory and time are the caller's to bound.
pub fn structure(bytes: &[u8]) -> bool {
    multiplied_attack(bytes).is_some_and(|component| is_plugin(&component))
}

/// A component of the hostile suite whose structure is multiplied as the bytes say.
pub fn multiplied_attack(bytes: &[u8]) -> Option<Vec<u8>> {
    static SUITE: OnceLock<AttackSuite> = OnceLock::new();
    let suite = SUITE.get_or_init(|| AttackSuite::embedded().unwrap());
    let mut decisions = multiply::Decisions(bytes);
    let attack = &suite.attacks()[decisions.below(suite.attacks().len())];
    multiply::multiplied(attack.component().unwrap(), &mut decisions)
}

/// Returns `true` if bytes are a plugin's component. They are refused with a reason that fits on a screen, or it has kinds.
pub fn is_plugin(component: &[u8]) -> bool {
    match Anatomy::read(component) {
        Ok(anatomy) => {
            assert!(!anatomy.kinds.is_empty());
            true
        }
        Err(refused) => {
            let reason = refused.to_string();
            assert!(!reason.is_empty() && reason.len() <= TOLD_BYTES, "{} bytes: {reason}", reason.len());
            assert!(!refused.mend().is_empty());
            false
        }
    }
}
