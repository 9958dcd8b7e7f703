use crate::{
    bindings::{imports::attachments, types},
    convert,
    store::PluginState,
};
use shelly_core::{error::Fault, limits};

impl attachments::Host for PluginState {
    async fn read(&mut self, id: String, offset: u64, max: u32) -> wasmtime::Result<Result<Vec<u8>, types::Error>> {
        self.take(id.len())?;
        let Some(bytes) = self.attachments.get(&id) else {
            let message = format!("this call has no attachment `{}`", convert::bounded(id, 100));
            return Ok(Err(convert::fault_to_wit(&Fault::NotFound { message })));
        };
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let read = &rest[..rest.len().min(max as usize).min(limits::ATTACHMENT_READ_BYTES)];
        self.hand(read.len())?;
        Ok(Ok(read.into()))
    }
}
