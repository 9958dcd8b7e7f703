use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::render::{self, Output, escaped, say};
use crate::{
    capability::Grant,
    config,
    error::{ErrorKind, Report},
    plugin::{Plugin as Loaded, PluginCatalog, PluginEngine, PluginPackage, Settings},
};

#[derive(Subcommand)]
pub enum Plugin {
    /// List the plugins of the config's directories and of --plugins, the bad ones too.
    List {
        /// The config; without it .shelly/config.yaml or shelly.yaml, if there is one.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders; may be given several times.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// How to print them.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
    /// Show what a plugin is, what it imports and wants, and the tools that it has. It is run once, with nothing granted.
    Inspect {
        /// A plugin's folder, or a component.
        path: PathBuf,
        /// How to print it.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
}

/// How to print what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON value.
    Json,
}

impl Plugin {
    pub fn execute(self) -> u8 {
        let (result, output) = match self {
            Self::List { config, plugins, output } => (list(config.as_ref(), &plugins, output), output),
            Self::Inspect { path, output } => (inspect(&path, output), output),
        };
        result.unwrap_or_else(|report| {
            render::failed(&report, if output == Format::Json { Output::Json } else { Output::Text })
        })
    }
}

/// Lists them. A plugin that cannot be used makes the exit code say so.
fn list(config: Option<&PathBuf>, plugins: &[PathBuf], output: Format) -> Result<u8, Report> {
    let config = super::config(config)?;
    let mut directories: Vec<_> = config.plugin_dirs.iter().map(|directory| config.root.join(directory)).collect();
    directories.extend_from_slice(plugins);
    if directories.is_empty() {
        return Err(Report::new(ErrorKind::Usage, "there is no plugin directory")
            .hint("give one with --plugins, or name some under `plugin_dirs` in the config"));
    }
    let catalog = PluginCatalog::scan(&directories)?;
    match output {
        Format::Json => {
            let row = |(id, plugin): (&str, Result<&std::sync::Arc<PluginPackage>, _>)| match plugin {
                Ok(package) => summary(package),
                Err(error) => json!({ "id": id, "error": crate::plugin::PluginError::report(error) }),
            };
            say(&serde_json::Value::Array(catalog.iter().map(row).collect()).to_string());
        }
        Format::Text => {
            let width = catalog.iter().map(|(id, _)| id.chars().count()).max().unwrap_or(0);
            for (id, plugin) in catalog.iter() {
                match plugin {
                    Ok(package) => {
                        let kinds: Vec<_> = package.manifest.kinds.iter().map(|kind| kind.name()).collect();
                        let (kinds, about) = (kinds.join(", "), escaped(&package.manifest.description));
                        let (size, digest) = (size(package.size), &package.digest.to_string()[..12]);
                        say(&format!("{id:width$}  {kinds:16}  {size:>9}  {digest}  {about}"));
                    }
                    Err(_) => say(&format!("{:width$}  cannot be used", escaped(id))),
                }
            }
        }
    }
    let mut code = 0;
    for (_, plugin) in catalog.iter() {
        if let Err(error) = plugin {
            code = render::failed(&error.report(), Output::Text);
        }
    }
    Ok(code)
}

fn inspect(path: &Path, output: Format) -> Result<u8, Report> {
    let package = if path.is_dir() { PluginPackage::read(path) } else { PluginPackage::read_file(path) };
    let package = std::sync::Arc::new(package.map_err(|error| error.report())?);
    let manifest = &package.manifest;
    let engine = std::sync::Arc::new(PluginEngine::new(super::cache_directory())?);
    let settings = Settings {
        agent: "inspect".into(),
        place: "inspect".into(),
        // To link it; while it is asked for its tools only log and config work.
        grant: Grant::all_of(&manifest.wants, package.folder.clone()),
        params: config::params(&Default::default()),
        on_failure: Default::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Report::new(ErrorKind::Bug, "cannot start").cause(error))?;
    let plugin = runtime.block_on(Loaded::load(&engine, &package, &settings)).map_err(|error| error.report())?;

    if output == Format::Json {
        let mut value = summary(&package);
        value["tools"] = json!(plugin.tools().iter().collect::<Vec<_>>());
        say(&value.to_string());
        return Ok(0);
    }
    let list = |names: Vec<String>| if names.is_empty() { "nothing".to_owned() } else { names.join("\n             ") };
    let kinds = manifest.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    say(&format!("id           {}", escaped(&manifest.id)));
    for (name, text) in [("version", &manifest.version), ("about", &manifest.description)] {
        if !text.is_empty() {
            say(&format!("{name:12} {}", escaped(text)));
        }
    }
    say(&format!("kinds        {kinds}"));
    say(&format!("size         {} ({} bytes)", size(package.size), package.size));
    say(&format!("digest       sha256:{}", package.digest));
    say(&format!("imports      {}", list(package.anatomy.imports.iter().map(|name| escaped(name)).collect())));
    let wants = Grant::default().missing(&manifest.wants).into_iter().map(|missing| missing.line).collect();
    say(&format!("wants        {}", list(wants)));
    for spec in plugin.tools().iter() {
        let first = spec.description.lines().next().unwrap_or_default();
        say(&format!("tool         {}: {}", spec.name, escaped(first)));
        let schema: serde_json::Value = serde_json::from_str(spec.input_schema.get()).unwrap_or_default();
        let required = |name: &str| schema["required"].as_array().is_some_and(|list| list.iter().any(|item| item == name));
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let kind = property["type"].as_str().unwrap_or("any");
            let optional = if required(name) { "" } else { ", optional" };
            let about = property["description"].as_str().unwrap_or_default();
            say(&format!("               {} ({kind}{optional}) {}", escaped(name), escaped(about)));
        }
    }
    Ok(0)
}

fn summary(package: &PluginPackage) -> serde_json::Value {
    let manifest = &package.manifest;
    json!({
        "id": manifest.id,
        "version": manifest.version,
        "description": manifest.description,
        "kinds": manifest.kinds,
        "imports": package.anatomy.imports,
        "wants": manifest.wants,
        "phases": manifest.phases,
        "size": package.size,
        "digest": format!("sha256:{}", package.digest),
        "folder": package.folder,
    })
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
