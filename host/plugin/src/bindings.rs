//! Rust bindings of the contract, generated from `wit/` in one invocation, so that all kinds share one set of types.

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
