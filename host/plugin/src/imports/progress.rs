use std::time::Instant;

use crate::{bindings::imports::progress, convert, store::PluginState};
use shelly_core::{event::Event, limits};

impl progress::Host for PluginState {
    async fn report(&mut self, done: f64, total: Option<f64>, message: Option<String>) -> wasmtime::Result<()> {
        self.take(message.as_ref().map_or(0, String::len))?;
        let Some(progress) = &mut self.progress else { return Ok(()) };
        let message = message.map(|message| convert::bounded(message, limits::LOG_ENTRY_BYTES));
        let now = Instant::now();
        if progress.last_sent.is_some_and(|last_sent| now - last_sent < limits::PROGRESS_PAUSE) {
            progress.waiting = Some((done, total, message));
            return Ok(());
        }
        progress.last_sent = Some(now);
        progress.waiting = None;
        let (agent, call) = (self.cx.agent.clone(), progress.call.clone());
        self.emit(Event::ToolProgress { agent, call, done, total, message }).await;
        Ok(())
    }
}
