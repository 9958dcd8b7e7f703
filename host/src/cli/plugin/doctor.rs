//! `shelly-host plugin doctor`.

use std::path::Path;

use shelly_author::{LanguageState, language_states};

use super::build::build_environment;
use crate::{
    cli::{
        command_runtime::runtime,
        render::{name, print},
    },
    error::Report,
};

/// Lists the languages, each with the programs that were found and the command that installs what is missing.
pub(super) fn doctor() -> Result<u8, Report> {
    let environment = build_environment();
    // Programs in the node_modules and the .venv of the current project count.
    let folder = std::env::current_dir().unwrap_or_else(|_| Path::new(".").into());
    let states = runtime()?.block_on(language_states(&environment, &folder));
    print(&states.iter().flat_map(described).collect::<Vec<_>>().join("\n"))?;
    Ok(0)
}

fn described(state: &LanguageState) -> Vec<String> {
    let is_ready = if state.missing.is_none() { "ready" } else { "not ready" };
    let mut lines = vec![format!("{:11} {is_ready}", state.language.name())];
    for tool in &state.tools {
        let version = if tool.version.is_empty() { String::new() } else { format!(": {}", name(&tool.version)) };
        lines.push(format!(
            "            {}{version} ({})",
            name(&tool.name),
            name(&tool.program.display().to_string())
        ));
    }
    if let Some((what, install)) = &state.missing {
        lines.push(format!("            {}", name(what)));
        lines.push(format!("            install it: {}", name(install)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use shelly_author::{PluginLanguage, ToolState};

    use super::*;

    #[test]
    fn missing_toolchain_is_shown_with_its_command() {
        let tools =
            vec![ToolState { name: "zig cc".into(), program: "/bin/zig".into(), version: "clang 1\u{1b}[2J".into() }];
        let state = LanguageState { language: PluginLanguage::C, tools: tools.clone(), missing: None };
        let lines = described(&state);
        assert_eq!(lines[0], "c           ready");
        assert!(lines[1].contains("zig cc: clang 1") && !lines[1].contains('\u{1b}'), "{}", lines[1]);
        let missing = Some(("C plugins need a compiler".into(), "pip install ziglang".into()));
        let lines = described(&LanguageState { tools: Vec::new(), missing, ..state });
        assert_eq!(lines[0], "c           not ready");
        assert_eq!(lines[2].trim(), "install it: pip install ziglang");
    }
}
