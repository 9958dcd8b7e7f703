//! An effect straight through wasmtime: a conversation in memory answers what it asks.

use shelly_host::chat::{ChatSnapshot, Part, Role, ToolResultContent};
use wasmtime::{
    Engine, Result, Store, StoreLimits, StoreLimitsBuilder,
    component::{Component, HasSelf, InstancePre, Linker},
};

mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "effect-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

use generated::{
    exports::shelly::plugin::effect,
    shelly::plugin::{chat, config, log, types},
};

/// One component, its params and a conversation.
pub struct EffectFloor {
    engine: Engine,
    pre: InstancePre<State>,
    kind: effect::GuestIndices,
    params: String,
    messages: std::sync::Arc<[(chat::Entry, types::Message)]>,
    input: effect::EffectInput,
}

struct State {
    limits: StoreLimits,
    params: String,
    messages: std::sync::Arc<[(chat::Entry, types::Message)]>,
}

impl State {
    fn range(&self, start: u32, end: u32) -> &[(chat::Entry, types::Message)] {
        let end = self.messages.len().min(end as usize);
        &self.messages[end.min(start as usize)..end]
    }
}

impl types::Host for State {}

impl log::Host for State {
    async fn write(&mut self, _: log::Level, _: String) -> Result<()> {
        Ok(())
    }
}

impl config::Host for State {
    async fn get(&mut self) -> Result<String> {
        Ok(self.params.clone())
    }
}

impl chat::Host for State {
    async fn length(&mut self) -> Result<u32> {
        Ok(self.messages.len() as u32)
    }

    async fn entries(&mut self, start: u32, end: u32) -> Result<Vec<chat::Entry>> {
        Ok(self.range(start, end).iter().map(|(entry, _)| *entry).collect())
    }

    async fn read(&mut self, start: u32, end: u32) -> Result<Vec<types::Message>> {
        Ok(self.range(start, end).iter().map(|(_, message)| message.clone()).collect())
    }

    async fn find(&mut self, id: u64) -> Result<Option<u32>> {
        Ok(self.messages.iter().rposition(|(entry, _)| entry.id == id).map(|at| at as u32))
    }

    async fn tools(&mut self) -> Result<Vec<String>> {
        Ok(vec![])
    }
}

impl EffectFloor {
    /// `moment` tells what the effect is told of the run: its turns, and the tokens that it has used.
    pub fn new(
        engine: &Engine,
        component: &[u8],
        params: &str,
        chat: &ChatSnapshot,
        moment: (u32, u64),
    ) -> Result<Self> {
        let mut linker = Linker::<State>::new(engine);
        types::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        config::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        chat::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        let pre = linker.instantiate_pre(&Component::from_binary(engine, component)?)?;
        let kind = effect::GuestIndices::new(&pre)?;
        let usage =
            types::Usage { input_tokens: moment.1, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 };
        let input = effect::EffectInput {
            cx: types::RunContext { run: String::new(), agent: "bench".into(), depth: 0 },
            phase: effect::Phase::BeforeModel,
            iteration: moment.0,
            messages: chat.len() as u32,
            request_tokens: chat.tokens(),
            context_window: None,
            last_usage: None,
            run_usage: usage,
            model_ms: 0,
            elapsed_ms: 0,
            reply: None,
        };
        let messages = chat.iter().map(|entry| (facts(entry), message(&entry.message))).collect();
        Ok(Self { engine: engine.clone(), pre, kind, params: params.into(), messages, input })
    }

    /// One call of a fresh instance; whether it has done something.
    pub async fn call(&self) -> Result<bool> {
        let limits = StoreLimitsBuilder::new().memory_size(shelly_host::limits::PLUGIN_MEMORY_BYTES).build();
        let state = State { limits, params: self.params.clone(), messages: self.messages.clone() };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limits);
        store.epoch_deadline_async_yield_and_update(1);
        let instance = self.pre.instantiate_async(&mut store).await?;
        let guest = self.kind.load(&mut store, &instance)?;
        let step = guest.call_eval(&mut store, &self.input, &Vec::new()).await?;
        Ok(step.is_ok_and(|step| matches!(step.action, effect::Action::Edits(edits) if !edits.is_empty())))
    }
}

fn facts(entry: &shelly_host::chat::ChatEntry) -> chat::Entry {
    let (role, mut traits) = (role(entry.message.role), chat::Traits::empty());
    for part in &entry.message.parts {
        traits |= match part {
            Part::ToolCall(_) => chat::Traits::CALLS,
            Part::ToolResult(result) if result.is_error => chat::Traits::RESULTS | chat::Traits::FAILED,
            Part::ToolResult(_) => chat::Traits::RESULTS,
            _ => chat::Traits::empty(),
        };
    }
    chat::Entry { id: entry.id, role, traits, group: entry.group, tokens: entry.tokens }
}

fn role(role: Role) -> types::Role {
    match role {
        Role::System => types::Role::System,
        Role::User => types::Role::User,
        Role::Assistant => types::Role::Assistant,
        Role::Tool => types::Role::Tool,
    }
}

/// The parts that the conversation of the benchmark has.
fn message(message: &shelly_host::chat::Message) -> types::Message {
    let content = |content: &ToolResultContent| match content {
        ToolResultContent::Text(text) => types::Content::Text(text.clone()),
        other => panic!("{other:?}"),
    };
    let part = |part: &Part| match part {
        Part::Text(text) => types::Part::Text(text.clone()),
        Part::ToolCall(call) => types::Part::ToolCall(types::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            meta: vec![],
        }),
        Part::ToolResult(result) => types::Part::ToolResult(types::ToolResult {
            call_id: result.call_id.clone(),
            content: result.content.iter().map(content).collect(),
            is_error: result.is_error,
        }),
        other => panic!("{other:?}"),
    };
    let parts = message.parts.iter().map(part).collect();
    types::Message { sender: message.sender.clone(), role: role(message.role), parts, meta: vec![] }
}
