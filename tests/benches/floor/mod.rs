//! The floor: a component called straight through wasmtime, with nothing but what any host must do.

use std::time::Duration;

use shelly_host::{chat::ToolCall, limits};
use wasmtime::{
    Config, Engine, Result, Store, StoreLimits, StoreLimitsBuilder,
    component::{Component, HasSelf, InstancePre, Linker},
};

mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "tool-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

use generated::{
    exports::shelly::plugin::tool,
    shelly::plugin::{config, log, progress, types},
};

/// An engine for whose guests time passes.
pub fn ticking(config: &Config) -> Result<Engine> {
    let engine = Engine::new(config)?;
    let weak = engine.weak();
    std::thread::spawn(move || {
        while let Some(engine) = weak.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    Ok(engine)
}

pub struct Floor {
    engine: Engine,
    pre: InstancePre<State>,
    kind: tool::GuestIndices,
}

struct State {
    limits: StoreLimits,
}

impl types::Host for State {}

impl log::Host for State {
    async fn write(&mut self, _: log::Level, _: String) -> Result<()> {
        Ok(())
    }
}

impl config::Host for State {
    async fn get(&mut self) -> Result<String> {
        Ok("{}".into())
    }
}

impl progress::Host for State {
    async fn report(&mut self, _: f64, _: Option<f64>, _: Option<String>) -> Result<()> {
        Ok(())
    }
}

impl Floor {
    pub fn new(config: &Config, component: &[u8]) -> Result<Self> {
        let engine = ticking(config)?;
        let mut linker = Linker::<State>::new(&engine);
        types::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        config::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        progress::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
        let pre = linker.instantiate_pre(&Component::from_binary(&engine, component)?)?;
        let kind = tool::GuestIndices::new(&pre)?;
        Ok(Self { engine, pre, kind })
    }

    fn store(&self) -> Store<State> {
        let limits = StoreLimitsBuilder::new().memory_size(limits::PLUGIN_MEMORY_BYTES).build();
        let mut store = Store::new(&self.engine, State { limits });
        store.limiter(|state| &mut state.limits);
        store.epoch_deadline_async_yield_and_update(1);
        store
    }

    pub async fn instantiate(&self) -> Result<()> {
        let mut store = self.store();
        let instance = self.pre.instantiate_async(&mut store).await?;
        self.kind.load(&mut store, &instance)?;
        Ok(())
    }

    pub async fn call(&self, call: &ToolCall) -> Result<()> {
        let mut store = self.store();
        let instance = self.pre.instantiate_async(&mut store).await?;
        let guest = self.kind.load(&mut store, &instance)?;
        let call = types::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            meta: vec![],
        };
        let content = guest.call_call(&mut store, &call).await?;
        assert!(content.is_ok());
        Ok(())
    }
}
