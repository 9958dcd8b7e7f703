use std::{
    io,
    path::{Path, PathBuf},
};

use shelly_core::{
    digest::Sha256Digest,
    error::{ErrorKind, Fault, Report, legible, why_unreadable},
    limits,
};
use shelly_net::mend;

/// The reason why a package cannot be installed or used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum PackageError {
    /// A file or folder cannot be read or written.
    #[error("cannot {action} {}", shown(path))]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// A file is a link that leads out of the package's folder.
    #[error("{} is a link that leads out of the package's folder", shown(path))]
    LeadsOut { path: PathBuf },
    /// A file is larger than the bound for reading it.
    #[error("{} has more than {most} bytes", legible(of))]
    TooLarge { of: String, most: u64 },
    /// A file that must be text is not.
    #[error("{} is not UTF-8 text", legible(of))]
    NotText { of: String },
    /// A file has a name that an installed plugin cannot have.
    #[error("`{}` is not a file name that an installed plugin can have", legible(name))]
    FileName { name: String },
    /// A lock file cannot be used.
    #[error("cannot use the lock file {}", shown(path))]
    Lock { path: PathBuf, message: String },
    /// The text does not name where a package comes from.
    #[error("`{}` is not the source of a package", legible(text))]
    Source { text: String, why: String },
    /// A file has other bytes than the lock file names.
    #[error("{} is {found}, but the lock file names {locked}", shown(path))]
    Altered { path: PathBuf, locked: Sha256Digest, found: Sha256Digest },
    /// A registry did not give or take an artifact.
    #[error("cannot {verb} {}", legible(reference))]
    Registry { verb: &'static str, reference: String, registry: String, fault: Fault },
    /// A server did not give a file.
    #[error("cannot get {}", legible(url))]
    Download { url: String, fault: Fault },
    /// An index of plugins cannot be used.
    #[error("cannot use the index {}", legible(of))]
    Index { of: String, why: String },
    /// A registry has something else than a package of the wanted sort, or breaks the protocol.
    #[error("cannot use {}", legible(reference))]
    Artifact { reference: String, why: String },
    /// A registry sends bytes with another digest than the named one.
    #[error("{} was altered: its registry gives {found} in place of {named}", legible(reference))]
    OtherBlob { reference: String, named: Sha256Digest, found: Sha256Digest },
    /// A plugin lacks a signature that `plugin_signatures` in a config requires.
    #[error("the plugin `{}` must not be installed: {why}", legible(id))]
    Unsigned { id: String, why: String },
    /// The logins at registries cannot be read.
    #[error("cannot get a login from {}", legible(of))]
    Logins { of: String, why: String },
    /// A file is there that the lock file does not name.
    #[error("{} is not a file that the lock file names", shown(path))]
    Unlocked { path: PathBuf },
    /// A link leads to the packages of a store, and with it every change of the store.
    #[error("{} is a link, and what is installed here must not be written and removed elsewhere", shown(path))]
    LinkedStore { path: PathBuf },
    /// An agent package has a file that no package may have, lacks a required file, or has a mistake in its manifest.
    #[error("cannot use the agent package {}", legible(of))]
    AgentPackage { of: String, why: String },
}

impl PackageError {
    /// The hint for a package that lacks a required signature.
    pub const SIGNATURE_MEND: &str = "get a signed one from its author, or add the author's key to `require` under \
                                      `plugin_signatures` in the config";

    /// Returns a function for `map_err` that adds the operation and the path to an error of the operating system.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// Returns the report for a person: message, causes and hint.
    pub fn report(&self) -> Report {
        let report = |kind| Report::new(kind, self.to_string());
        match self {
            Self::File { source, .. } => report(ErrorKind::Usage)
                .cause(why_unreadable(source))
                .hint("check the path and its permissions, then run the command again"),
            Self::LinkedStore { .. } => {
                report(ErrorKind::Usage).hint("nothing was changed; look where the link leads, and put a folder in its place")
            }
            Self::LeadsOut { .. } => report(ErrorKind::Plugin).hint("replace the link with the file"),
            Self::TooLarge { .. } => {
                report(ErrorKind::Plugin).hint("check that this is the right file; build a component with --release")
            }
            Self::NotText { .. } => report(ErrorKind::Plugin).hint("report this to the author of the package"),
            Self::FileName { .. } => report(ErrorKind::Plugin).hint(format!(
                "use 1 to {} letters, digits, `.`, `_` and `-`, not beginning with `.`; a component ends with `.wasm`",
                limits::PACKAGE_FILE_NAME_CHARS
            )),
            Self::Lock { message, .. } => report(ErrorKind::Usage).cause(message).hint(
                "take the file from version control again, or delete it and install its plugins anew with \
                 `shelly-host plugin install`",
            ),
            Self::Source { why, .. } => report(ErrorKind::Usage).cause(why).hint(
                "name a folder, a component file or an agent.toml, the https:// URL of a plugin.toml, .wasm or agent.toml, \
                 oci://REGISTRY/NAME:TAG, or an id from the index",
            ),
            Self::Registry { fault, registry, .. } => {
                let report = report(ErrorKind::Run).cause(fault);
                let registry = legible(registry);
                match fault {
                    Fault::Denied { .. } => report.hint(format!(
                        "log in with `docker login {registry}` or `podman login {registry}`, and check the name"
                    )),
                    Fault::NotFound { .. } => report.hint("check the name and the tag"),
                    fault => report.hint(mend(fault).unwrap_or("check the address, and try again later")),
                }
            }
            Self::Download { fault, .. } => {
                let hint = mend(fault).unwrap_or("check the address, and try again later");
                report(ErrorKind::Run).cause(fault).hint(hint)
            }
            Self::Index { why, .. } => report(ErrorKind::Usage).cause(why).hint(
                "an index is a JSON file {\"plugins\": [{\"id\": …, \"description\": …, \"source\": …}]}; name it with --index, or \
                 as `plugin_index` in your user-wide config",
            ),
            Self::Artifact { why, .. } => report(ErrorKind::Plugin).cause(why).hint("check the name and the tag"),
            Self::OtherBlob { .. } => report(ErrorKind::Plugin).hint(
                "nothing was installed; report this to whoever runs the registry, or get the plugin from elsewhere",
            ),
            Self::Unsigned { .. } => report(ErrorKind::Plugin).hint(Self::SIGNATURE_MEND),
            Self::Logins { why, .. } => report(ErrorKind::Usage)
                .cause(why)
                .hint("correct it, or name another file in REGISTRY_AUTH_FILE or DOCKER_CONFIG"),
            Self::AgentPackage { why, .. } => {
                report(ErrorKind::Plugin).cause(why).hint("correct the package, or report this to its author")
            }
            Self::Altered { .. } | Self::Unlocked { .. } => report(ErrorKind::Plugin).hint(
                "`shelly-host plugin install` without a name fetches what the lock file names; `shelly-host plugin \
                 update` shows what a newer plugin changes, and takes it if you agree; for an agent package they are \
                 `shelly-host agent install` and `shelly-host agent update`",
            ),
        }
    }
}

/// Returns a path for a message.
pub(crate) fn shown(path: &Path) -> String {
    legible(&path.display().to_string())
}
