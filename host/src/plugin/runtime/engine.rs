use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
};

use tokio::sync::Semaphore;
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmBacktraceDetails, component::Component,
};

use super::{
    GuestMemoryBudget, GuestMemoryUse, Lane, Limits, MemoryAccount, MemoryShare, MemorySource, PluginQuota,
    cache::CompileCache,
    machine_memory::guest_memory,
    quotas::{ComponentPool, CpuQueue},
};
use crate::{
    chat::ToolSpec,
    error::{ErrorKind, Report},
    limits,
    plugin::{
        catalog::ComponentDigest,
        compile::{CompileConfig, ComponentCompiler, MemoryLayout},
    },
};

/// What all plugins of the process share: the compiler, the pool of instances and the cache of compiled code. No
/// plugin's data is in it.
pub struct PluginEngine {
    engine: Engine,
    stack_bytes: usize,
    turns: CpuQueue,
    compiler: Arc<ComponentCompiler>,
    /// Layout of linear memories, on which compiled code depends.
    layout: MemoryLayout,
    cache: Option<CompileCache>,
    /// What plugins have of it: the code of one that nobody has any more is let go.
    compiled: Mutex<HashMap<ComponentDigest, Weak<Component>>>,
    specs: Mutex<SpecsByConfig>,
    /// Of the components that agents have.
    crowds: Mutex<HashMap<ComponentDigest, Weak<ComponentPool>>>,
    /// Of all plugins together.
    memory: Arc<GuestMemoryBudget>,
    /// The accounts of the agents in it, by the agent's name in the config.
    agents_memory: Mutex<HashMap<String, Weak<MemoryAccount>>>,
    steps: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

/// What `specs` returned, by component and configuration.
type SpecsByConfig = HashMap<(ComponentDigest, String), Arc<[Arc<ToolSpec>]>>;

/// Completions under way at once: they hold their instance while a model works, so they have places of their own.
const STREAMS: u32 = limits::PLUGIN_CALLS / 4;
/// All other calls under way at once.
const STEPS: u32 = limits::PLUGIN_CALLS - STREAMS;

/// Memories and tables that come with a place. Most components have one memory and two tables; one that has more takes
/// more places, so that whoever has got a place also finds room in the pool.
const MEMORIES_PER_PLACE: u32 = 2;
const TABLES_PER_PLACE: u32 = 4;

/// Address space that a memory outside a pool is given beyond what it needs, so that it is not moved each time it grows.
const MEMORY_GROWTH_BYTES: u64 = 1 << 20;

impl PluginEngine {
    /// An engine with a compiler of its own. For `Some(directory)` in place of a whole [`CompileConfig`] it compiles in this
    /// process and keeps the code in that directory.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the machine does not let it reserve its memory.
    pub fn new(config: impl Into<CompileConfig>) -> Result<Self, Report> {
        Self::with_stack(Arc::new(config.into().into()), limits::PLUGIN_STACK_BYTES)
    }

    /// An engine for code of this compiler with so many bytes of stack for each call, up to
    /// [`limits::PLUGIN_STACK_CEILING`].
    ///
    /// # Errors
    ///
    /// As for [`PluginEngine::new`].
    pub fn with_stack(compiler: Arc<ComponentCompiler>, stack_bytes: usize) -> Result<Self, Report> {
        let stack_bytes = stack_bytes.clamp(1, limits::PLUGIN_STACK_CEILING);
        let failed = |error: wasmtime::Error| {
            Report::new(ErrorKind::Plugin, "the WebAssembly engine cannot be started")
                .cause(format!("{error:#}"))
                .hint("raise the limit of address space (ulimit -v)")
        };
        let pooled = Engine::new(&config_with_pool(stack_bytes)).map(|engine| (engine, MemoryLayout::Pooled));
        let engine = pooled.or_else(|error| {
            tracing::warn!(
                error = format!("{error:#}"),
                "there is no room for a pool: each call allocates its own memory"
            );
            Engine::new(&config_without_pool(stack_bytes)).map(|engine| (engine, MemoryLayout::OnDemand))
        });
        let (engine, layout) = engine.map_err(failed)?;
        start_ticker(&engine);
        Ok(Self {
            stack_bytes,
            turns: CpuQueue::new(),
            cache: compiler.config().cache.clone().map(|directory| CompileCache::new(directory, &engine)),
            compiler,
            layout,
            engine,
            compiled: Mutex::default(),
            specs: Mutex::default(),
            crowds: Mutex::default(),
            memory: Arc::new(GuestMemoryBudget::new(Self::guest_memory_for(None, limits::PLUGIN_MEMORY_BYTES).0)),
            agents_memory: Mutex::default(),
            steps: Arc::new(Semaphore::new(STEPS as usize)),
            streams: Arc::new(Semaphore::new(STREAMS as usize)),
            kept: Arc::new(Semaphore::new(limits::KEPT_INSTANCES as usize)),
        })
    }

