//! A small disk for the files of one server, which can become full.
//!
//! It is a file system in memory, mounted in a mount namespace of its own, which a process holds. So it needs no privilege
//! where the system allows user namespaces, and it is gone with that process.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::plan::BoxError;

/// The size of the disk while it has room. Only what is used takes memory.
const SIZE: &str = "2g";

/// The room that a full disk is left with, so that what is written while it is measured fits. If more is written, it is
/// measured again, with twice the room, at most so many times.
const LEFT: u64 = 32 << 10;
const MEASURED: u32 = 8;

/// The namespaces that are tried: those of a user without privileges, and those of root where no user has namespaces.
const NAMESPACES: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];

/// The disk.
pub struct SmallDisk {
    holder: Child,
    folder: PathBuf,
    is_of_user: bool,
}

impl SmallDisk {
    /// Mounts a disk at a folder, for processes that [`SmallDisk::command`] starts.
    ///
    /// # Errors
    ///
    /// An error if this system does not allow it.
    pub fn mount(folder: &Path) -> Result<Self, BoxError> {
        std::fs::create_dir_all(folder)?;
        let mount = format!("mount -t tmpfs -o size={SIZE},mode=700 tmpfs \"$0\" && echo ready && exec cat");
        for namespaces in NAMESPACES {
            let mut command = Command::new("unshare");
            command.args(namespaces).args(["--propagation", "private", "sh", "-c", &mount]).arg(folder);
            let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut disk =
                Self { holder: piped.spawn()?, folder: folder.to_owned(), is_of_user: namespaces.contains(&"--user") };
            let mut line = String::new();
            let output = disk.holder.stdout.take().ok_or("the process that holds the disk has no output")?;
            BufReader::new(output).read_line(&mut line)?;
            if line == "ready\n" {
                return Ok(disk);
            }
        }
        Err("neither user namespaces nor mounts are allowed here".into())
    }

    /// Returns the beginning of a command whose process sees the disk.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--mount"]);
        if self.is_of_user {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--").arg(program);
        command
    }

    /// Makes the disk as small as what it has.
    pub fn fill(&self) -> Result<(), BoxError> {
        let seen = Path::new("/proc").join(self.holder.id().to_string()).join("root");
        let seen = seen.join(self.folder.strip_prefix("/")?);
        let mut measured = 0;
        loop {
            let disk = rustix::fs::statvfs(&seen)?;
            let used = disk.f_blocks.saturating_sub(disk.f_bfree) * disk.f_frsize;
            let resized = self.resize(&(used + (LEFT << measured)).to_string());
            measured += 1;
            if resized.is_ok() || measured == MEASURED {
                return resized;
            }
        }
    }

    /// Gives the disk its room back.
    pub fn free(&self) -> Result<(), BoxError> {
        self.resize(SIZE)
    }

    fn resize(&self, size: &str) -> Result<(), BoxError> {
        let mut mount = self.command(Path::new("mount"));
        let output = mount.args(["-o", &format!("remount,size={size}")]).arg(&self.folder).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("the disk has no other size: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
