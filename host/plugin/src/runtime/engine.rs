use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    thread,
};

use tokio::sync::Semaphore;
use wasmtime::{Engine, component::Component};

use crate::{
    compile::{
        CompileCache, CompileConfig, ComponentCompiler, MEMORIES_PER_PERMIT, MemoryLayout, TABLES_PER_PERMIT,
        config_with_async, config_with_pool, config_without_pool,
    },
    metering::{
        ComponentPool, CpuQueue, GuestMemoryBudget, GuestMemoryUse, Lane, Limits, MemoryAccount, MemoryShare,
        MemorySource, PluginQuota, total_guest_memory,
    },
};
use shelly_core::{
    chat::ToolSpec,
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    limits,
};

/// The version of wasmtime that plugins run in.
pub const WASMTIME_VERSION: &str = wasmtime_environ::VERSION;

/// The state that all plugins of the process share: the compiler, the pool of instances and the cache of compiled code.
/// It holds no plugin's data.
pub struct PluginEngine {
    engine: CachedEngine,
    /// The engine for components that use the async ABI, created for the first of them.
    async_engine: OnceLock<CachedEngine>,
    stack_bytes: usize,
    turns: CpuQueue,
    compiler: Arc<ComponentCompiler>,
    /// The layout of linear memories, on which compiled code depends.
    layout: MemoryLayout,
    /// Compiled components in use: the code is dropped with its last user.
    compiled: Mutex<HashMap<Sha256Digest, Weak<Component>>>,
    specs: Mutex<SpecsByConfig>,
    /// The pools of the components that agents use.
    pools: Mutex<HashMap<Sha256Digest, Weak<ComponentPool>>>,
    /// The memory budget of all plugins together.
    memory: Arc<GuestMemoryBudget>,
    /// The memory accounts of the agents, by the agent's name in the config.
    agents_memory: Mutex<HashMap<String, Weak<MemoryAccount>>>,
    steps: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

/// An engine, and the cache of the code for it.
struct CachedEngine {
    engine: Engine,
    cache: Option<CompileCache>,
}

impl CachedEngine {
    /// Starts the ticker of an engine, and opens the cache that the compiler is configured with.
    fn start(engine: Engine, compiler: &ComponentCompiler) -> Self {
        start_ticker(&engine);
        let cache = cache_of(compiler.config(), &engine);
        Self { engine, cache }
    }
}

/// The results of `specs`, by component and configuration.
type SpecsByConfig = HashMap<(Sha256Digest, String), Arc<[Arc<ToolSpec>]>>;

/// The number of concurrent calls in [`Lane::Stream`]: they hold their instance while a model, a server or a program
/// works, so they have permits of their own.
const STREAMS: u32 = limits::PLUGIN_CALLS / 4;
/// The number of all other concurrent calls.
const STEPS: u32 = limits::PLUGIN_CALLS - STREAMS;

impl PluginEngine {
    /// Creates an engine with a compiler of its own. With `Some(directory)` in place of a whole [`CompileConfig`] it
    /// compiles in this process and caches the code in that directory.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the machine does not let it reserve its memory.
    pub fn new(config: impl Into<CompileConfig>) -> Result<Self, Report> {
        Self::with_stack(Arc::new(config.into().into()), limits::PLUGIN_STACK_BYTES)
    }

