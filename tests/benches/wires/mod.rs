//! The wire formats that are measured, and streams as their vendors send them.

pub mod counted;
pub mod many;
pub mod replies;
pub mod requests;
pub mod server;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use shelly_host::{
    chat::{Chat, Message},
    model::CompletionRequest,
    net::HttpClient,
    provider::{AdapterConfig, Anthropic, ChatCompletions, Gemini, HttpModel, ResponsesApi, WireProtocol},
};

/// A wire whose vendor's streams are known.
pub trait Recorded: WireProtocol + Sized + 'static {
    const RECORDING: Recording;

    fn new() -> Self;

    /// A model on the server whose streams are at this path.
    fn model(client: &HttpClient, path: &str) -> HttpModel<Self> {
        let config = AdapterConfig { retries: 0, ..AdapterConfig::new(path, "m-1") };
        HttpModel::new(client.clone(), config, Self::new()).expect("it is an address")
    }
}

/// The events with which a vendor streams a reply of text.
#[derive(Clone, Copy)]
pub struct Recording {
    pub name: &'static str,
    begin: fn() -> Vec<String>,
    /// The piece of this number, its text as JSON.
    delta: fn(usize, &str) -> String,
    /// Returns the events after so many pieces; the whole text is given as JSON.
    end: fn(usize, &str) -> Vec<String>,
}

pub const RECORDINGS: [Recording; 4] =
    [ChatCompletions::RECORDING, ResponsesApi::RECORDING, Anthropic::RECORDING, Gemini::RECORDING];

impl Recording {
    /// The events of a stream with so many pieces.
    pub fn events(&self, deltas: usize) -> Vec<String> {
        let pieces: Vec<_> = (0..deltas).map(piece).collect();
        let deltas = pieces.iter().enumerate().map(|(n, piece)| self.delta(n, piece));
        self.begin().into_iter().chain(deltas).chain(self.end(&pieces)).collect()
    }

    pub fn begin(&self) -> Vec<String> {
        (self.begin)()
    }

    pub fn delta(&self, n: usize, text: &str) -> String {
        (self.delta)(n, &json(text))
    }

    pub fn end(&self, pieces: &[impl AsRef<str>]) -> Vec<String> {
        let text: String = pieces.iter().map(AsRef::as_ref).collect();
        (self.end)(pieces.len(), &json(&text))
    }
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}

/// A piece of text, as long as a token.
fn piece(n: usize) -> &'static str {
    const WORDS: [&str; 16] = [
        " the", " bound", " of", " a", " reply", ",", " which", " \"is\"", " counted", " in", " bytes", ".\n", "Größe",
        " und", " so", " on",
    ];
    WORDS[n * 7 % WORDS.len()]
}

