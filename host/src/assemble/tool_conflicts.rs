//! Adds tools to those of an agent, and warns of names that clash or look alike.

use std::sync::Arc;

use crate::{
    agent::RUN_TOOLS,
    error::{ErrorKind, Report},
    tool::{Tool, ToolBox, looks_like},
};

/// Adds the tools of a plugin that `place` in the config lists, or only those named in `only`. A tool whose name could be
/// taken for a tool of the host is left out with a warning.
///
/// # Errors
///
/// A [`Report`] if two tools of the plugin have the same name.
pub(crate) fn add_plugin_tools(
    tools: &mut ToolBox,
    of_plugin: impl Iterator<Item = Arc<dyn Tool>>,
    only: Option<&[String]>,
    place: &str,
    warnings: &mut Vec<String>,
) -> Result<(), Report> {
    let taken = |name: &str| RUN_TOOLS.into_iter().find(|own| *own == name || looks_like(own, name));
    let mut free = ToolBox::new();
    for tool in of_plugin.filter(|tool| only.is_none_or(|only| only.contains(&tool.spec().name))) {
        match taken(&tool.spec().name) {
            Some(own) => warnings.push(format!(
                "{place}: ignoring `{}` of `{}`, which could be mistaken for the host's `{own}`",
                tool.spec().name,
                tool.origin()
            )),
            None => free.register(tool).map_err(|clash| Report::new(ErrorKind::Plugin, clash.to_string()))?,
        }
    }
    extend(tools, free, place, warnings);
    Ok(())
}

/// Adds tools that `place` in the config gives, and warns of name clashes.
pub(crate) fn extend(tools: &mut ToolBox, more: ToolBox, place: &str, warnings: &mut Vec<String>) {
    for clash in tools.extend(more) {
        warnings.push(format!("{place}: {clash}; the first one is used"));
    }
}
