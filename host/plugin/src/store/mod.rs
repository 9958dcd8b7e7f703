//! The data of a store: everything that one instance of a plugin can reach, which is what the plugin was granted for its
//! agent and for the call.
//!
//! [`PluginState`] is made of the states of the single imports, which know neither it nor each other. The functions that
//! a guest may call on it are in `imports`.

mod attachments;
mod chat_view;
mod deterministic_random;
mod filesystem;
mod fixed_inputs;
mod frozen_clock;
mod guest_exit;
mod guest_output;
mod kv_binding;
mod log_quota;
mod plugin_state;
mod preopened_folders;
mod tool_progress;
mod wasi_base;
mod wasi_http;

pub use attachments::GuestAttachments;
pub use chat_view::ChatView;
pub use filesystem::{FileOpenLimiter, HasGuestFilesystem, NonblockingFiles};
pub use fixed_inputs::FixedInputs;
pub use frozen_clock::FrozenClock;
pub use guest_exit::GuestExit;
pub use guest_output::GuestOutputStream;
pub use kv_binding::KvBinding;
pub use plugin_state::PluginState;
pub use preopened_folders::PreopenedFolders;
pub use tool_progress::ToolProgressThrottle;
