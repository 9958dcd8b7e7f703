//! The command line, with one file for each subcommand. Only this module uses the terminal, the environment and the
//! process.

mod acp;
mod agent;
mod ask;
mod batch;
mod build_info;
mod chat;
mod cluster;
mod command_line;
mod command_runtime;
mod command_words;
mod compile_progress;
mod completions;
mod config;
mod config_files;
mod config_path;
mod config_show;
mod conformance;
mod doctor;
mod file_limit;
#[cfg(test)]
mod git_commit;
mod host_environment;
mod http_access;
mod index;
mod init;
mod input;
mod junit;
mod launch;
mod live;
mod man;
mod mcp;
mod openapi;
mod panic_report;
mod plugin;
mod project_search;
mod project_sessions;
mod provider;
mod render;
mod run;
mod run_id;
mod runner_args;
mod secrets;
mod serve;
mod session;
mod session_name;
mod session_projects;
mod session_target;
mod signals;
mod silent_models;
mod skill;
mod stdout;
#[cfg(test)]
mod tests;
mod trace;
mod trigger;
mod trust;
mod trust_list;
mod usage_hints;
mod user_config_path;
mod wanted_output;

pub use command_line::{command, main, main_that_compiles_here};
pub use render::event_stream_schema;