    /// The same with so many bytes of memory for all guests together, tables included.
    pub fn with_guest_memory(self, bytes: usize) -> Self {
        Self { memory: Arc::new(GuestMemoryBudget::new(bytes)), ..self }
    }

    /// The guest memory of all plugins together on this machine, in bytes, and where that figure comes from: what a config
    /// names, but no more than there is; else a share of what this process can have, and no less than what lets one call
    /// have `memory_bytes`.
    pub fn guest_memory_for(named: Option<usize>, memory_bytes: usize) -> (usize, MemorySource) {
        guest_memory(named, GuestMemoryBudget::total_for(memory_bytes))
    }

    /// The budget of memory of all guests.
    pub fn guest_memory(&self) -> GuestMemoryUse {
        self.memory.usage()
    }

    pub(in crate::plugin) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Bytes of stack of each call.
    pub(super) fn stack_bytes(&self) -> usize {
        self.stack_bytes
    }

    /// Turns of all calls that compute.
    pub(super) fn turns(&self) -> &CpuQueue {
        &self.turns
    }

    pub(super) fn places(&self, lane: Lane) -> &Arc<Semaphore> {
        match lane {
            Lane::Step => &self.steps,
            Lane::Stream => &self.streams,
            Lane::Kept => &self.kept,
        }
    }

    /// Returns the state that all calls of one plugin of an agent share.
    pub(in crate::plugin) fn share(&self, limits: &Limits, digest: ComponentDigest, agent: &str) -> PluginQuota {
        let crowd = self.crowd(digest);
        let memory = MemoryShare::new(Arc::clone(&self.memory), Arc::clone(crowd.memory()), self.agent_memory(agent));
        PluginQuota::new(limits, crowd, Arc::new(memory))
    }

    /// Returns the memory account of this agent's plugins.
    fn agent_memory(&self, agent: &str) -> Arc<MemoryAccount> {
        let mut accounts = lock(&self.agents_memory);
        if let Some(account) = accounts.get(agent).and_then(Weak::upgrade) {
            return account;
        }
        let account = Arc::<MemoryAccount>::default();
        accounts.retain(|_, account| account.strong_count() > 0);
        accounts.insert(agent.to_owned(), Arc::downgrade(&account));
        account
    }

    /// What all calls of this component share.
    fn crowd(&self, digest: ComponentDigest) -> Arc<ComponentPool> {
        let mut crowds = lock(&self.crowds);
        if let Some(crowd) = crowds.get(&digest).and_then(Weak::upgrade) {
            return crowd;
        }
        let most = |places: u32| places / 4 * limits::PLUGIN_QUARTERS_OF_ONE;
        let crowd = Arc::new(ComponentPool::new(most(STEPS), most(STREAMS), most(limits::KEPT_INSTANCES)));
        crowds.retain(|_, crowd| crowd.strong_count() > 0);
        crowds.insert(digest, Arc::downgrade(&crowd));
        crowd
    }

