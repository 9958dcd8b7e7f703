//! The kinds that need no helpers: types and traits as in `wit/kinds.wit`.

/// Defines a kind's module: its types, and its trait under a name of its own.
macro_rules! kind {
    ($(#[$doc:meta])* $module:ident, $trait:ident) => {
        $(#[$doc])*
        pub mod $module {
            #[doc(inline)]
            pub use crate::bindings::$module::exports::shelly::plugin::$module::*;

            /// The trait that a plugin of this kind implements.
            pub use crate::bindings::$module::exports::shelly::plugin::$module::Guest as $trait;
        }
    };
}

kind! {
    /// Run middlewares: wrap each run of an agent or team.
    run_middleware, RunMiddleware
}
kind! {
    /// Model middlewares: wrap each request to a model. They read the request through [`crate::outgoing`].
    model_middleware, ModelMiddleware
}
kind! {
    /// Tool middlewares: wrap each tool call.
    tool_middleware, ToolMiddleware
}
kind! {
    /// Providers: send requests to a model. They emit the pieces of a reply through [`crate::sink`].
    provider, Provider
}
