//! The functions that a guest may call, one file per interface, and the linking of those that are granted.

mod attachments;
mod chat;
mod clock;
mod config;
mod http;
mod kv;
mod link;
mod log;
mod outgoing;
mod poll;
mod process;
mod progress;
mod random;
mod sink;
mod wasi;
mod wasi_http;

pub use link::{link, link_the_rest_as_traps};