    /// The places that one call of a component takes.
    pub(in crate::plugin) fn places_of(component: &Component) -> u32 {
        let Some(needed) = component.resources_required() else { return 1 };
        let places = needed.num_memories.div_ceil(MEMORIES_PER_PLACE).max(needed.num_tables.div_ceil(TABLES_PER_PLACE));
        places.max(1)
    }

    /// The compiler of its components.
    pub(in crate::plugin) fn compiler(&self) -> &ComponentCompiler {
        &self.compiler
    }

    /// Returns the layout of linear memories, on which compiled code depends.
    pub(in crate::plugin) fn layout(&self) -> MemoryLayout {
        self.layout
    }

    /// The component as native code, if it has been compiled: by this process, by a child when it was looked into, or in the
    /// cache.
    pub(in crate::plugin) fn compiled(&self, digest: ComponentDigest) -> Option<Arc<Component>> {
        if let Some(component) = lock(&self.compiled).get(&digest).and_then(Weak::upgrade) {
            return Some(component);
        }
        // Of another layout than this engine turned out to have it is no use.
        if let Some(code) = self.compiler.take_made(digest)
            && let Ok(component) = self.adopt(digest, &code)
        {
            return Some(component);
        }
        let component = self.cache.as_ref()?.get(&self.engine, digest)?;
        Some(self.keep(digest, component))
    }

    /// Compiles a component in this process.
    pub(in crate::plugin) fn compile(&self, digest: ComponentDigest, bytes: &[u8]) -> wasmtime::Result<Arc<Component>> {
        let component = Component::from_binary(&self.engine, bytes)?;
        if let Some(cache) = &self.cache {
            cache.put(digest, &component.serialize()?);
        }
        Ok(self.keep(digest, component))
    }

    /// Takes code that a child has made of this component.
    pub(in crate::plugin) fn adopt(&self, digest: ComponentDigest, code: &[u8]) -> wasmtime::Result<Arc<Component>> {
        // SAFETY: the code is run as it is. It came through a pipe from a process that this one has started for this component,
        // and that nobody else writes to: it is the compiler's as far as that compiles what it is given. `deserialize` checks
        // version and settings once more.
        let component = unsafe { Component::deserialize(&self.engine, code) }?;
        if let Some(cache) = &self.cache {
            cache.put(digest, code);
        }
        Ok(self.keep(digest, component))
    }

    fn keep(&self, digest: ComponentDigest, component: Component) -> Arc<Component> {
        let component = Arc::new(component);
        let mut compiled = lock(&self.compiled);
        compiled.retain(|_, component| component.strong_count() > 0);
        compiled.insert(digest, Arc::downgrade(&component));
        component
    }

    /// Returns what a person should know of the cache since this was last called: entries that were not as they were written.
    pub fn take_warnings(&self) -> Vec<String> {
        self.cache.as_ref().map(CompileCache::take_warnings).unwrap_or_default()
    }

    /// The tools that the component described under this configuration, if it was asked before.
    pub(in crate::plugin) fn specs(&self, digest: ComponentDigest, config: &str) -> Option<Arc<[Arc<ToolSpec>]>> {
        lock(&self.specs).get(&(digest, config.to_owned())).cloned()
    }

