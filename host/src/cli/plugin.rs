use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Subcommand;
use serde_json::json;

use super::{
    ask,
    command_runtime::runtime,
    config_path::read_config,
    host_environment::{compiling, environment, plugin_dirs},
    render::{self, RunOutputFormat, json_line, name, print},
    trust,
};
use crate::{
    app::App,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    capability::Grant,
    config::Config,
    error::{ErrorKind, Report},
    limits,
    plugin::{
        CatalogEntry, CompileStep, ComponentCompiler, FolderMount, Plugin as Loaded, PluginCatalog, PluginDirs,
        PluginEngine, PluginError, PluginPackage, PluginSettings, resolved,
    },
};

#[derive(Subcommand)]
pub enum PluginCommand {
    /// List the plugins of the config's `plugin_dirs` and of --plugins, or the installed ones if neither is given.
    ///
    /// Unusable plugins are listed too, with the reason on standard error and exit code 3.
    List {
        /// The config file (default: .shelly/config.yaml or shelly.yaml).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders; repeatable.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// The output format.
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
        output: CliOutputFormat,
    },
    /// Show a plugin's manifest, its imports, the capabilities that it asks for, and its tools.
    ///
    /// Starts the plugin once in its sandbox, without any grant, to list its tools.
    Inspect {
        /// A plugin's folder, a component file, or the id of a listed plugin.
        plugin: PathBuf,
        /// The config in which the id is looked up (default: .shelly/config.yaml or shelly.yaml).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders in which the id is looked up; repeatable.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// The output format.
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
        output: CliOutputFormat,
    },
    /// Print what a plugin can reach for an agent, as JSON.
    ///
    /// Links the plugin to its grants in the config and instantiates it; as before a run, you are asked first to trust what the
    /// files of the project name. Each import has a state. `satisfied`: linked to what `grant` says. `refused`: not linked.
    /// `powerless`: gives access to nothing, because the plugin uses only its types, or because it belongs to the base
    /// interfaces of WASI that plugin.toml declares. `capability` is what the config must grant for the import; an import
    /// without it comes with the plugin's kind. Exit code 3: the plugin does not run, and the certificate says why.
    Certify {
        /// The plugin's id.
        id: String,
        /// The agent (default: the entry agent of the config, or the first agent that has the plugin).
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Certify the plugin as the model of this name.
        #[arg(long, value_name = "NAME", conflicts_with = "agent")]
        model: Option<String>,
        /// The config file (default: .shelly/config.yaml or shelly.yaml).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders; repeatable.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// Trust the project's config and permissions for this command without asking; see shelly-host config trust.
        #[arg(long)]
        trust: bool,
    },
}

/// The output format for plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CliOutputFormat {
    /// For people.
    Text,
    /// One JSON value.
    Json,
}

impl PluginCommand {
    pub fn execute(self) -> u8 {
        let (result, output) = match self {
            Self::List { config, plugins, output } => (list(config.as_ref(), &plugins, output), output),
            Self::Inspect { plugin, config, plugins, output } => {
                (inspect(&plugin, config.as_ref(), &plugins, output), output)
            }
            Self::Certify { id, agent, model, config, plugins, trust } => {
                let whose = (agent.as_deref(), model.as_deref());
                (certify(&id, whose, config.as_ref(), &plugins, trust), CliOutputFormat::Json)
            }
        };
        result.unwrap_or_else(|report| {
            render::failed(
                &report,
                if output == CliOutputFormat::Json { RunOutputFormat::Json } else { RunOutputFormat::Text },
            )
        })
    }
}

/// Returns the catalog of plugins to list.
fn catalog(config: Option<&PathBuf>, plugins: &[PathBuf]) -> Result<PluginCatalog, Report> {
    catalog_of(&read_config(config)?, plugins)
}

/// Returns the catalog of plugins to list for a config.
pub fn catalog_of(config: &Config, plugins: &[PathBuf]) -> Result<PluginCatalog, Report> {
    let PluginDirs { named, shipped, standard, .. } = plugin_dirs(plugins);
    let directories = config.plugin_directories(&named);
    let installed = [config.user.plugin_dirs.clone(), standard].concat();
    let catalog = PluginCatalog::scan(&directories, &Arc::new(compiling().into()))?;
    let mut catalog = catalog.with_shipped(shipped, installed.clone());
    // Without a named directory it has the plugins that a config can name by their id alone.
    if directories.is_empty() {
        catalog.add_all(&[vec![config.root.join(".shelly/plugins")], installed].concat());
    }
    Ok(catalog)
}