    /// Creates an engine for code of this compiler. `stack_bytes` is the stack of each call, at most
    /// [`limits::PLUGIN_STACK_CEILING`].
    ///
    /// # Errors
    ///
    /// See [`PluginEngine::new`].
    pub fn with_stack(compiler: Arc<ComponentCompiler>, stack_bytes: usize) -> Result<Self, Report> {
        let stack_bytes = stack_bytes.clamp(1, limits::PLUGIN_STACK_CEILING);
        let failed = |error: wasmtime::Error| {
            Report::new(ErrorKind::Plugin, "cannot start the WebAssembly engine")
                .cause(format!("{error:#}"))
                .hint("raise the limit of address space (ulimit -v)")
        };
        let pooled = Engine::new(&config_with_pool(stack_bytes)).map(|engine| (engine, MemoryLayout::Pooled));
        let engine = pooled.or_else(|error| {
            tracing::warn!(
                error = format!("{error:#}"),
                "no address space for a memory pool; each call allocates its own memory"
            );
            Engine::new(&config_without_pool(stack_bytes)).map(|engine| (engine, MemoryLayout::OnDemand))
        });
        let (engine, layout) = engine.map_err(failed)?;
        Ok(Self {
            stack_bytes,
            turns: CpuQueue::new(),
            engine: CachedEngine::start(engine, &compiler),
            async_engine: OnceLock::new(),
            compiler,
            layout,
            compiled: Mutex::default(),
            specs: Mutex::default(),
            pools: Mutex::default(),
            memory: Arc::new(GuestMemoryBudget::new(Self::guest_memory_for(None, limits::PLUGIN_MEMORY_BYTES).0)),
            agents_memory: Mutex::default(),
            steps: Arc::new(Semaphore::new(STEPS as usize)),
            streams: Arc::new(Semaphore::new(STREAMS as usize)),
            kept: Arc::new(Semaphore::new(limits::KEPT_INSTANCES as usize)),
        })
    }

    /// Sets the memory of all guests together, in bytes, tables included.
    pub fn with_guest_memory(self, bytes: usize) -> Self {
        Self { memory: Arc::new(GuestMemoryBudget::new(bytes)), ..self }
    }

    /// Returns the guest memory of all plugins together on this machine, in bytes, and the source of that figure.
    /// `named` is the value of the config, which is capped at the memory that this process can have. Without it the
    /// result is a share of that memory, and at least enough for one call to have `memory_bytes`.
    pub fn guest_memory_for(named: Option<usize>, memory_bytes: usize) -> (usize, MemorySource) {
        total_guest_memory(named, GuestMemoryBudget::total_for(memory_bytes))
    }

    /// Returns the use of the memory budget of all guests.
    pub fn guest_memory(&self) -> GuestMemoryUse {
        self.memory.usage()
    }

    /// Returns the engine for a component.
    fn engine_for(&self, uses_async: bool) -> wasmtime::Result<&CachedEngine> {
        if !uses_async {
            return Ok(&self.engine);
        }
        if let Some(engine) = self.async_engine.get() {
            return Ok(engine);
        }
        // If two threads come here at once, one of their engines is dropped.
        let engine = Engine::new(&config_with_async(self.stack_bytes))?;
        Ok(self.async_engine.get_or_init(|| CachedEngine::start(engine, &self.compiler)))
    }

    /// Returns the stack of each call in bytes.
    pub(super) fn stack_bytes(&self) -> usize {
        self.stack_bytes
    }

    /// Returns the queue for the processor that all calls share.
    pub(super) fn turns(&self) -> &CpuQueue {
        &self.turns
    }

    pub(super) fn permits(&self, lane: Lane) -> &Arc<Semaphore> {
        match lane {
            Lane::Step => &self.steps,
            Lane::Stream => &self.streams,
            Lane::Kept => &self.kept,
        }
    }

