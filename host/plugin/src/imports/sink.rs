use wasmtime::bail;

use crate::{bindings::imports::sink, convert, store::PluginState};
use shelly_core::{limits, model::ReplyDelta};

impl sink::Host for PluginState {
    async fn emit(&mut self, delta: sink::Delta) -> wasmtime::Result<()> {
        if let sink::Delta::Text(text) | sink::Delta::Thinking(text) | sink::Delta::ToolCall(text) = &delta {
            self.take(text.len())?;
        }
        let delta = match delta {
            sink::Delta::Text(text) | sink::Delta::Thinking(text) | sink::Delta::ToolCall(text)
                if text.len() > limits::DELTA_BYTES =>
            {
                bail!("a piece of {} bytes was written to the sink, the maximum is {}", text.len(), limits::DELTA_BYTES)
            }
            sink::Delta::Text(text) => ReplyDelta::Text(text),
            sink::Delta::Thinking(text) => ReplyDelta::Thinking(text),
            sink::Delta::ToolCall(name) => ReplyDelta::ToolCall(name),
            sink::Delta::Usage(usage) => ReplyDelta::Usage(convert::usage(usage)),
            // A piece of an unknown format, which nobody could show.
            sink::Delta::Other(_) => return Ok(()),
        };
        let _waiting = self.meter.waits.begin();
        self.sink.emit(delta).await;
        Ok(())
    }
}
