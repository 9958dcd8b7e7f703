//! The config of a project with its plugins, as it goes to other hosts.

use std::{
    collections::BTreeSet,
    io::Read,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    app::App,
    cluster::ObjectStorage,
    config::{AgentConfig, Config, ToolboxUse},
    digest::Sha256Digest,
    error::{ErrorKind, Report, cut, legible, why_unreadable},
    files, limits,
    packages::{LockedAgentPackage, PackageError, PackagePlace},
    plugin::{PluginKind, PluginLocation},
};

/// The newest version of the format.
const VERSION: u32 = 1;

/// The file name of a manifest.
const MANIFEST: &str = "plugin.toml";

/// The config of a project, the agent packages that are installed in it, and the digests of the plugins that both name.
/// Plugins that come with the host, files of the project and credentials are no part of it: each host has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigBundle {
    version: u32,
    /// The text of the project's config.
    pub(super) config: String,
    /// The plugins, by their ids.
    pub(super) plugins: Vec<BundledPlugin>,
    /// The agent packages that the project's lock file names. Their texts are objects of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) agents: Vec<LockedAgentPackage>,
}

/// A plugin of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BundledPlugin {
    /// The id.
    pub id: String,
    /// A manifest and a component, or a component alone.
    pub files: Vec<BundledFile>,
}

/// A file of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BundledFile {
    /// The name, without a folder.
    pub name: String,
    /// The digest of the content, which is an object of its own.
    pub digest: Sha256Digest,
    /// The size in bytes.
    pub bytes: u64,
}

/// A bundle of this host that can be uploaded.
#[derive(Debug, Clone)]
pub struct PackedBundle {
    digest: Sha256Digest,
    list: Bytes,
    /// The files of the plugins and the texts of agents, with their digests.
    files: Vec<(Sha256Digest, PathBuf)>,
}

impl ConfigBundle {
    /// Packs the config of an app and the plugins that it names. The same config and plugins make the same bundle on every
    /// host.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a file cannot be read, or there are too many plugins.
    pub fn pack(app: &App) -> Result<PackedBundle, Report> {
        let config = match &app.config.file {
            Some(path) => Config::text_of(path)?.0,
            None => String::new(),
        };
        let (mut plugins, mut paths) = (Vec::new(), Vec::new());
        for id in named_plugins(app) {
            let Some(plugin) = app.catalog.entry(&id).filter(|plugin| !app.catalog.is_shipped(plugin)) else {
                continue;
            };
            let of_plugin = match plugin.location() {
                PluginLocation::Program(_) => continue,
                PluginLocation::File(path) => vec![path.clone()],
                PluginLocation::Folder(folder) => {
                    let component = plugin.written_manifest().map(|manifest| folder.join(&manifest.component));
                    std::iter::once(folder.join(MANIFEST)).chain(component).collect()
                }
            };
            let mut files = Vec::new();
            for path in of_plugin {
                let bytes = read_bounded(&path)?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let digest = Sha256Digest::of(&bytes);
                files.push(BundledFile { name, digest, bytes: bytes.len() as u64 });
                paths.push((digest, path));
            }
            plugins.push(BundledPlugin { id, files });
        }
        if plugins.len() > limits::CLUSTER_BUNDLE_PLUGINS {
            let what = format!("the config uses {} plugins that do not come with the host", plugins.len());
            return Err(Report::new(ErrorKind::Usage, "the config cannot be sent to other hosts")
                .cause(format!("{what}, more than {}", limits::CLUSTER_BUNDLE_PLUGINS))
                .hint("name under `plugin_dirs` a folder with the plugins that agents use alone"));
        }
        let agents = pack_agents(&app.config.root, &mut paths)?;
        let list = serde_json::to_vec(&Self { version: VERSION, config, plugins, agents });
        let list = list.map_err(|error| Report::new(ErrorKind::Bug, "cannot pack the config").cause(error))?;
        Ok(PackedBundle { digest: Sha256Digest::of(&list), list: list.into(), files: paths })
    }