    /// Returns the quota that all calls of one plugin of an agent share.
    pub(crate) fn quota(&self, limits: &Limits, digest: Sha256Digest, agent: &str) -> PluginQuota {
        let pool = self.pool(digest);
        let memory = MemoryShare::new(Arc::clone(&self.memory), Arc::clone(pool.memory()), self.agent_memory(agent));
        PluginQuota::new(limits, pool, Arc::new(memory))
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

    /// Returns the pool that all calls of this component share.
    fn pool(&self, digest: Sha256Digest) -> Arc<ComponentPool> {
        let mut pools = lock(&self.pools);
        if let Some(pool) = pools.get(&digest).and_then(Weak::upgrade) {
            return pool;
        }
        let most = |permits: u32| permits / 4 * limits::PLUGIN_QUARTERS_OF_ONE;
        let pool = Arc::new(ComponentPool::new(most(STEPS), most(STREAMS), most(limits::KEPT_INSTANCES)));
        pools.retain(|_, pool| pool.strong_count() > 0);
        pools.insert(digest, Arc::downgrade(&pool));
        pool
    }

    /// Returns the number of permits that one call of a component takes.
    pub(crate) fn permits_of(component: &Component) -> u32 {
        let Some(needed) = component.resources_required() else { return 1 };
        let permits =
            needed.num_memories.div_ceil(MEMORIES_PER_PERMIT).max(needed.num_tables.div_ceil(TABLES_PER_PERMIT));
        permits.max(1)
    }

    /// Returns the compiler of the engine's components.
    pub fn compiler(&self) -> &Arc<ComponentCompiler> {
        &self.compiler
    }

    /// Returns the layout of linear memories, on which compiled code depends.
    pub(crate) fn layout(&self) -> MemoryLayout {
        self.layout
    }

    /// Returns the component as native code, if it was compiled before: by this process, by a compiler process when it
    /// was validated, or in the cache. As for all functions of code, `uses_async` is `true` for a component that uses the
    /// async ABI.
    pub(crate) fn compiled(&self, digest: Sha256Digest, uses_async: bool) -> Option<Arc<Component>> {
        if let Some(component) = lock(&self.compiled).get(&digest).and_then(Weak::upgrade) {
            return Some(component);
        }
        // Code for another layout than this engine ended up with is useless.
        if let Some(code) = self.compiler.take_made(digest)
            && let Ok(component) = self.adopt(digest, &code, uses_async)
        {
            return Some(component);
        }
        let CachedEngine { engine, cache } = self.engine_for(uses_async).ok()?;
        let component = cache.as_ref()?.get(engine, digest)?;
        Some(self.keep(digest, component))
    }

    /// Compiles a component in this process.
    pub(crate) fn compile(
        &self,
        digest: Sha256Digest,
        bytes: &[u8],
        uses_async: bool,
    ) -> wasmtime::Result<Arc<Component>> {
        let CachedEngine { engine, cache } = self.engine_for(uses_async)?;
        let component = Component::from_binary(engine, bytes)?;
        if let Some(cache) = cache {
            cache.put(digest, &component.serialize()?);
        }
        Ok(self.keep(digest, component))
    }

    /// Loads code that a compiler process made of this component.
    pub(crate) fn adopt(
        &self,
        digest: Sha256Digest,
        code: &[u8],
        uses_async: bool,
    ) -> wasmtime::Result<Arc<Component>> {
        let CachedEngine { engine, cache } = self.engine_for(uses_async)?;
        // SAFETY: the code is run as it is. It came through a pipe from a process that this one started for this
        // component and that nobody else writes to, so it is trusted as far as the compiler is. `deserialize` checks
        // version and settings again.
        let component = unsafe { Component::deserialize(engine, code) }?;
        if let Some(cache) = cache {
            cache.put(digest, code);
        }
        Ok(self.keep(digest, component))
    }

    fn keep(&self, digest: Sha256Digest, component: Component) -> Arc<Component> {
        let component = Arc::new(component);
        let mut compiled = lock(&self.compiled);
        compiled.retain(|_, component| component.strong_count() > 0);
        compiled.insert(digest, Arc::downgrade(&component));
        component
    }

    /// Returns warnings about cache entries that had been altered, since the last call of this function.
    pub fn take_warnings(&self) -> Vec<String> {
        let engines = [Some(&self.engine), self.async_engine.get()].into_iter().flatten();
        engines.filter_map(|engine| engine.cache.as_ref()).flat_map(CompileCache::take_warnings).collect()
    }

    /// Returns the tools that the component described under this configuration, if it was asked before.
    pub(crate) fn specs(&self, digest: Sha256Digest, config: &str) -> Option<Arc<[Arc<ToolSpec>]>> {
        lock(&self.specs).get(&(digest, config.to_owned())).cloned()
    }

    pub(crate) fn keep_specs(&self, digest: Sha256Digest, config: &str, specs: &Arc<[Arc<ToolSpec>]>) {
        lock(&self.specs).insert((digest, config.to_owned()), Arc::clone(specs));
    }

    /// Forgets the tools that a component described.
    pub(crate) fn forget_specs(&self, digest: Sha256Digest) {
        lock(&self.specs).retain(|(of, _), _| *of != digest);
    }
}

/// Returns the cache of compiled code that a config names.
fn cache_of(config: &CompileConfig, engine: &Engine) -> Option<CompileCache> {
    config.cache.clone().map(|directory| CompileCache::new(directory, engine, &config.profile))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that advances the epoch for all guests. It holds the engine weakly, so it ends with the engine.
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
