//! The configuration of the engine, on which compiled code depends.

use std::sync::Arc;

use wasmtime::{
    CacheStore, Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, WasmBacktraceDetails,
};

use super::{function_store::FunctionStore, memory_layout::MemoryLayout};
use shelly_core::limits;

/// The number of memories per permit. Most components have one memory and two tables. One that has more takes more
/// permits, so that a call with its permits also finds room in the pool.
pub const MEMORIES_PER_PERMIT: u32 = 2;
/// The number of tables per permit.
pub const TABLES_PER_PERMIT: u32 = 4;

/// Extra address space of a memory outside a pool, so that it is not moved each time it grows.
const MEMORY_GROWTH_BYTES: u64 = 1 << 20;

/// Compiles a component for an engine of this layout, or for the engine of components that use the async ABI, which has
/// but one layout. Creates neither a pool nor a ticker, since the code is not run here.
pub(super) fn precompile(layout: MemoryLayout, uses_async: bool, component: &[u8]) -> wasmtime::Result<Vec<u8>> {
    Engine::new(&config_of_layout(layout, uses_async))?.precompile_component(component)
}

/// Compiles a component as [`precompile`] does, but as fast as possible: not optimised, and with the functions of a store
/// instead of compiling them again. The engine accepts the code, since optimisation does not change its meaning.
pub(super) fn precompile_again(
    layout: MemoryLayout,
    uses_async: bool,
    component: &[u8],
    functions: &Arc<FunctionStore>,
) -> wasmtime::Result<Vec<u8>> {
    let mut config = config_of_layout(layout, uses_async);
    let store: Arc<dyn CacheStore> = functions.clone();
    config.cranelift_opt_level(OptLevel::None).enable_incremental_compilation(store)?;
    Engine::new(&config)?.precompile_component(component)
}

fn config_of_layout(layout: MemoryLayout, uses_async: bool) -> Config {
    match layout {
        _ if uses_async => config_with_async(limits::PLUGIN_STACK_BYTES),
        // Code depends neither on the pool itself nor on the size of stacks.
        MemoryLayout::Pooled => base_config(limits::PLUGIN_STACK_BYTES),
        MemoryLayout::OnDemand => config_without_pool(limits::PLUGIN_STACK_BYTES),
    }
}

/// Returns the configuration of the engine. Public for benchmarks alone, which must compare with the same settings.
#[doc(hidden)]
pub fn engine_config() -> Config {
    config_with_pool(limits::PLUGIN_STACK_BYTES)
}

/// Returns the configuration for a machine that can reserve a pool.
pub fn config_with_pool(stack_bytes: usize) -> Config {
    let calls = limits::PLUGIN_CALLS + limits::KEPT_INSTANCES;
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(calls)
        .total_stacks(calls)
        .total_memories(calls * MEMORIES_PER_PERMIT)
        .total_tables(calls * TABLES_PER_PERMIT)
        // Core instances are counted, not reserved.
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

/// Returns the configuration for a machine that cannot reserve a pool: calls are slower, their limits are the same.
pub fn config_without_pool(stack_bytes: usize) -> Config {
    let mut config = base_config(stack_bytes);
    config
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        // Reserve no address space beyond what a guest uses: address space is scarce here.
        .memory_reservation(0)
        .memory_reservation_for_growth(MEMORY_GROWTH_BYTES)
        .memory_guard_size(0);
    config
}

/// Returns the configuration for components that use the async ABI. Each of their calls goes through an event loop, and
/// each of their inner instances may have a stack, so they have no part in the pool, whose stacks are one for each call.
pub fn config_with_async(stack_bytes: usize) -> Config {
    let mut config = config_without_pool(stack_bytes);
    config.concurrency_support(true);
    config
}

fn base_config(stack_bytes: usize) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // Calls without an event loop are faster.
        .concurrency_support(false)
        .wasm_component_model_map(true)
        .epoch_interruption(true)
        .max_wasm_stack(stack_bytes)
        .async_stack_size(stack_bytes + limits::PLUGIN_HOST_STACK_BYTES)
        // Guest frames mean nothing to readers of our errors, and details depend on environment variables.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(None);
    config
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Component;

    use super::*;

    #[test]
    fn precompiled_code_equals_engine_code_of_its_layout() {
        let component =
            wat::parse_str("(component (core module (memory 1) (func (drop (i32.load (i32.const 0))))))").unwrap();
        let (most, pooled) = (limits::PLUGIN_STACK_CEILING, MemoryLayout::Pooled);
        for (layout, uses_async, config) in [
            (pooled, false, config_with_pool(limits::PLUGIN_STACK_BYTES)),
            (pooled, false, config_with_pool(most)),
            (MemoryLayout::OnDemand, false, config_without_pool(limits::PLUGIN_STACK_BYTES)),
            (MemoryLayout::OnDemand, false, config_without_pool(most)),
            (pooled, true, config_with_async(most)),
            (MemoryLayout::OnDemand, true, config_with_async(limits::PLUGIN_STACK_BYTES)),
        ] {
            let engine = Engine::new(&config).unwrap();
            let code = precompile(layout, uses_async, &component).unwrap();
            // SAFETY: the code was compiled here and by nobody else.
            let loaded = unsafe { Component::deserialize(&engine, &code) };
            assert!(loaded.is_ok(), "{layout:?}: {:?}", loaded.err());
            // Code that was compiled fast runs in the same engine.
            let store = Arc::new(FunctionStore::of_last_build(Vec::new()));
            let fast = precompile_again(layout, uses_async, &component, &store).unwrap();
            // SAFETY: as above.
            let loaded = unsafe { Component::deserialize(&engine, &fast) };
            assert!(loaded.is_ok() && store.changed().is_some(), "{layout:?}: {:?}", loaded.err());
            // The optimised code must be identical, not merely acceptable.
            assert_eq!(code, engine.precompile_component(&component).unwrap(), "{layout:?}");
        }
    }
}
