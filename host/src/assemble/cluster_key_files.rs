//! The files with the keys for the content of a cluster, as they are on this host.

use super::App;
use crate::{
    cluster::ContentKey,
    config::ClusterEncryptionConfig,
    error::{ErrorKind, Report},
};

/// A key file that the config names under `encryption`.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterKeyFile {
    /// The place in the config, such as `cluster.encryption.old_keys[0]`.
    pub place: String,
    /// The id of its key; the reason for which it cannot be used, with what to do.
    pub id: Result<String, Report>,
}

impl App {
    /// Reads the key files of the config's cluster and of its further namespaces.
    pub fn cluster_key_files(&self) -> Vec<ClusterKeyFile> {
        let Some(cluster) = &self.config.cluster else { return Vec::new() };
        let own = cluster.encryption.iter().map(|encryption| (String::new(), encryption));
        let further = cluster.namespaces.iter().enumerate();
        let further = further.filter_map(|(n, of)| Some((format!("namespaces[{n}]."), of.encryption.as_ref()?)));
        own.chain(further).flat_map(|(at, encryption)| self.key_files(&at, encryption)).collect()
    }

    fn key_files(&self, at: &str, encryption: &ClusterEncryptionConfig) -> Vec<ClusterKeyFile> {
        let mut files: Vec<ClusterKeyFile> = Vec::new();
        for (n, key) in encryption.keys().enumerate() {
            let place = match n.checked_sub(1) {
                None => format!("cluster.{at}encryption.key"),
                Some(old) => format!("cluster.{at}encryption.old_keys[{old}]"),
            };
            let read = ContentKey::read(&self.config.root.join(&key.file));
            let id = read.map(|key| key.id()).map_err(|error| {
                let mut report = error.report();
                report.message = format!("{place}: {}", report.message);
                report
            });
            let same = files.iter().find(|before| id.is_ok() && before.id == id);
            let id = match same {
                Some(before) => {
                    let what = format!("{place}: the file has the same key as {}", before.place);
                    let hint = "name each key once; `shelly-host cluster key FILE` makes a new one";
                    Err(Report::new(ErrorKind::Usage, what).hint(hint))
                }
                None => id,
            };
            files.push(ClusterKeyFile { place, id });
        }
        files
    }
}
