//! `shelly-host plugin publish`.

use std::{path::PathBuf, sync::Arc};

use clap::Args;

use super::package_fetch::{PackageFetcher, files_at, signature_at};
use crate::{
    cli::{
        command_runtime::runtime,
        host_environment::compiling,
        plugin::inspect::load_to_list,
        render::{name, print, size},
    },
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    packages::{OciReference, PluginPackageArtifact, PluginPackageFiles, RecordedTool},
    plugin::{CompileStep, Plugin as Loaded, PluginEngine, PluginKind, PluginPackage},
};

/// Publish a plugin in an OCI registry, as an artifact from which other tools can pull its component too.
///
/// The plugin is checked as before a run, and started once in its sandbox, so that its tools can be recorded: whoever updates to
/// it sees which have changed. Logs in with what `docker login` or `podman login` has stored.
#[derive(Args)]
#[command(after_help = "\
Example:
  shelly-host plugin publish build/dice oci://ghcr.io/me/dice:1.0.0")]
pub struct PluginPublishArgs {
    /// A plugin's folder or a component file.
    #[arg(value_name = "PLUGIN")]
    path: PathBuf,
    /// The name of the artifact: oci://REGISTRY/NAME:TAG.
    #[arg(value_name = "ARTIFACT")]
    artifact: String,
}

impl PluginPublishArgs {
    /// Publishes the plugin.
    pub fn publish(&self) -> Result<u8, Report> {
        let reference = artifact_named(&self.artifact, "oci://ghcr.io/me/dice:1.0.0")?;
        let engine = Arc::new(PluginEngine::new(compiling())?);
        runtime()?.block_on(async {
            let files = files_at(&self.path)?;
            let package = PluginPackage::open(&self.path, engine.compiler(), CompileStep::Compile).await;
            let package = Arc::new(package.map_err(|error| error.report())?);
            if package.digest != Sha256Digest::of(files.component()) {
                let message = format!("{} was changed while it was read", name(&self.path.display().to_string()));
                return Err(Report::new(ErrorKind::Plugin, message).hint("run the command again after the build"));
            }
            let plugin = load_to_list(&package, &engine).await?;
            let signature = signature_at(&self.path)?;
            let artifact = PluginPackageArtifact { signature, ..artifact_of(&package, &plugin, &files) };
            let fetcher = PackageFetcher::new()?;
            let digest = fetcher.registries().push(&reference, &artifact).await.map_err(|error| error.report())?;
            print(&format!(
                "published    {reference}\nartifact     {digest}\ncomponent    {} ({})",
                package.named_digest(),
                size(package.size)
            ))?;
            Ok(0)
        })
    }
}

/// Parses the name of an artifact to be published. `example` is one.
pub fn artifact_named(text: &str, example: &str) -> Result<OciReference, Report> {
    let parsed = OciReference::parse(text).unwrap_or_else(|| Err("it does not begin with oci://".to_owned()));
    parsed.map_err(|why| {
        Report::new(ErrorKind::Usage, format!("`{}` is not the name of an artifact", text.escape_debug()))
            .cause(why)
            .hint(format!("name it as oci://REGISTRY/NAME:TAG, such as {example}"))
    })
}

/// Returns the artifact of a plugin that has listed its tools.
fn artifact_of(package: &PluginPackage, plugin: &Loaded, files: &PluginPackageFiles) -> PluginPackageArtifact {
    let manifest = &package.manifest;
    let exported = manifest.kinds.iter().filter(|kind| **kind != PluginKind::Functions);
    let tools = plugin.tools().iter().map(|spec| RecordedTool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        schema: (*spec.input_schema).to_owned(),
    });
    PluginPackageArtifact {
        title: manifest.id.clone(),
        version: manifest.version.clone(),
        component: files.component().to_vec(),
        manifest: files.manifest().map(str::to_owned),
        wit: files.wit().map(str::to_owned),
        signature: None,
        imports: package.anatomy.imports.clone(),
        exports: exported.filter_map(|kind| Some(package.anatomy.contract?.qualified(kind.name()))).collect(),
        tools: Some(tools.collect()),
    }
}
