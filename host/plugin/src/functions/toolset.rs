//! The tools that a component's functions become, with their descriptions for a model.

use std::sync::Arc;

use super::{
    exported_functions::{ExportedFunction, ExportedFunctions, FunctionAction},
    manifest_section::{FunctionOverrides, FunctionsManifest, InstanceLifetime},
    schema, wit,
};
use shelly_core::{
    chat::{ToolHints, ToolSpec},
    limits,
    tool::{described, looks_like},
};

/// The tools of a plugin of kind `functions`.
#[derive(Debug, Clone, Default)]
pub struct FunctionToolset {
    /// The tools.
    pub tools: Vec<Arc<FunctionTool>>,
    /// The functions that are no tools: the name in the component, and the reason.
    pub left_out: Vec<(String, String)>,
    /// `true` if an instance lasts as long as the run.
    pub is_kept: bool,
}

/// One function as a tool.
#[derive(Debug)]
pub struct FunctionTool {
    /// The function that is called.
    pub function: ExportedFunction,
    /// The description for a model.
    pub spec: Arc<ToolSpec>,
}

impl FunctionToolset {
    /// Makes tools of these functions, as configured by the manifest.
    ///
    /// # Errors
    ///
    /// A mistake in the manifest: an unknown function or parameter, two tools with one name, or too many tools.
    pub fn new(exported: &ExportedFunctions, manifest: &FunctionsManifest) -> Result<Self, String> {
        let names: Vec<_> = exported.functions.iter().map(|function| function.tool.as_str()).collect();
        let mentioned = manifest.only.iter().flatten().map(|name| ("only", name));
        let mentioned = mentioned.chain(manifest.leave_out.iter().map(|name| ("leave_out", name)));
        let mentioned = mentioned.chain(manifest.functions.keys().map(|name| ("functions", name)));
        for (key, name) in mentioned {
            if !names.contains(&name.as_str()) {
                let known: Vec<_> = names.iter().take(limits::NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
                let name = name.escape_debug();
                return Err(format!(
                    "{key}: the component has no function `{name}` that can be a tool; use one of {}",
                    known.join(", ")
                ));
            }
        }
        let is_meant = |name: &str| {
            manifest.only.as_ref().is_none_or(|only| only.iter().any(|one| one == name))
                && !manifest.leave_out.iter().any(|one| one == name)
        };
        let nothing = FunctionOverrides::default();
        let mut left_out = exported.left_out.clone();
        let mut tools: Vec<Arc<FunctionTool>> = Vec::new();
        for function in exported.functions.iter().filter(|function| is_meant(&function.tool)) {
            let overrides = manifest.functions.get(&function.tool).unwrap_or(&nothing);
            if let Some(param) = overrides.params.keys().find(|name| function.params.iter().all(|it| it.name != **name))
            {
                let (tool, param) = (&function.tool, param.escape_debug());
                return Err(format!("functions.{tool}.params: the function has no parameter `{param}`"));
            }
            match spec(function, overrides) {
                Ok(spec) => tools.push(Arc::new(FunctionTool { function: function.clone(), spec: spec.into() })),
                Err(why) => left_out.push((function.path.to_string(), why)),
            }
        }
        for (at, tool) in tools.iter().enumerate() {
            let name = &tool.spec.name;
            let is_like = |other: &&Arc<FunctionTool>| other.spec.name == *name || looks_like(&other.spec.name, name);
            if let Some(other) = tools[..at].iter().find(is_like) {
                return Err(format!(
                    "functions: the tool names `{name}` and `{}` are equal or look alike",
                    other.spec.name
                ));
            }
        }
        let bytes: usize = tools.iter().map(|tool| spec_bytes(&tool.spec)).sum();
        for (what, count, most) in
            [("tools", tools.len(), limits::TOOLS_PER_PLUGIN), ("bytes of descriptions", bytes, limits::SPECS_BYTES)]
        {
            if count > most {
                return Err(format!(
                    "the component has {count} {what}, the maximum is {most}; select functions with `only`"
                ));
            }
        }
        let is_kept = manifest.instance == InstanceLifetime::Run || exported.has_handles();
        Ok(Self { tools, left_out, is_kept })
    }

    /// Returns the descriptions of the tools.
    pub fn specs(&self) -> Arc<[Arc<ToolSpec>]> {
        self.tools.iter().map(|tool| Arc::clone(&tool.spec)).collect()
    }

    /// Returns the reason why there is no tool, if there is none: that of the first function.
    pub fn why_nothing(&self) -> Option<String> {
        self.tools.is_empty().then(|| match self.left_out.first() {
            Some((function, why)) => format!("`{function}`: {why}"),
            None => "its plugin.toml leaves out all functions".into(),
        })
    }
}

fn spec_bytes(spec: &ToolSpec) -> usize {
    spec.name.len() + spec.description.len() + spec.input_schema.get().len()
}

fn spec(function: &ExportedFunction, overrides: &FunctionOverrides) -> Result<ToolSpec, String> {
    let about = overrides.description.as_ref().or(function.docs.as_ref()).map(|text| text.trim());
    let place = match (&function.act, &function.path.interface) {
        (FunctionAction::Drop(_), _) => String::new(),
        (FunctionAction::Call, Some(interface)) => format!("WIT, interface {interface}:\n{}", wit::signature(function)),
        (FunctionAction::Call, None) => format!("WIT:\n{}", wit::signature(function)),
    };
    let parts: Vec<_> = [about.unwrap_or_default(), place.as_str()].into_iter().filter(|it| !it.is_empty()).collect();
    let hints = match function.act {
        // Dropping a handle reaches nothing but the component's own resources.
        FunctionAction::Drop(_) => ToolHints { closed_world: true, ..overrides.tool_hints() },
        FunctionAction::Call => overrides.tool_hints(),
    };
    let schema = schema::object(&function.params, |name| overrides.params.get(name).cloned());
    let name = overrides.tool.clone().unwrap_or_else(|| function.tool.clone());
    described(name, parts.join("\n\n"), schema.to_string(), hints)
}
