//! The folders that MCP servers are told of: those of the config, and those that a person approves.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;
use url::Url;

use crate::{files, mcp::McpRoot};

/// The servers that are told of folders.
#[derive(Default)]
pub struct Roots(Mutex<Vec<RootsSubscriber>>);

/// A server that is told of folders.
struct RootsSubscriber {
    folders: Vec<PathBuf>,
    sender: watch::Sender<Arc<[McpRoot]>>,
}

impl Roots {
    /// Subscribes a server to its own folders, the approved ones, and those that are approved later.
    pub fn watch(&self, own: Vec<PathBuf>, approved: Vec<PathBuf>) -> watch::Receiver<Arc<[McpRoot]>> {
        let folders = [own, approved].concat();
        let (sender, receiver) = watch::channel(Self::of(&folders));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(RootsSubscriber { folders, sender });
        receiver
    }

    /// Tells all servers of one more folder that the person has approved permanently.
    pub fn approve(&self, folder: &Path) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|told| !told.sender.is_closed());
        for RootsSubscriber { folders, sender } in all.iter_mut() {
            folders.push(folder.to_owned());
            let roots = Self::of(folders);
            sender.send_if_modified(|before| {
                let is_new = *before != roots;
                *before = roots;
                is_new
            });
        }
    }

    fn of(folders: &[PathBuf]) -> Arc<[McpRoot]> {
        let mut roots: Vec<McpRoot> = Vec::new();
        for folder in folders {
            let folder = files::resolved(folder);
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            let Ok(uri) = Url::from_directory_path(&folder) else { continue };
            let root = McpRoot { uri: uri.as_str().trim_end_matches('/').into(), name };
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        roots.into()
    }
}
