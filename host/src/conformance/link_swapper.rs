//! Link races: paths in the folder of an attack become links that lead out of it, from one moment to the next.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crate::limits;

/// Paths, and the links that they are exchanged with.
const PAIRS: [(&str, &str); 2] = [("raced", "raced-link"), ("raced.txt", "raced-link.txt")];

/// A thread that exchanges paths of a folder with links that lead out of it. On drop each path is back in its place.
pub struct LinkSwapper {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LinkSwapper {
    /// Starts to exchange.
    ///
    /// # Errors
    ///
    /// An error, if the system cannot exchange two paths at once, or cannot start a thread.
    pub fn start(folder: PathBuf) -> io::Result<Self> {
        let swap = move || PAIRS.iter().try_for_each(|(path, link)| exchange(&folder.join(path), &folder.join(link)));
        // Twice, to find a system that cannot exchange and to restore the order.
        swap()?;
        swap()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let swapping = move || {
            let mut is_swapped = false;
            while is_swapped || !over.load(Ordering::Relaxed) {
                if swap().is_err() {
                    return;
                }
                is_swapped = !is_swapped;
                thread::sleep(limits::CONFORMANCE_SWAP_PAUSE);
            }
        };
        let thread = thread::Builder::new().name("link-swaps".into()).spawn(swapping)?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for LinkSwapper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A panic of the thread has left a path in the wrong place, which the fixture notices.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(target_os = "linux")]
fn exchange(path: &std::path::Path, link: &std::path::Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, path, CWD, link, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &std::path::Path, _: &std::path::Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "two paths can be exchanged atomically only on Linux"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{collections::BTreeSet, fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn link_swapper_exposes_a_reader_that_follows_links() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for folder in ["files", "files/raced", "outside"] {
            fs::create_dir(path(folder)).unwrap();
        }
        fs::write(path("outside/secret.txt"), "secret").unwrap();
        fs::write(path("files/raced/secret.txt"), "inside").unwrap();
        fs::write(path("files/raced.txt"), "inside").unwrap();
        symlink("../outside", path("files/raced-link")).unwrap();
        symlink("../outside/secret.txt", path("files/raced-link.txt")).unwrap();

        let swaps = LinkSwapper::start(path("files")).unwrap();
        for raced in ["files/raced/secret.txt", "files/raced.txt"] {
            let mut read = BTreeSet::new();
            while read.len() < 2 {
                read.extend(fs::read_to_string(path(raced)));
            }
            assert_eq!(read.into_iter().collect::<Vec<_>>(), ["inside", "secret"]);
        }
        drop(swaps);
        assert!(path("files/raced").is_dir() && !path("files/raced").is_symlink());
        assert_eq!(fs::read_link(path("files/raced-link.txt")).unwrap(), PathBuf::from("../outside/secret.txt"));
        assert!(LinkSwapper::start(path("outside")).is_err());
    }
}
