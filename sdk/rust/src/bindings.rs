//! The code that `wit-bindgen` generates from `wit/`: one world with every import, and for each kind a world with that
//! export alone, so that a component contains only the kinds that it exports. All kinds take their types from the first
//! world, so that there is one set of Rust types. The linker leaves out imports that a plugin does not call.

/// All imports, and the shared types.
pub mod imports {
    wit_bindgen::generate!({
        inline: "package shelly:sdk-imports; world imports {
            include shelly:plugin/capabilities@0.2.0;
            import shelly:plugin/types@0.2.0;
        }",
        path: "wit",
        generate_all,
        generate_unused_types: true,
        pub_export_macro: true,
        additional_derives: [PartialEq],
        // `response` contains a resource, which has no `PartialEq`.
        additional_derives_ignore: ["response"],
    });
}

/// Generates the module of one kind: its types, its trait `Guest` and its macro `export!`.
macro_rules! kind {
    ($module:ident, $world:literal) => {
        pub mod $module {
            wit_bindgen::generate!({
                inline: $world,
                path: "wit",
                with: { "shelly:plugin/types@0.2.0": crate::bindings::imports::shelly::plugin::types },
                pub_export_macro: true,
                additional_derives: [PartialEq],
            });

            pub use exports::shelly::plugin::$module::*;

            /// Compiles if `T` can be exported.
            pub fn check<T: Guest>() {}
        }
    };
}

kind!(tool, "package shelly:sdk-tool; world tool-kind { export shelly:plugin/tool@0.2.0; }");
kind!(effect, "package shelly:sdk-effect; world effect-kind { export shelly:plugin/effect@0.2.0; }");
kind!(run_middleware, "package shelly:sdk-run; world run-kind { export shelly:plugin/run-middleware@0.2.0; }");
kind!(model_middleware, "package shelly:sdk-model; world model-kind { export shelly:plugin/model-middleware@0.2.0; }");
kind!(tool_middleware, "package shelly:sdk-call; world call-kind { export shelly:plugin/tool-middleware@0.2.0; }");
kind!(provider, "package shelly:sdk-provider; world provider-kind { export shelly:plugin/provider@0.2.0; }");
kind!(
    coordinator,
    "package shelly:sdk-coordinator; world coordinator-kind { export shelly:plugin/coordinator@0.2.0; }"
);