/// Lists the plugins. Returns an exit code that is not 0 if one of them cannot be used.
fn list(config: Option<&PathBuf>, plugins: &[PathBuf], output: CliOutputFormat) -> Result<u8, Report> {
    let catalog = catalog(config, plugins)?;
    if catalog.iter().next().is_none() {
        return Err(Report::new(ErrorKind::Usage, "there is no plugin directory")
            .hint("name a plugin directory with --plugins, or under `plugin_dirs` in the config"));
    }
    runtime()?.block_on(catalog.open(catalog.iter().map(|(id, _)| id), CompileStep::Validate));
    match output {
        CliOutputFormat::Json => {
            let row = |(id, plugin): (&str, &CatalogEntry)| match plugin.package() {
                Ok(package) => summary(package),
                Err(error) => json!({ "id": id, "error": PluginError::report(error) }),
            };
            print(&json_line(&catalog.iter().map(row).collect::<Vec<_>>()))?;
        }
        CliOutputFormat::Text => {
            let mut rows = vec![["PLUGIN", "KINDS", "SIZE", "WANTS", "ABOUT"].map(str::to_owned)];
            rows.extend(catalog.iter().map(|(id, plugin)| match plugin.package() {
                Ok(package) => {
                    let manifest = &package.manifest;
                    let kinds: Vec<_> = manifest.kinds.iter().map(|kind| kind.name()).collect();
                    // Imports that a language runtime needs anyway are no request of the plugin.
                    let wanted = Grant::default().missing(&manifest.wants).into_iter();
                    let wanted = wanted.filter(|_| !manifest.wants_are_optional).map(|missing| missing.capability);
                    let wants: Vec<_> = wanted.chain(manifest.wasi.then(|| "wasi (powerless)".into())).collect();
                    let (kinds, wants, about) = (kinds.join(", "), wants.join(", "), name(&manifest.description));
                    [id.into(), kinds, size(package.size), if wants.is_empty() { "-".into() } else { wants }, about]
                }
                Err(_) => [name(id), "unusable".into(), String::new(), String::new(), String::new()],
            }));
            let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            let (plugin, kinds, size, wants) = (width(0), width(1), width(2), width(3));
            let rows = rows.iter().map(|[id, of_kinds, of_size, wanted, about]| {
                let row = format!("{id:plugin$}  {of_kinds:kinds$}  {of_size:>size$}  {wanted:wants$}  {about}");
                row.trim_end().to_owned()
            });
            print(&rows.collect::<Vec<_>>().join("\n"))?;
        }
    }
    let mut code = 0;
    for (_, plugin) in catalog.iter() {
        if let Err(error) = plugin.package() {
            code = render::failed(&error.report(), RunOutputFormat::Text);
        }
    }
    Ok(code)
}

/// Returns the plugin at this path, or the one with this id in the catalog.
async fn package(
    path: &Path,
    config: Option<&PathBuf>,
    plugins: &[PathBuf],
    compiler: &Arc<ComponentCompiler>,
) -> Result<Arc<PluginPackage>, Report> {
    if !path.exists() {
        let (mut catalog, id) = (catalog(config, plugins)?, path.to_string_lossy());
        catalog.set_compiler(compiler);
        catalog.open([&*id], CompileStep::Compile).await;
        return match catalog.get(&id) {
            Some(listed) => listed.map(Arc::clone).map_err(PluginError::report),
            None => {
                let message = format!("there is no file, folder or plugin `{}`", path.display());
                Err(Report::new(ErrorKind::Usage, message).hint(
                    "name a plugin's folder, a component file, or an id from shelly-host plugin list; --plugins adds a directory \
                     of plugins",
                ))
            }
        };
    }
    if path.is_dir() && !path.join("plugin.toml").exists() {
        return Err(Report::new(ErrorKind::Usage, format!("there is no plugin.toml in {}", path.display()))
            .hint("name a plugin's folder; for a directory of plugins use shelly-host plugin list --plugins"));
    }
    let package = PluginPackage::open(path, compiler, CompileStep::Compile).await;
    package.map(Arc::new).map_err(|error| error.report())
}

fn inspect(path: &Path, config: Option<&PathBuf>, plugins: &[PathBuf], output: CliOutputFormat) -> Result<u8, Report> {
    let compiler = Arc::new(ComponentCompiler::from(compiling()));
    let (package, plugin) = runtime()?.block_on(async {
        let package = package(path, config, plugins, &compiler).await?;
        let manifest = &package.manifest;
        let engine = Arc::new(PluginEngine::with_stack(Arc::clone(&compiler), limits::PLUGIN_STACK_BYTES)?);
        // A plugin inside the program has no folder.
        let folder = resolved(package.location.folder().unwrap_or(Path::new(".")));
        let settings = PluginSettings {
            // The grant is only for linking: while the tools are queried, only log and config calls work.
            grant: Grant::all_of(&manifest.wants, folder.clone()),
            mounts: vec![FolderMount { path: folder, name: ".".into() }],
            ..PluginSettings::new("inspect", "inspect")
        };
        let plugin = Loaded::load(&engine, &package, &settings).await.map_err(|error| error.report())?;
        Ok::<_, Report>((package, plugin))
    })?;
    show(&package, &plugin, output)
}

fn show(package: &PluginPackage, plugin: &Loaded, output: CliOutputFormat) -> Result<u8, Report> {
    let manifest = &package.manifest;
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
    print(&lines.join("\n"))?;
    Ok(0)
}

fn certify(
    id: &str,
    (agent, model): (Option<&str>, Option<&str>),
    config: Option<&PathBuf>,
    plugins: &[PathBuf],
    is_trusted: bool,
) -> Result<u8, Report> {
    let is_named = config.is_some();
    let (config, broker) =
        (read_config(config)?, ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default()));
    let app = App::new(config, plugin_dirs(plugins), compiling(), environment(), broker)?;
    let standing = app.standing(&trust::store(), is_named)?;
    let certificate = runtime()?.block_on(async {
        // Certifying runs code of the plugin.
        trust::admitted(&standing, is_trusted, ask::is_attended()).await?;
        match model {
            Some(model) => app.certify_model(model).await,
            None => app.certify(agent, id).await,
        }
    })?;
    if certificate.plugin != id {
        return Err(Report::new(
            ErrorKind::Usage,
            format!("the model is the plugin `{}`, not `{}`", certificate.plugin, name(id)),
        )
        .hint(format!("write `plugin certify {}`", certificate.plugin)));
    }
    print(&json_line(&certificate))?;
    Ok(if certificate.runs { 0 } else { ErrorKind::Plugin.exit_code() })
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

/// Formats a number of bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
