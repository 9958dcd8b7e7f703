//! Gets the files of a plugin from where it comes from.

use std::{
    env,
    path::{Path, PathBuf},
};

use url::Url;

use crate::{
    cli::{render::name, user_config_path::home},
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    files::{self, folder_of},
    limits,
    net::HttpClient,
    packages::{
        LockedTool, OciReference, PackageError, PackageIndex, PackageSource, PluginPackageArtifact, PluginPackageFiles,
        RecordedTool, RegistryClient, RegistryLogins, download,
    },
    plugin::{PluginError, PluginManifest},
};

/// The files of a plugin, as they came.
pub struct FetchedPackage {
    /// The files.
    pub files: PluginPackageFiles,
    /// The tools, as far as whoever has published the plugin has recorded them.
    pub tools: Option<Vec<LockedTool>>,
    /// The digest of the manifest in a registry.
    pub artifact: Option<Sha256Digest>,
    /// The signature of the list of the files. It has not been verified.
    pub signature: Option<String>,
}

/// Gets plugins. One fetcher serves a whole command.
pub struct PackageFetcher {
    http: HttpClient,
    registries: RegistryClient,
}

impl PackageFetcher {
    /// Creates a fetcher that logs in at registries as docker and podman do.
    ///
    /// # Errors
    ///
    /// A [`Report`] if TLS cannot be set up.
    pub fn new() -> Result<Self, Report> {
        let http = HttpClient::new();
        let http = http.map_err(|fault| Report::new(ErrorKind::Run, "cannot reach any server").cause(fault))?;
        let registries = RegistryClient::new(http.clone(), RegistryLogins::new(login_files()));
        Ok(Self { http, registries })
    }

    /// Returns the client of registries.
    pub fn registries(&self) -> &RegistryClient {
        &self.registries
    }

    /// Gets a plugin.
    pub async fn fetch(&self, source: &PackageSource) -> Result<FetchedPackage, Report> {
        match source {
            PackageSource::Path(path) => {
                let (files, signature) = (files_at(path)?, signature_at(path)?);
                Ok(FetchedPackage { files, tools: None, artifact: None, signature })
            }
            PackageSource::Url(url) => {
                let (files, signature) = (self.files_from(url).await?, self.signature_from(url).await?);
                Ok(FetchedPackage { files, tools: None, artifact: None, signature })
            }
            PackageSource::Oci(reference) => {
                let pulled = self.registries.pull(reference).await;
                let (digest, mut artifact) = pulled.map_err(|error| error.report())?;
                let signature = artifact.signature.take();
                let tools = artifact.tools.as_deref().map(|tools| tools.iter().map(RecordedTool::locked).collect());
                let files = files_of(reference, artifact)?;
                Ok(FetchedPackage { files, tools, artifact: Some(digest), signature })
            }
        }
    }
}

impl PackageFetcher {
    /// Reads an index of plugins from a path or an address.
    pub async fn index(&self, of: &str) -> Result<PackageIndex, Report> {
        let bytes = match Url::parse(of).ok().filter(|_| of.contains("://")) {
            Some(url) => self.file(&url, limits::PACKAGE_INDEX_BYTES).await?,
            None => {
                let text = files::read(Path::new(of), folder_of(Path::new(of)), limits::PACKAGE_INDEX_BYTES);
                let unreadable = |error| {
                    let message = format!("cannot read the index {}", name(of));
                    Report::new(ErrorKind::Usage, message).cause(error).hint("check --index, or `plugin_index`")
                };
                text.map_err(unreadable)?.into_bytes()
            }
        };
        PackageIndex::parse(of, &bytes).map_err(|error| error.report())
    }

    /// Gets a file that must be there.
    pub(super) async fn file(&self, url: &Url, most: u64) -> Result<Vec<u8>, Report> {
        let bytes = download(&self.http, url, most).await.map_err(|error| error.report())?;
        bytes.ok_or_else(|| {
            Report::new(ErrorKind::Run, format!("there is no {}", name(url.as_str()))).hint("check the address")
        })
    }