    /// Parses the list of a bundle that another host has packed.
    ///
    /// # Errors
    ///
    /// The reason why this host cannot use it.
    pub(super) fn parse(list: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct BundleVersion {
            version: u32,
        }
        let unreadable = |error: serde_json::Error| format!("the config bundle cannot be read: {error}");
        let BundleVersion { version } = serde_json::from_slice(list).map_err(unreadable)?;
        if version > VERSION {
            return Err(format!(
                "the config bundle has version {version}, and this host reads up to version {VERSION}; update \
                 shelly-host on it"
            ));
        }
        let bundle: Self = serde_json::from_slice(list).map_err(unreadable)?;
        bundle.check().map(|()| bundle)
    }

    /// Returns the objects that the bundle names.
    pub(super) fn objects(&self) -> impl Iterator<Item = Sha256Digest> {
        let of_plugins = self.plugins.iter().flat_map(|plugin| plugin.files.iter().map(|file| file.digest));
        of_plugins.chain(self.agents.iter().flat_map(LockedAgentPackage::texts).map(|(_, digest)| digest))
    }

    /// Checks names and sizes: they become paths on this host.
    fn check(&self) -> Result<(), String> {
        let shown = |name: &str| cut(&legible(name), limits::NAME_SHOWN_CHARS);
        if self.config.len() as u64 > limits::CONFIG_BYTES {
            return Err(format!("the config of the bundle has more than {} bytes", limits::CONFIG_BYTES));
        }
        if self.plugins.len() > limits::CLUSTER_BUNDLE_PLUGINS {
            return Err(format!("the bundle has more than {} plugins", limits::CLUSTER_BUNDLE_PLUGINS));
        }
        if self.agents.len() > limits::LOCKED_AGENT_PACKAGES {
            return Err(format!("the bundle has more than {} agent packages", limits::LOCKED_AGENT_PACKAGES));
        }
        if self.agents.iter().map(|package| package.texts().count()).sum::<usize>() > limits::CLUSTER_BUNDLE_TEXTS {
            return Err(format!(
                "the agent packages of the bundle have more than {} texts",
                limits::CLUSTER_BUNDLE_TEXTS
            ));
        }
        let files = self.plugins.iter().flat_map(|plugin| &plugin.files);
        if files.fold(0_u64, |sum, file| sum.saturating_add(file.bytes)) > limits::CLUSTER_BUNDLE_PLUGIN_BYTES {
            let most = limits::CLUSTER_BUNDLE_PLUGIN_BYTES;
            return Err(format!("the plugins of the bundle have more than {most} bytes together"));
        }
        let (mut ids, mut unpacked) = (BTreeSet::new(), BTreeSet::new());
        for BundledPlugin { id, files } in &self.plugins {
            let is_id = (1..=64).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
            if !is_id || !ids.insert(id) {
                return Err(format!(
                    "the bundle has a plugin with the id `{}`, which is no id or not the only one",
                    shown(id)
                ));
            }
            let is_whole = match &files[..] {
                [component] => !is_manifest(&component.name),
                [manifest, component] => manifest.name == MANIFEST && !is_manifest(&component.name),
                _ => false,
            };
            if !is_whole {
                return Err(format!("the plugin `{id}` of the bundle is not a component with at most a manifest"));
            }
            if let Some(file) = files.iter().find(|file| !is_file_name(&file.name)) {
                return Err(format!("the plugin `{id}` of the bundle has a file called `{}`", shown(&file.name)));
            }
            // Where each is unpacked, in one folder: on some systems capital letters make no difference.
            let name = if let [component] = &files[..] { &component.name } else { id };
            if !unpacked.insert(name.to_ascii_lowercase()) {
                return Err(format!("the bundle has several plugins called `{name}`"));
            }
            if let Some(file) = files.iter().find(|file| file.bytes > limits::COMPONENT_BYTES) {
                let most = limits::COMPONENT_BYTES;
                return Err(format!("`{}` of the plugin `{id}` has more than {most} bytes", file.name));
            }
        }
        Ok(())
    }
}

