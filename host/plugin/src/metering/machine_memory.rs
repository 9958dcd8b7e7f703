//! The memory available to this process: the machine's, or the limit of its control group.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use shelly_core::limits;

/// The source of the figure for guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySource {
    /// The config, whose value is used as it is.
    Config,
    /// The config names more than the process can have; the figure is all that it can have.
    AllThereIs,
    /// The memory of the machine.
    Machine,
    /// The limit of this process's control group.
    ControlGroup,
    /// The system does not tell how much memory there is.
    Unknown,
    /// The memory that one call of a plugin may take, which is more than the plugins' part of the available memory.
    OneCall,
}

/// Returns the guest memory of all plugins together, in bytes, and its source. `named` is the value of the config,
/// `one_call` the total with which one call can have as much as it may.
pub fn total_guest_memory(named: Option<usize>, one_call: usize) -> (usize, MemorySource) {
    share_of(available_memory(), named, one_call)
}

fn share_of(available: Option<(u64, MemorySource)>, named: Option<usize>, one_call: usize) -> (usize, MemorySource) {
    if let Some(named) = named {
        // A config may come from somebody else: it must not let plugins take more than there is.
        let all = available.map_or(usize::MAX, |(all, _)| usize::try_from(all).unwrap_or(usize::MAX));
        return if named > all { (all, MemorySource::AllThereIs) } else { (named, MemorySource::Config) };
    }
    let (bytes, source) = available.map_or((limits::GUEST_MEMORY_BYTES, MemorySource::Unknown), |(bytes, source)| {
        (usize::try_from(bytes / limits::GUEST_MEMORY_PART).unwrap_or(usize::MAX), source)
    });
    let bytes = bytes.min(limits::GUEST_MEMORY_CEILING);
    if bytes < one_call { (one_call, MemorySource::OneCall) } else { (bytes, source) }
}

/// Reads how much memory this process can have, if the system tells.
fn available_memory() -> Option<(u64, MemorySource)> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| machine_memory(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let bounds = control_group_files(&groups).into_iter().filter_map(|path| control_group_bound(&read(&path)?));
    least(machine, bounds.min())
}

/// Reads the first kilobytes of a file that the kernel generates; the relevant lines are among them.
fn read(path: &Path) -> Option<String> {
    let mut bytes = vec![0; limits::KERNEL_FILE_BYTES];
    let length = fs::File::open(path).and_then(|mut file| file.read(&mut bytes)).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

fn least(machine: Option<u64>, group: Option<u64>) -> Option<(u64, MemorySource)> {
    match (machine, group) {
        // Systems without a limit write a number that is larger than any machine's memory.
        (Some(machine), Some(group)) if group < machine => Some((group, MemorySource::ControlGroup)),
        (Some(machine), _) => Some((machine, MemorySource::Machine)),
        (None, group) => group.map(|group| (group, MemorySource::ControlGroup)),
    }
}

/// Returns the machine's memory in bytes, from the text of `/proc/meminfo`.
fn machine_memory(text: &str) -> Option<u64> {
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix("kB")?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// Returns the files that may limit this process, from the text of `/proc/self/cgroup`: those of each of its groups of
/// version 2, of the memory groups of version 1, and of all groups above them. Within a container the paths may be
/// those of the machine, of which only the topmost exists.
fn control_group_files(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            controllers if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        // Such a group is outside the root of this process's namespace.
        let is_below = group.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let above = group.ancestors().filter(|_| is_below).map(|group| Path::new(root).join(group).join(file));
        files.extend(above.take(limits::CONTROL_GROUP_DEPTH));
        let uppermost = Path::new(root).join(file);
        if !files.contains(&uppermost) {
            files.push(uppermost);
        }
    }
    files
}

/// Parses the limit in such a file, in bytes.
fn control_group_bound(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn machine_memory_is_parsed_from_meminfo() {
        let text = "MemTotal:       16384000 kB\nMemFree:         1024 kB\n";
        assert_eq!(machine_memory(text), Some(16_384_000 << 10));
        for odd in ["", "MemTotal:\n", "MemTotal: many kB\n", "MemTotal: 12\n", "MemTotal: 18446744073709551615 kB\n"] {
            assert_eq!(machine_memory(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn control_group_limits_are_searched_upwards() {
        let files = |text: &str| -> Vec<String> {
            control_group_files(text).iter().map(|path| path.to_string_lossy().into_owned()).collect()
        };
        let second = "0::/user.slice/run.scope\n";
        let upwards = [
            "/sys/fs/cgroup/user.slice/run.scope/memory.max",
            "/sys/fs/cgroup/user.slice/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files(second), upwards);
        let first = "5:cpu:/a\n4:hugetlb,memory:/docker/b\n1:name=systemd:/\n";
        let upwards = [
            "/sys/fs/cgroup/memory/docker/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ];
        assert_eq!(files(first), upwards);
        // In another namespace only the file at the root can be found.
        assert_eq!(files("0::/../../x\n"), ["/sys/fs/cgroup/memory.max"]);
        assert!(files("").is_empty() && files("no group\n4:cpu:/\n").is_empty());
        let deep = format!("0::/{}\n", "a/".repeat(1_000));
        assert_eq!(files(&deep).len(), limits::CONTROL_GROUP_DEPTH + 1);
    }

    #[test]
    fn control_group_file_without_number_sets_no_limit() {
        assert_eq!(control_group_bound("2147483648\n"), Some(2 * GIB));
        for none in ["max\n", "", "0\n", "-1\n"] {
            assert_eq!(control_group_bound(none), None, "{none:?}");
        }
    }

    #[test]
    fn guest_memory_is_half_and_fits_one_call() {
        let share = |machine, group, one_call: u64| {
            let (bytes, source) = share_of(least(machine, group), None, one_call as usize);
            (bytes as u64, source)
        };
        assert_eq!(share(Some(16 * GIB), None, 1), (8 * GIB, MemorySource::Machine));
        assert_eq!(share(Some(16 * GIB), Some(4 * GIB), 1), (2 * GIB, MemorySource::ControlGroup));
        assert_eq!(share(Some(16 * GIB), Some(u64::MAX / 2), 1), (8 * GIB, MemorySource::Machine));
        assert_eq!(share(None, Some(4 * GIB), 1), (2 * GIB, MemorySource::ControlGroup));
        assert_eq!(share(None, None, 1), (limits::GUEST_MEMORY_BYTES as u64, MemorySource::Unknown));
        assert_eq!(share(Some(GIB / 4), None, GIB), (GIB, MemorySource::OneCall));
        assert_eq!(share(Some(u64::MAX), None, 1).0, limits::GUEST_MEMORY_CEILING as u64);
        let named = |machine, named: u64| share_of(least(machine, None), Some(named as usize), usize::MAX);
        assert_eq!(named(Some(GIB), GIB), (GIB as usize, MemorySource::Config));
        assert_eq!(named(Some(GIB), GIB + 1), (GIB as usize, MemorySource::AllThereIs));
        assert_eq!(named(None, GIB), (GIB as usize, MemorySource::Config));
        // The figure of this machine, whatever it is.
        let (bytes, _) = total_guest_memory(None, limits::GUEST_MEMORY_LEAST);
        assert!((limits::GUEST_MEMORY_LEAST..=limits::GUEST_MEMORY_CEILING).contains(&bytes), "{bytes}");
    }
}