    pub(in crate::plugin) fn keep_specs(&self, digest: ComponentDigest, config: &str, specs: &Arc<[Arc<ToolSpec>]>) {
        lock(&self.specs).insert((digest, config.to_owned()), Arc::clone(specs));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles a component for an engine of this layout, without an engine that could run it: neither a pool nor a clock is
/// made for it.
pub(in crate::plugin) fn precompile(layout: MemoryLayout, component: &[u8]) -> wasmtime::Result<Vec<u8>> {
    Engine::new(&config_of_compiler(layout))?.precompile_component(component)
}

fn config_of_compiler(layout: MemoryLayout) -> Config {
    match layout {
        // Code does not depend on the pool itself, nor on the size of stacks.
        MemoryLayout::Pooled => base_config(limits::PLUGIN_STACK_BYTES),
        MemoryLayout::OnDemand => config_without_pool(limits::PLUGIN_STACK_BYTES),
    }
}

/// How the engine is configured. Public for benchmarks alone: what they compare with must have the same settings.
#[doc(hidden)]
pub fn engine_config() -> Config {
    config_with_pool(limits::PLUGIN_STACK_BYTES)
}

fn config_with_pool(stack_bytes: usize) -> Config {
    let calls = limits::PLUGIN_CALLS + limits::KEPT_INSTANCES;
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(calls)
        .total_stacks(calls)
        .total_memories(calls * MEMORIES_PER_PLACE)
        .total_tables(calls * TABLES_PER_PLACE)
        // Counted, not reserved.
        .total_core_instances(calls * limits::PLUGIN_CORE_INSTANCES_CEILING as u32)
        .max_core_instances_per_component(limits::PLUGIN_CORE_INSTANCES_CEILING as u32)
        .max_memories_per_component(limits::PLUGIN_MEMORIES)
        .max_memories_per_module(limits::PLUGIN_MEMORIES)
        .max_tables_per_component(limits::PLUGIN_TABLES)
        .max_tables_per_module(limits::PLUGIN_TABLES)
        .max_memory_size(limits::PLUGIN_MEMORY_CEILING)
        .table_elements(limits::PLUGIN_TABLE_ELEMENTS_CEILING)
        .linear_memory_keep_resident(limits::POOL_KEEP_RESIDENT_BYTES)
        .table_keep_resident(limits::POOL_KEEP_RESIDENT_BYTES);
    let mut config = base_config(stack_bytes);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// The same for a machine that does not let us reserve a pool: calls are slower, their limits are the same.
fn config_without_pool(stack_bytes: usize) -> Config {
    let mut config = base_config(stack_bytes);
    config
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        // No address space beyond what a guest has: it is what is short here.
        .memory_reservation(0)
        .memory_reservation_for_growth(MEMORY_GROWTH_BYTES)
        .memory_guard_size(0);
    config
}

fn base_config(stack_bytes: usize) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // So that a function that takes or gives a map is left out alone, and not its whole component.
        .wasm_component_model_map(true)
        .epoch_interruption(true)
        .max_wasm_stack(stack_bytes)
        .async_stack_size(stack_bytes + limits::PLUGIN_HOST_STACK_BYTES)
        // A guest's frames mean nothing to who reads our errors, and details are looked up in the environment.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(None);
    config
}

/// One thread makes time pass for all guests. It holds the engine weakly, so it ends with it.
fn start_ticker(engine: &Engine) {
    let engine = engine.weak();
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(limits::EPOCH_TICK);
        }
    };
    thread::Builder::new().name("plugin-epochs".into()).spawn(tick).expect("a thread can be started");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_compiler_runs_in_the_engine_of_its_layout() {
        let component =
            wat::parse_str("(component (core module (memory 1) (func (drop (i32.load (i32.const 0))))))").unwrap();
        let (most, pooled) = (limits::PLUGIN_STACK_CEILING, MemoryLayout::Pooled);
        for (layout, config) in [
            (pooled, config_with_pool(limits::PLUGIN_STACK_BYTES)),
            (pooled, config_with_pool(most)),
            (MemoryLayout::OnDemand, config_without_pool(limits::PLUGIN_STACK_BYTES)),
            (MemoryLayout::OnDemand, config_without_pool(most)),
        ] {
            let engine = Engine::new(&config).unwrap();
            let code = precompile(layout, &component).unwrap();
            // SAFETY: the code was compiled here and by nobody else.
            let loaded = unsafe { Component::deserialize(&engine, &code) };
            assert!(loaded.is_ok(), "{layout:?}: {:?}", loaded.err());
            // It is the same code, and not merely one that is taken.
            assert_eq!(code, engine.precompile_component(&component).unwrap(), "{layout:?}");
        }
    }
}