impl BundledPlugin {
    /// Returns the digest of the component.
    pub fn component(&self) -> Option<Sha256Digest> {
        self.files.iter().find(|file| file.name != MANIFEST).map(|file| file.digest)
    }
}

impl PackedBundle {
    /// Returns the digest, by which other hosts get the bundle.
    pub fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// Stores the bundle and its plugins where other hosts get them. What is there already is not sent again.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a file has changed, or the server does not take it.
    pub async fn upload(&self, objects: &ObjectStorage) -> Result<(), Report> {
        for (digest, path) in &self.files {
            if objects.contains(digest).await.map_err(|error| error.report())? {
                continue;
            }
            let bytes = read_bounded(path)?;
            if Sha256Digest::of(&bytes) != *digest {
                let what = format!("{} was changed while it was packed", legible(&path.display().to_string()));
                return Err(Report::new(ErrorKind::Usage, what).hint("run the command again"));
            }
            objects.put(bytes.into()).await.map_err(|error| error.report())?;
        }
        // Last, so that whoever has the list gets everything that it names.
        objects.put(self.list.clone()).await.map(drop).map_err(|error| error.report())
    }
}

/// Returns the agent packages of the project in this folder, and adds the paths of their texts.
fn pack_agents(root: &Path, paths: &mut Vec<(Sha256Digest, PathBuf)>) -> Result<Vec<LockedAgentPackage>, Report> {
    let place = PackagePlace::of_project(root);
    if place.lock_file().symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    let report = |error: PackageError| error.report();
    let lock = place.read_lock().map_err(report)?;
    for package in lock.agents() {
        // The config of this app has its agents, so the texts are there; they are checked all the same.
        let texts = place.store.read_agent(package).map_err(report)?.unwrap_or_default();
        let folder = place.store.folder(&package.digest);
        paths.extend(texts.iter().map(|(path, text)| (Sha256Digest::of(text), folder.join(path))));
    }
    Ok(lock.agents().cloned().collect())
}

/// Returns the ids of the plugins that agents or models of a config may use, in order.
fn named_plugins(app: &App) -> BTreeSet<String> {
    let config = &app.config;
    let of_agents = config.everyone().flat_map(AgentConfig::all_plugins).map(|(_, id, _)| id);
    let of_models = config.providers.iter().filter_map(|provider| provider.plugin.as_deref());
    let of_toolboxes = config.toolboxes.iter().filter_map(ToolboxUse::shipped);
    let of_toolboxes = of_toolboxes.flat_map(|uses| uses.plugins.keys().map(String::as_str));
    // Where the config names no agents or no models, any plugin in its directories can be used.
    let any = app.catalog.iter().filter_map(|(id, plugin)| {
        let kinds = plugin.written_manifest().map(|manifest| &manifest.kinds);
        let as_model = config.providers.is_empty() && kinds.is_none_or(|kinds| kinds.contains(&PluginKind::Provider));
        let as_other = config.agents.is_empty() && kinds.is_none_or(|kinds| *kinds != [PluginKind::Provider]);
        (as_model || as_other).then_some(id)
    });
    of_agents.chain(of_models).chain(of_toolboxes).chain(any).map(str::to_owned).collect()
}

/// Returns `true` if a file of this name is the manifest, on some systems also in capital letters.
fn is_manifest(name: &str) -> bool {
    name.eq_ignore_ascii_case(MANIFEST)
}

