//! The one test binary: each module tests what it is named after.

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

#[path = "../fuzz/claims.rs"]
mod claims;
mod script;
mod support;
mod vendors;

mod acp;
mod agent_tools;
mod allocations;
#[cfg(unix)]
mod attached;
mod authors;
mod bad_input;
mod bare_runs;
#[cfg(unix)]
mod batch;
mod builds;
mod ceilings;
mod chains;
mod changes;
#[cfg(unix)]
mod chat;
mod cluster;
mod completions;
mod config_check;
mod conformance;
mod doctor;
mod effects;
mod egress;
mod event_stream;
mod everyday;
mod examples;
mod files;
mod functions;
mod gate;
mod guests;
mod hostile;
mod imports;
mod index;
mod init;
#[cfg(unix)]
mod input;
mod installed;
mod instructions;
mod interleavings;
mod kv;
mod manual;
mod mcp;
mod mcp_fixture;
mod mcp_login;
mod messages;
mod middleware;
mod minds;
mod naming;
mod openapi;
mod output;
mod packages;
mod plugin_cases;
mod plugin_check;
mod plugin_commands;
#[cfg(unix)]
mod plugin_dev;
mod programs;
mod properties;
mod providers;
mod reply_order;
#[cfg(unix)]
mod scripted_build;
mod security;
#[cfg(unix)]
mod serve;
mod serving;
mod sessions;
mod skills;
mod steps;
mod teams;
mod telemetry;
mod terminal;
mod tidy;
mod tls;
mod toolboxes;
mod trace;
mod transcripts;
mod trust;
mod user_config;
mod wiring;
