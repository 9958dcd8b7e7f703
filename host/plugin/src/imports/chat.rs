use crate::{
    bindings::{imports::chat, types},
    convert,
    store::PluginState,
};
use shelly_core::{
    chat::{ChatEntry, Part},
    limits,
};

impl chat::Host for PluginState {
    async fn length(&mut self) -> wasmtime::Result<u32> {
        Ok(u32::try_from(self.chat.chat.len()).unwrap_or(u32::MAX))
    }

    async fn entries(&mut self, start: u32, end: u32) -> wasmtime::Result<Vec<chat::Entry>> {
        let range = self.chat.chat.range(start as usize, end as usize);
        let entries: Vec<_> = range.take(limits::CHAT_ENTRIES).map(facts).collect();
        self.hand(size_of_val(&entries[..]))?;
        Ok(entries)
    }

    async fn read(&mut self, start: u32, end: u32) -> wasmtime::Result<Vec<types::Message>> {
        let view = &self.chat;
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for entry in view.chat.range(start as usize, end as usize) {
            let message = convert::message_seen(&entry.message, &view.powers);
            let more = convert::message_bytes(&message);
            if bytes + more > limits::CHAT_READ_BYTES && !messages.is_empty() {
                break;
            }
            bytes += more;
            messages.push(message);
        }
        self.hand(bytes)?;
        Ok(messages)
    }

    async fn find(&mut self, id: u64) -> wasmtime::Result<Option<u32>> {
        Ok(self.chat.chat.find(id).and_then(|position| u32::try_from(position).ok()))
    }

    async fn tools(&mut self) -> wasmtime::Result<Vec<String>> {
        let names: Vec<_> = self.chat.tools.iter().map(|tool| tool.name.clone()).collect();
        self.hand(names.iter().map(String::len).sum())?;
        Ok(names)
    }
}

fn facts(entry: &ChatEntry) -> chat::Entry {
    let mut traits = chat::Traits::empty();
    for part in &entry.message.parts {
        match part {
            Part::ToolCall(_) => traits |= chat::Traits::CALLS,
            Part::ToolResult(result) if result.is_error => traits |= chat::Traits::RESULTS | chat::Traits::FAILED,
            Part::ToolResult(_) => traits |= chat::Traits::RESULTS,
            Part::Media(_) => traits |= chat::Traits::MEDIA,
            _ => {}
        }
    }
    let when = |on, flag| if on { flag } else { chat::Traits::empty() };
    traits |= when(entry.note, chat::Traits::NOTE) | when(entry.edited, chat::Traits::EDITED);
    chat::Entry {
        id: entry.id,
        role: convert::role_to_wit(entry.message.role),
        traits,
        group: entry.group,
        tokens: entry.tokens,
    }
}