impl Recorded for ChatCompletions {
    const RECORDING: Recording = Recording {
        name: "chat",
        begin: || vec![chat_chunk(r#"{"role":"assistant","content":"","refusal":null}"#, "null", "null")],
        delta: |_, text| chat_chunk(&format!(r#"{{"content":{text}}}"#), "null", "null"),
        end: |deltas, _| {
            let usage =
                format!(r#"{{"prompt_tokens":20,"completion_tokens":{deltas},"total_tokens":{}}}"#, 20 + deltas);
            vec![chat_chunk("{}", "\"stop\"", &usage), "data: [DONE]\n\n".into()]
        },
    };

    fn new() -> Self {
        Self::default()
    }
}

fn chat_chunk(delta: &str, stop: &str, usage: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-CbYHOLqWhyPWKDnQfCm9ENYfrvZBe\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\
         \"model\":\"m-1-20260101\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_560af6e559\",\"choices\":[{{\
         \"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{stop}}}],\"usage\":{usage},\
         \"obfuscation\":\"aB3dE6\"}}\n\n"
    )
}

impl Recorded for ResponsesApi {
    const RECORDING: Recording = Recording {
        name: "responses",
        begin: || {
            vec![
                responses_event("response.created", r#""response":{"status":"in_progress","model":"m-1"}"#),
                responses_event(
                    "response.output_item.added",
                    r#""output_index":0,"item":{"id":"msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9","type":"message"}"#,
                ),
                responses_event(
                    "response.content_part.added",
                    &with_item(r#""part":{"type":"output_text","text":""}"#),
                ),
            ]
        },
        delta: |n, text| {
            let delta = format!(r#""delta":{text},"logprobs":[],"obfuscation":"aB3dE6","sequence_number":{n}"#);
            responses_event("response.output_text.delta", &with_item(&delta))
        },
        end: |deltas, text| {
            let part = format!(r#"{{"type":"output_text","annotations":[],"text":{text}}}"#);
            let item = format!(
                r#"{{"id":"msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9","type":"message","role":"assistant","content":[{part}]}}"#
            );
            let usage = format!(r#"{{"input_tokens":20,"output_tokens":{deltas},"total_tokens":{}}}"#, 20 + deltas);
            let whole = format!(r#""response":{{"status":"completed","output":[{item}],"usage":{usage}}}"#);
            vec![
                responses_event("response.output_text.done", &with_item(&format!(r#""text":{text}"#))),
                responses_event("response.content_part.done", &with_item(&format!(r#""part":{part}"#))),
                responses_event("response.output_item.done", &format!(r#""output_index":0,"item":{item}"#)),
                responses_event("response.completed", &whole),
            ]
        },
    };

    fn new() -> Self {
        Self::default()
    }
}

fn responses_event(name: &str, rest: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\",{rest}}}\n\n")
}

fn with_item(rest: &str) -> String {
    format!(r#""item_id":"msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9","output_index":0,"content_index":0,{rest}"#)
}

impl Recorded for Anthropic {
    const RECORDING: Recording = Recording {
        name: "anthropic",
        begin: || {
            let usage =
                r#"{"input_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}"#;
            let message =
                format!(r#""message":{{"id":"msg_01","role":"assistant","model":"m-1","content":[],"usage":{usage}}}"#);
            let block = r#""index":0,"content_block":{"type":"text","text":""}"#;
            vec![anthropic_event("message_start", &message), anthropic_event("content_block_start", block)]
        },
        delta: |_, text| {
            let delta = format!(r#""index":0,"delta":{{"type":"text_delta","text":{text}}}"#);
            anthropic_event("content_block_delta", &delta)
        },
        end: |deltas, _| {
            let delta = format!(r#""delta":{{"stop_reason":"end_turn"}},"usage":{{"output_tokens":{deltas}}}"#);
            vec![
                anthropic_event("content_block_stop", r#""index":0"#),
                anthropic_event("message_delta", &delta),
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n".into(),
            ]
        },
    };

    fn new() -> Self {
        Self::default()
    }
}

fn anthropic_event(name: &str, rest: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\",{rest}}}\n\n")
}

impl Recorded for Gemini {
    const RECORDING: Recording = Recording {
        name: "gemini",
        begin: Vec::new,
        delta: |n, text| gemini_chunk(text, n + 1, ""),
        end: |deltas, _| vec![gemini_chunk("\"\"", deltas, r#","finishReason":"STOP""#)],
    };

    fn new() -> Self {
        Self
    }
}

fn gemini_chunk(text: &str, tokens: usize, stop: &str) -> String {
    format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":{text}}}],\"role\":\"model\"}}{stop},\"index\":0}}],\
         \"usageMetadata\":{{\"promptTokenCount\":20,\"candidatesTokenCount\":{tokens},\"totalTokenCount\":{},\
         \"promptTokensDetails\":[{{\"modality\":\"TEXT\",\"tokenCount\":20}}]}},\"modelVersion\":\"m-1\",\
         \"responseId\":\"mAitaLmkHPPlz7IPvtfUqQ4\"}}\r\n\r\n",
        20 + tokens
    )
}

/// The format of Ollama's own API, JSON in lines: only a plugin speaks it.
pub const OLLAMA: Recording = Recording {
    name: "ollama",
    begin: Vec::new,
    delta: |_, text| ollama_line(text, r#""done":false"#),
    end: |deltas, _| {
        let counts = format!(
            r#""done_reason":"stop","done":true,"total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":20,"eval_count":{deltas}"#
        );
        vec![ollama_line("\"\"", &counts)]
    },
};

fn ollama_line(text: &str, rest: &str) -> String {
    format!(
        "{{\"model\":\"m-1\",\"created_at\":\"2026-01-01T00:00:00.123456789Z\",\"message\":{{\"role\":\"assistant\",\"content\":\
         {text}}},{rest}}}\n"
    )
}

/// A conversation of one question.
pub fn question() -> CompletionRequest {
    let chat = Chat::new();
    chat.append(Message::user("How long may a reply be?")).expect("it has no calls");
    CompletionRequest::new(chat.snapshot(), [].into())
}

/// Time that this thread has spent on a processor, in the system's share too.
pub fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// A clock that all processes share.
pub fn now() -> Duration {
    clock(ClockId::Monotonic)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("less than a second"))
}

/// The least and the median.
pub fn spread(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}