/// Returns `true` if this is the plain name of a file.
fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=128).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// Reads a file of a plugin.
pub(super) fn read_bounded(path: &Path) -> Result<Vec<u8>, Report> {
    let shown = legible(&path.display().to_string());
    let cannot = |why: String| Report::new(ErrorKind::Usage, format!("cannot read {shown}")).cause(why);
    let mut bytes = Vec::new();
    files::open(path)
        .and_then(|file| file.take(limits::COMPONENT_BYTES.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(|error| cannot(why_unreadable(&error)).hint("check the path and its permissions"))?;
    match bytes.len() as u64 > limits::COMPONENT_BYTES {
        true => Err(cannot(format!("it has more than {} bytes", limits::COMPONENT_BYTES)).hint("use a smaller plugin")),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(plugins: serde_json::Value) -> Result<ConfigBundle, String> {
        ConfigBundle::parse(json!({"version": 1, "config": "", "plugins": plugins}).to_string().as_bytes())
    }

    #[test]
    fn bundle_of_others_is_refused_with_its_fault() {
        let digest = Sha256Digest::of("").to_string();
        let file = |name: &str| json!({"name": name, "digest": digest, "bytes": 1});
        let plugin = |id: &str, names: &[&str]| {
            let files: Vec<_> = names.iter().map(|name| file(name)).collect();
            json!({"id": id, "files": files})
        };
        // Each is as large as a component may be.
        let large = |id: &str| {
            let file = json!({"name": id, "digest": digest, "bytes": limits::COMPONENT_BYTES});
            json!({"id": id, "files": [file]})
        };
        assert_eq!(
            parsed(json!([plugin("p", &["plugin.toml", "c.wasm"]), plugin("q", &["q.wasm"])])).unwrap().plugins.len(),
            2
        );
        for (plugins, why) in [
            (json!([plugin("../p", &["c.wasm"])]), "with the id `../p`"),
            (json!([plugin("p", &["c.wasm"]), plugin("p", &["c.wasm"])]), "not the only one"),
            (json!([plugin("p", &["../c.wasm"])]), "has a file called `../c.wasm`"),
            (json!([plugin("p", &[".c"])]), "has a file called `.c`"),
            (json!([plugin("p", &[])]), "is not a component with at most a manifest"),
            (json!([plugin("p", &["plugin.toml"])]), "is not a component with at most a manifest"),
            (json!([plugin("p", &["plugin.toml", "Plugin.toml"])]), "is not a component with at most a manifest"),
            (json!([plugin("p", &["c.wasm"]), plugin("q", &["C.wasm"])]), "has several plugins called `C.wasm`"),
            (json!([plugin("p", &["q"]), plugin("q", &["plugin.toml", "c"])]), "has several plugins called `q`"),
            (json!([large("p"), large("q"), large("r")]), "the plugins of the bundle have more than"),
            (
                json!([{"id": "p", "files": [{"name": "c", "digest": digest, "bytes": limits::COMPONENT_BYTES + 1}]}]),
                "more than",
            ),
            (json!(vec![plugin("p", &["c"]); limits::CLUSTER_BUNDLE_PLUGINS + 1]), "more than 64 plugins"),
            (json!(7), "cannot be read"),
        ] {
            let refused = parsed(plugins).unwrap_err();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        let newer = ConfigBundle::parse(br#"{"version": 2, "more": true}"#).unwrap_err();
        assert!(newer.contains("has version 2, and this host reads up to version 1"), "{newer}");
    }

    #[test]
    fn texts_of_all_agents_of_a_bundle_are_bounded() {
        let digest = Sha256Digest::of("").to_string();
        let bundle = |texts: usize| {
            let files: serde_json::Map<String, serde_json::Value> =
                (0..texts).map(|n| (format!("skills/s/{n}.md"), json!(digest))).collect();
            let agent = json!({
                "id": "a", "version": "1.0.0", "digest": digest, "source": "./a", "runners": [], "files": files,
            });
            let list = json!({"version": 1, "config": "", "plugins": [], "agents": [agent]});
            ConfigBundle::parse(list.to_string().as_bytes())
        };
        assert!(bundle(limits::CLUSTER_BUNDLE_TEXTS).is_ok());
        let refused = bundle(limits::CLUSTER_BUNDLE_TEXTS + 1).unwrap_err();
        assert!(refused.contains("have more than 512 texts"), "{refused}");
    }
}
