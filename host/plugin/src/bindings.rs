//! Rust bindings of the contract, generated from `wit/` in one invocation, so that all kinds share one set of types.
//!
//! They are of the newest version. The engine compares types by their structure and not by their name, so a type serves each
//! version in which it has the same form. The types of an older version that differ are in a module of their own, such as
//! [`version_0_1`].

pub mod version_0_1;

mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "host",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "shelly:plugin/http.body": crate::http_client::GuestResponseBody,
            "shelly:plugin/http.upload": crate::http_client::GuestUpload,
        },
    });
}

pub use generated::{
    exports::shelly::plugin as exports,
    shelly::plugin::{self as imports, types},
};
