//! What a plugin may do for an agent: plain data and its algebra, no I/O.
//!
//! A manifest says what a plugin [wants](Wants), an agent's config what it is [granted](Grant). A plugin gets the meet
//! of both, and of the [`Ceiling`] under which its agent was started: nothing that it did not ask for, nothing that the
//! agent does not give, nothing that whoever started the agent may not pass on.
//!
//! What a run may spend is a [`Budget`]; what it has left of it, a [`Purse`].

mod address;
mod budget;
mod ceiling;
mod exhausted;
mod files;
mod grant;
mod http;
mod kv;
mod money;
mod names;
mod opening;
mod power;
mod purse;

pub use address::is_public;
pub use budget::{Bounds, Budget};
pub use ceiling::{Bound, Ceiling, Decision};
pub use exhausted::Exhausted;
pub use files::{Access, Files};
pub use grant::{Grant, Missing, Wants};
pub use http::{Http, HttpRule, READING_METHODS, Reaches, is_localhost, is_method, loopback};
pub use kv::{KvScope, KvScopes};
pub use money::{NotUsd, Price, Usd};
pub use names::Names;
pub use opening::Askable;
pub use power::{Power, Powers};
pub use purse::{Account, Carved, Overshoot, Purse, Share, Spent};
