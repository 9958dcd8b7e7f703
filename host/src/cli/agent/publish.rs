//! `shelly-host agent publish`.

use std::path::PathBuf;

use clap::Args;

use crate::{
    app::skill_names,
    cli::{
        command_runtime::runtime,
        plugin::packages::{FetchedPackage, PackageFetcher, PackageInspector, artifact_named, package_folder},
        render::{name, print, size},
    },
    config::{AgentPackageConfig, Config},
    error::{ErrorKind, Report},
    packages::{
        AgentPackageArtifact, AgentPackageFiles, ContainedPlugin, PackageError, PackagePlace, PackageSource,
        PluginPackageFiles,
    },
};

/// Publish a package of agents in an OCI registry.
///
/// The folder has an agent.toml that names its files: agents.yaml with agents and teams, skills/NAME/SKILL.md, and plugins/ID with
/// built plugins. They are checked as before an installation. Nothing of them runs. Logs in with what `docker login` or `podman login`
/// has stored.
#[derive(Args)]
#[command(after_help = "\
Example:
  shelly-host agent publish reviewer oci://ghcr.io/me/reviewer:1.0.0")]
pub struct AgentPublishArgs {
    /// The package's folder, or its agent.toml.
    #[arg(value_name = "PACKAGE")]
    path: PathBuf,
    /// The name of the artifact: oci://REGISTRY/NAME:TAG.
    #[arg(value_name = "ARTIFACT")]
    artifact: String,
}

impl AgentPublishArgs {
    /// Publishes the package.
    pub fn publish(&self) -> Result<u8, Report> {
        let report = |error: PackageError| error.report();
        let reference = artifact_named(&self.artifact, "oci://ghcr.io/me/reviewer:1.0.0")?;
        let folder = package_folder(&self.path);
        let files = AgentPackageFiles::read(folder).map_err(report)?;
        let signature = PluginPackageFiles::read_signature(folder).map_err(report)?;
        runtime()?.block_on(async {
            self.check(&files).await?;
            let (id, version, bytes) = (files.manifest().id.clone(), files.manifest().version.clone(), files.size());
            let (artifact, package) = (AgentPackageArtifact { files, signature }, reference.to_string());
            let fetcher = PackageFetcher::new()?;
            let digest = fetcher.registries().push_agent(&reference, &artifact).await.map_err(report)?;
            let digest_of_files = artifact.files.digest();
            print(&format!(
                "published    {package}\nartifact     {digest}\npackage      `{id}` {version} ({digest_of_files}, {})",
                size(bytes)
            ))?;
            Ok(0)
        })
    }

    /// Checks the agents, skills and plugins as whoever installs the package will.
    async fn check(&self, files: &AgentPackageFiles) -> Result<(), Report> {
        let report = |error: PackageError| error.report();
        let package = package_folder(&self.path);
        let agents = package.join(AgentPackageFiles::CONFIG_FILE);
        AgentPackageConfig::parse(files.config(), &agents.display().to_string())?;
        let folder = tempfile::tempdir().map_err(|error| {
            Report::new(ErrorKind::Run, "cannot create a folder to check the package in")
                .cause(error)
                .hint("check TMPDIR")
        })?;
        let (place, config) = (PackagePlace::of_person(folder.path()), Config::default());
        let staged = place.store.stage_agent(files).map_err(report)?;
        skill_names(&staged.plugin().join(AgentPackageFiles::SKILLS))?;
        let inspector = PackageInspector::new(&place, &config);
        for ContainedPlugin { id, files, signature } in files.plugins().map_err(report)? {
            let source = PackageSource::Path(package.join("plugins").join(&id));
            let fetched = FetchedPackage { files, tools: None, artifact: None, signature };
            let candidate = inspector.inspect(&source, fetched).await?;
            if candidate.locked.id != id {
                let found = name(&candidate.locked.id);
                let message = format!("the plugin in plugins/{id} has the id `{found}`");
                return Err(Report::new(ErrorKind::Plugin, message).hint(format!("call its folder plugins/{found}")));
            }
        }
        Ok(())
    }
}
