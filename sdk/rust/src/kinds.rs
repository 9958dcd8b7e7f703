//! The kinds that need no help: types and traits as `wit/kinds.wit` has them.

/// A kind's module: its types, and its trait under a name of its own.
macro_rules! kind {
    ($(#[$doc:meta])* $module:ident, $trait:ident) => {
        $(#[$doc])*
        pub mod $module {
            #[doc(inline)]
            pub use crate::bindings::$module::exports::shelly::plugin::$module::*;

            /// The trait of this kind.
            pub use crate::bindings::$module::exports::shelly::plugin::$module::Guest as $trait;
        }
    };
}

kind! {
    /// Stands around whole runs of an agent or team.
    run_middleware, RunMiddleware
}
kind! {
    /// Stands around requests to a model. Reads them through [`crate::outgoing`].
    model_middleware, ModelMiddleware
}
kind! {
    /// Stands around tool calls.
    tool_middleware, ToolMiddleware
}
kind! {
    /// Speaks to a model. Hands on pieces through [`crate::sink`].
    provider, Provider
}
