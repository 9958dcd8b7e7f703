//! The contract as Rust, generated from `wit/`: one call, one set of types for all kinds.

mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "host",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "shelly:plugin/http.body": super::NotYet,
            "shelly:plugin/http.upload": super::NotYet,
        },
    });
}

/// Stands for resources of interfaces that this version of the host does not provide.
pub struct NotYet;

pub use generated::{
    exports::shelly::plugin as exports,
    shelly::plugin::{self as imports, types},
};
