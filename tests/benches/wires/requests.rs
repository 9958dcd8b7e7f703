//! The cost of the body of a request, beside serde_json writing an equal value that is in memory already.

use std::{borrow::Cow, error::Error, fmt, hint::black_box, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::RawValue;
use shelly_host::{
    chat::{Chat, Message, Part, PropertyNames, Role, ToolCall, ToolHints, ToolResult, ToolSpec},
    model::CompletionRequest,
    net::HttpClient,
    provider::{AdapterConfig, Anthropic, ChatCompletions, Gemini, ModelAdapter, ResponsesApi},
};

use super::{
    Recorded,
    counted::{self, Asked},
    spread, thread_cpu,
};

const TOOLS: usize = 20;
const ROUNDS: usize = 25;

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    let rounds = if smoke { 1 } else { ROUNDS };
    let adapter = ModelAdapter::new(HttpClient::new()?, AdapterConfig::new("https://models.test/v1", "m-1"))?;
    println!("the body of a request with {TOOLS} tools, CPU, {rounds} rounds: least / median");
    for messages in [2, 1_000, 10_000] {
        let request = CompletionRequest::new(chat_of(messages).snapshot(), (0..TOOLS).map(tool).collect());
        println!("  {messages} messages, {} bytes", request.messages.bytes());
        wire::<ChatCompletions>(&adapter, &request, rounds)?;
        wire::<ResponsesApi>(&adapter, &request, rounds)?;
        wire::<Anthropic>(&adapter, &request, rounds)?;
        wire::<Gemini>(&adapter, &request, rounds)?;
    }
    Ok(())
}

fn wire<W: Recorded>(adapter: &ModelAdapter, request: &CompletionRequest, rounds: usize) -> Result<(), Box<dyn Error>> {
    let wire = W::new();
    let body = wire.body(adapter, request)?;
    let plain: Plain = serde_json::from_slice(&body)?;
    if serde_json::to_vec(&plain)? != body {
        return Err("the value is not equal".into());
    }
    let (_, ours) = counted::count(|| black_box(wire.body(adapter, request)));
    let (_, floor) = counted::count(|| black_box(serde_json::to_vec(&plain)));
    let [mut built, mut written] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let before = thread_cpu();
        black_box(wire.body(adapter, request)?);
        built.push((thread_cpu() - before).as_nanos() as f64 / 1e3);
        let before = thread_cpu();
        black_box(serde_json::to_vec(&plain)?);
        written.push((thread_cpu() - before).as_nanos() as f64 / 1e3);
    }
    let (built, written) = (spread(built), spread(written));
    println!(
        "    {:10} {:8.1} / {:8.1} µs, {}   serde_json {:8.1} / {:8.1} µs, {}   {:.2} times, {} bytes",
        W::RECORDING.name,
        built.0,
        built.1,
        shown(&ours),
        written.0,
        written.1,
        shown(&floor),
        built.0 / written.0,
        body.len()
    );
    Ok(())
}

fn shown(Asked { times, bytes, peak }: &Asked) -> String {
    format!("{times:6} allocations, {bytes:9} bytes, peak {peak:9}")
}

/// A conversation of so many messages: a coder who reads files.
pub fn chat_of(messages: usize) -> Chat {
    let chat = Chat::new();
    chat.set_system_prompt("coder", "You are a coder. Read before you write. Say what you do.".into());
    chat.append(Message::user("Why does the test fail on the second run, but never on the first?")).expect("no calls");
    for n in 0..messages / 2 - 1 {
        let arguments = format!(r#"{{"path":"src/parser/lexer_{n}.rs","first_line":{n},"lines":40}}"#);
        let call = ToolCall { id: format!("call_{n:016}"), name: "read_file".into(), arguments, meta: vec![] };
        let text = format!("Lexer {n} keeps \"state\" between runs; next I look at where it is made.");
        let parts = vec![Part::Text(text), Part::ToolCall(call)];
        let open = chat.reply(Message { sender: "coder".into(), role: Role::Assistant, parts, meta: vec![] });
        let line = format!("    let token = self.next_of(\"{n}\")?; // größer als 0\n");
        let result = ToolResult::error(format!("call_{n:016}"), line.repeat(10));
        open.answer(vec![ToolResult { is_error: n % 50 == 0, ..result }]);
    }
    chat
}

pub fn tool(n: usize) -> Arc<ToolSpec> {
    let property = |name: &str| {
        format!(r#""{name}":{{"type":"string","description":"What it is about, as the tool before it has named it."}}"#)
    };
    let properties = ["path", "pattern", "first_line", "lines", "encoding"].map(property).join(",");
    let schema = format!(r#"{{"type":"object","properties":{{{properties}}},"required":["path"]}}"#);
    Arc::new(ToolSpec {
        name: if n == 0 { "read_file".into() } else { format!("tool_{n}") },
        description: "Reads a part of a file, with the numbers of its lines. Long lines are cut.".into(),
        input_schema: RawValue::from_string(schema).expect("it is JSON").into(),
        hints: ToolHints::default(),
        property_names: PropertyNames::default(),
    })
}

/// JSON that borrows its text where it can, in its own order.
enum Plain<'a> {
    Null,
    Bool(bool),
    Number(u64),
    Text(Cow<'a, str>),
    List(Vec<Self>),
    Map(Vec<(Cow<'a, str>, Self)>),
}

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => serializer.serialize_u64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => list.serialize(serializer),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Plain<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Plain<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without fractions")
    }

    fn visit_unit<E>(self) -> Result<Plain<'de>, E> {
        Ok(Plain::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Plain<'de>, E> {
        Ok(Plain::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Plain<'de>, E> {
        Ok(Plain::Number(value))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Plain<'de>, E> {
        Ok(Plain::Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Plain<'de>, E> {
        Ok(Plain::Text(text.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Plain<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Plain::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Plain<'de>, A::Error> {
        let mut map = Vec::new();
        while let Some((Plain::Text(key), value)) = entries.next_entry()? {
            map.push((key, value));
        }
        Ok(Plain::Map(map))
    }
}
