//! Adapters from each kind of plugin to the traits of agents and teams.

mod coordinator;
mod effect;
mod function;
mod middleware;
mod model_middleware;
mod provider;
mod run_context;
mod tool;
mod tool_middleware;

pub use coordinator::PluginCoordinator;
pub use effect::PluginEffect;
pub use middleware::PluginRunMiddleware;
pub use model_middleware::PluginModelMiddleware;
pub use provider::PluginModel;
pub use tool::PluginTool;
pub use tool_middleware::PluginToolMiddleware;