    /// Gets a component and, if the address is that of a manifest, the manifest that names it.
    async fn files_from(&self, url: &Url) -> Result<PluginPackageFiles, Report> {
        let report = |error: PackageError| error.report();
        let last = url.path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default();
        if last.ends_with(".wasm") {
            return PluginPackageFiles::new(last, self.file(url, limits::COMPONENT_BYTES).await?).map_err(report);
        }
        let manifest = self.file(url, limits::MANIFEST_BYTES).await?;
        let component = component_of(&String::from_utf8_lossy(&manifest), url.as_str())?;
        let bytes = self.file(&beside(url, &component), limits::COMPONENT_BYTES).await?;
        PluginPackageFiles::new(&component, bytes).and_then(|files| files.with_manifest(manifest)).map_err(report)
    }

    /// Gets the signature beside a plugin; `None` if the server has none there, or answers with something else.
    pub(super) async fn signature_from(&self, url: &Url) -> Result<Option<String>, Report> {
        let url = beside(url, PluginPackageFiles::SIGNATURE_FILE);
        let bytes = download(&self.http, &url, limits::PLUGIN_SIGNATURE_BYTES).await;
        let bytes = match bytes {
            // A page that says that there is nothing.
            Err(PackageError::TooLarge { .. }) => None,
            bytes => bytes.map_err(|error| error.report())?,
        };
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.filter(|text| text.starts_with("untrusted comment:")))
    }
}

/// Returns the address of another file in the folder of this one, or in a folder below it.
pub(super) fn beside(url: &Url, file: &str) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop().extend(file.split('/'));
    }
    url
}

/// Returns the file name of the component that a manifest names. `of` names the manifest.
fn component_of(manifest: &str, of: &str) -> Result<String, Report> {
    let parsed = PluginManifest::parse(manifest).map_err(|mistake| {
        Report::new(ErrorKind::Plugin, format!("invalid plugin.toml in {}", name(of)))
            .cause(mistake)
            .hint("report this to the author of the plugin")
    })?;
    Ok(parsed.component)
}

/// Returns the files with logins at registries: those of podman, then that of docker.
fn login_files() -> Vec<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config")));
    let of_docker = set("DOCKER_CONFIG").or_else(|| home().map(|home| home.join(".docker")));
    let files = [
        set("REGISTRY_AUTH_FILE"),
        set("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
        config.map(|folder| folder.join("containers/auth.json")),
        of_docker.map(|folder| folder.join("config.json")),
    ];
    files.into_iter().flatten().collect()
}

/// Returns the files of an artifact. A component without a manifest is named after its repository.
fn files_of(reference: &OciReference, artifact: PluginPackageArtifact) -> Result<PluginPackageFiles, Report> {
    let PluginPackageArtifact { component, manifest, wit, .. } = artifact;
    let report = |error: PackageError| error.report();
    let component_name = match &manifest {
        Some(text) => component_of(text, &reference.to_string())?,
        None => format!("{}.wasm", reference.short_name()),
    };
    let mut files = PluginPackageFiles::new(&component_name, component).map_err(report)?;
    if let Some(text) = manifest {
        files = files.with_manifest(text.into_bytes()).map_err(report)?;
    }
    match wit {
        Some(text) => files.with_wit(text.into_bytes()).map_err(report),
        None => Ok(files),
    }
}

/// Reads the signature beside a plugin, if there is one.
pub(super) fn signature_at(path: &Path) -> Result<Option<String>, Report> {
    let folder = if path.is_dir() { path } else { folder_of(path) };
    PluginPackageFiles::read_signature(folder).map_err(|error| error.report())
}

/// Reads the files of a plugin folder, or of a component file; a file that a manifest beside it names as its component is that
/// plugin.
pub(super) fn files_at(path: &Path) -> Result<PluginPackageFiles, Report> {
    let (folder, component, has_manifest) = match path.is_dir() {
        true => {
            let manifest = PluginManifest::read(path).map_err(|error| error.report())?;
            if !path.join(&manifest.component).is_file() {
                let message = format!("there is no component {} in {}", manifest.component, path.display());
                return Err(Report::new(ErrorKind::Usage, message).hint(format!(
                    "`shelly-host plugin build` builds the plugin of a project; then name its folder build/{}",
                    manifest.id
                )));
            }
            (path, manifest.component, true)
        }
        false => {
            let component = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let has_manifest = match PluginManifest::read(folder_of(path)) {
                Ok(manifest) => manifest.component == component,
                Err(PluginError::NoManifest { .. }) => false,
                // It may name the file.
                Err(error) if path.exists() => return Err(error.report()),
                Err(_) => false,
            };
            (folder_of(path), component, has_manifest)
        }
    };
    PluginPackageFiles::read(folder, &component, has_manifest).map_err(|error| error.report())
}
