//! `shelly-host plugin inspect`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;

use super::named_plugin::named_package;
use crate::{
    capability::Grant,
    cli::{
        command_runtime::runtime,
        host_environment::compiling,
        render::{CliOutputFormat, json_line, name, print, size},
    },
    error::Report,
    plugin::{ContractVersion, FolderMount, Plugin as Loaded, PluginEngine, PluginPackage, PluginSettings, resolved},
};

pub(super) fn inspect(
    path: &Path,
    config: Option<&PathBuf>,
    plugins: &[PathBuf],
    output: CliOutputFormat,
) -> Result<u8, Report> {
    let engine = Arc::new(PluginEngine::new(compiling())?);
    let (package, plugin) = runtime()?.block_on(async {
        let package = named_package(path, config, plugins, engine.compiler()).await?;
        let plugin = load_to_list(&package, &engine).await?;
        Ok::<_, Report>((package, plugin))
    })?;
    show(&package, &plugin, output)
}

/// Starts a plugin once in its sandbox, so that it lists its tools.
pub(super) async fn load_to_list(package: &Arc<PluginPackage>, engine: &Arc<PluginEngine>) -> Result<Loaded, Report> {
    Loaded::load(engine, package, &listing_settings(package)).await.map_err(|error| error.report())
}

/// Returns the settings of a plugin that is started to list its tools.
pub(super) fn listing_settings(package: &PluginPackage) -> PluginSettings {
    // A plugin inside the program has no folder.
    let folder = resolved(package.location.folder().unwrap_or(Path::new(".")));
    PluginSettings {
        // The grant is only for linking: while the tools are queried, only log and config calls work.
        grant: Grant::all_of(&package.manifest.wants, folder.clone()),
        mounts: vec![FolderMount { path: folder, name: ".".into() }],
        ..PluginSettings::new("inspect", "inspect")
    }
}

fn show(package: &PluginPackage, plugin: &Loaded, output: CliOutputFormat) -> Result<u8, Report> {
    if output == CliOutputFormat::Json {
        let mut value = summary(package);
        value["tools"] = json!(plugin.tools().iter().collect::<Vec<_>>());
        if !package.offer.left_out.is_empty() {
            let left_out = package.offer.left_out.iter();
            value["left_out"] = left_out.map(|(function, why)| json!({ "function": function, "why": why })).collect();
        }
        print(&json_line(&value))?;
        return Ok(0);
    }
    print(&described(package, plugin).join("\n"))?;
    Ok(0)
}

/// Returns the facts of a plugin for people, a line each.
pub(super) fn described(package: &PluginPackage, plugin: &Loaded) -> Vec<String> {
    let manifest = &package.manifest;
    let mut lines = Vec::new();
    let list = |names: Vec<String>| if names.is_empty() { "nothing".to_owned() } else { names.join("\n             ") };
    let kinds = manifest.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    lines.push(format!("id           {}", name(&manifest.id)));
    for (label, text) in [("version", &manifest.version), ("about", &manifest.description)] {
        if !text.is_empty() {
            lines.push(format!("{label:12} {}", name(text)));
        }
    }
    lines.push(format!("kinds        {kinds}"));
    if let Some(contract) = package.anatomy.contract {
        lines.push(format!("contract     {contract}"));
    }
    lines.push(format!("size         {} ({} bytes)", size(package.size), package.size));
    lines.push(format!("digest       {}", package.named_digest()));
    lines.push(format!("imports      {}", list(package.anatomy.imports.iter().map(|import| name(import)).collect())));
    let grantable = || Grant::default().missing(&manifest.wants).into_iter().map(|missing| missing.line);
    let wants = grantable().filter(|_| !manifest.wants_are_optional);
    let wants = wants.chain(manifest.wasi.then(|| "wasi: powerless (needs no grant)".into())).collect();
    lines.push(format!("wants        {}", list(wants)));
    if manifest.wants_are_optional && grantable().next().is_some() {
        lines.push(format!("can use      {}", list(grantable().collect())));
    }
    if let Some(params) = &manifest.params {
        let params: Vec<_> = params.iter().map(|param| name(param)).collect();
        lines.push(format!("params       {}", if params.is_empty() { "none".into() } else { params.join(", ") }));
    }
    if manifest.kinds.iter().any(|kind| kind.is_step()) {
        lines.push(format!("on failure   {}", json!(manifest.on_failure).as_str().unwrap_or_default()));
    }
    if package.offer.is_kept {
        lines.push("instance     kept for one run of an agent; calls run one at a time".into());
    }
    for (function, why) in &package.offer.left_out {
        lines.push(format!("left out     {}: {}", name(function), name(why)));
    }
    for spec in plugin.tools().iter() {
        let first = spec.description.lines().next().unwrap_or_default();
        lines.push(format!("tool         {}: {}", spec.name, name(first)));
        let schema: serde_json::Value = serde_json::from_str(spec.input_schema.get()).unwrap_or_default();
        let required =
            |name: &str| schema["required"].as_array().is_some_and(|list| list.iter().any(|item| item == name));
        for (property_name, property) in schema["properties"].as_object().into_iter().flatten() {
            let kind = type_name(property);
            let optional = if required(property_name) { "" } else { ", optional" };
            let about = property["description"].as_str().unwrap_or_default();
            let line = format!("               {} ({kind}{optional}) {}", name(property_name), name(about));
            lines.push(line.trim_end().to_owned());
        }
    }
    lines
}

/// Returns the facts of a plugin as JSON.
pub(super) fn summary(package: &PluginPackage) -> serde_json::Value {
    let manifest = &package.manifest;
    json!({
        "id": manifest.id,
        "version": manifest.version,
        "description": manifest.description,
        "kinds": manifest.kinds,
        "contract": package.anatomy.contract.map(ContractVersion::number),
        "imports": package.anatomy.imports,
        "wants": manifest.wants,
        "wants_are_optional": manifest.wants_are_optional,
        "wasi": manifest.wasi.then_some("powerless"),
        "params": manifest.params,
        "phases": manifest.phases,
        "shortens": manifest.shortens,
        "before_only": manifest.before_only,
        "on_failure": manifest.on_failure,
        "size": package.size,
        "digest": package.named_digest(),
        "folder": package.location.folder(),
    })
}

/// Returns the type of a property in words, without null.
fn type_name(schema: &serde_json::Value) -> String {
    use serde_json::Value;
    let names = |list: &[Value], named: &dyn Fn(&Value) -> String| {
        let names: Vec<_> = list.iter().map(named).filter(|name| name != "null").collect();
        names.join(" or ")
    };
    match (&schema["type"], &schema["anyOf"]) {
        (Value::String(kind), _) => name(kind),
        (Value::Array(list), _) => names(list, &|kind| name(kind.as_str().unwrap_or("any"))),
        (_, Value::Array(list)) => names(list, &type_name),
        _ => "any".into(),
    }
}
