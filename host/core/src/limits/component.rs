//! Limits of plugin files: manifests, components, their compilation, and the cache of compiled components.

use std::time::Duration;

use super::PLUGIN_TABLE_ELEMENTS_CEILING;

// ---- files from the user

/// The maximum bytes of a `plugin.toml`.
pub const MANIFEST_BYTES: u64 = 64 << 10;
/// The maximum bytes of a component file. The largest known (the Python runtime in a component) has 19 MB.
pub const COMPONENT_BYTES: u64 = 256 << 20;
/// The maximum number of core modules in a component, including nested components. A Python runtime has about thirty.
pub const COMPONENT_MODULES: usize = 256;
/// The maximum number of components in a component, at all levels. The time to read them grows with the square of their
/// number: 99,000 empty ones keep a core busy for minutes. The largest known component has about fifty.
pub const COMPONENT_COMPONENTS: usize = 1_000;
/// The maximum nesting depth of components, including the outermost, and a module in the innermost. Each tool that composes
/// components adds one or two levels.
pub const COMPONENT_DEPTH: usize = 16;
/// The maximum number of instances that one instance of a component creates, including those of nested components: 700 bytes
/// can request a billion. The largest known component creates about a hundred.
pub const COMPONENT_INSTANCES: usize = 4_096;
/// The maximum bytes of a component that are neither code nor data nor custom sections: types, imports, exports, tables,
/// aliases. A validator allocates up to a hundred bytes for each byte. The largest known component has about 400 KB.
pub const COMPONENT_STRUCTURE_BYTES: usize = 4 << 20;
/// The maximum number of items in the element segments of a component, all its modules together: equal to the largest number
/// of table elements.
pub const COMPONENT_ELEMENTS: usize = PLUGIN_TABLE_ELEMENTS_CEILING;
/// The maximum number of those items that are expressions rather than function indices: the compiler allocates 2.5 kilobytes
/// for each. Compilers for real languages emit none.
pub const COMPONENT_ELEMENT_EXPRESSIONS: usize = 50_000;
/// The maximum number of functions of a component, all its modules together. A Python or JavaScript runtime has about
/// 30,000; compiling this many takes seconds.
pub const COMPONENT_FUNCTIONS: usize = 100_000;
/// The maximum bytes of code of a component, all its modules together: the code is compiled with the host's memory and time.
/// The largest known component has 15 MB.
pub const COMPONENT_CODE_BYTES: usize = 64 << 20;
/// The maximum bytes of one function: the cost of compiling grows faster than the function. The largest function of an
/// interpreter has about 300 KB.
pub const FUNCTION_BYTES: usize = 1 << 20;
/// The maximum number of parameters and results of a function type together. The standard allows 1,000 of each; compilers
/// for real languages pass more than about twenty in memory.
pub const SIGNATURE_VALUES: usize = 256;
/// The maximum number of locals of one function, including its parameters. The standard allows 50,000; the largest known
/// functions have about 3,000.
pub const FUNCTION_LOCALS: usize = 10_000;
/// The maximum nesting depth of blocks in one function: the time to compile grows with the square. A large `switch` has one
/// block for each of its cases.
pub const FUNCTION_BLOCK_DEPTH: usize = 10_000;
/// The maximum nesting depth of loops in one function: the time to compile grows with the third power. Handwritten code has
/// ten levels.
pub const FUNCTION_LOOP_DEPTH: usize = 500;
/// The maximum product of loop nesting depth and locals of one function: where all locals are used in the innermost loop,
/// the compiler allocates a kilobyte for each pair. The main loop of an interpreter has 3,000 locals and ten nested loops.
pub const FUNCTION_NESTED_LOOP_LOCALS: usize = 1 << 17;
/// The maximum product of loops and locals of one function: where all locals are used after all loops, the compiler
/// allocates a hundred bytes for each pair. The main loop of an interpreter contains a hundred loops.
pub const FUNCTION_LOOP_LOCALS: usize = 1 << 20;
/// The maximum product of blocks, including loops, and locals of one function: where all locals are used after all blocks,
/// the compiler allocates some bytes for each pair. The main loop of an interpreter has about 10,000 blocks.
pub const FUNCTION_BLOCK_LOCALS: usize = 1 << 27;
/// The maximum number of values that the blocks, branches and calls of one function move, each counted at every occurrence.
/// The compiler allocates up to a kilobyte for each. The largest function of an interpreter moves about 50,000.
pub const FUNCTION_VALUES: usize = 1 << 18;
/// The maximum memory of the process that validates and compiles one component, in bytes. A component of 17 MB takes 500 MB.
pub const COMPILE_MEMORY_BYTES: u64 = 2 << 30;
/// The address space of that process beyond its memory, in bytes: the program itself, and what the allocator reserves for
/// each thread (128 MiB) without using it.
pub const COMPILE_ADDRESS_SPACE_BYTES: u64 = 3 << 30;
/// The number of open files of that process: standard input, output and error. No other file can be opened.
pub const COMPILE_OPEN_FILES: u64 = 3;
/// The maximum CPU time of validating and compiling one component, all threads together. A component of 17 MB takes 25 s; a
/// slow machine may take four times as long.
pub const COMPILE_CPU_TIME: Duration = Duration::from_secs(120);
/// The maximum wall time of validating and compiling one component: a busy machine grants it half a processor.
pub const COMPILE_WALL_TIME: Duration = Duration::from_secs(240);
/// The number of concurrent compile processes; others wait. Each may take [`COMPILE_MEMORY_BYTES`], 4 GiB in total.
pub const COMPILE_CHILDREN: usize = 2;
/// The number of threads of a compile process besides the main thread: more threads hardly shorten the compilation, and each
/// reserves address space.
pub const COMPILE_THREADS: usize = 8;
/// The maximum bytes of the compiled code of one component, and of all compiled code that waits to be loaded. A component of
/// 17 MB compiles to 50 MB.
pub const COMPILED_BYTES: usize = 512 << 20;
/// The maximum bytes of the compiled functions of one project that are kept for its next build: a component of 17 MB has about
/// as many as bytes of code.
pub const KEPT_FUNCTIONS_BYTES: usize = 256 << 20;
/// The maximum bytes of the error message of a compile process.
pub const COMPILE_MESSAGE_BYTES: usize = 64 << 10;
/// The maximum characters of that message, where it comes from the compiler.
pub const COMPILE_MESSAGE_CHARS: usize = 2_000;
/// The maximum bytes of a compile process's standard error that are kept for the log.
pub const COMPILE_COMPLAINT_BYTES: usize = 16 << 10;
/// The maximum number of plugin folders in one plugin directory.
pub const PLUGINS_PER_DIRECTORY: usize = 1_024;

// ---- compile cache

/// The maximum bytes of all compiled components and functions in the cache; beyond it the oldest are removed.
pub const CACHE_BYTES: u64 = 1 << 30;
/// The maximum number of files in the cache, including those that mark a component as valid; beyond it the oldest are
/// removed. Several times the plugins of one directory.
pub const CACHE_ENTRIES: usize = 8 * PLUGINS_PER_DIRECTORY;
