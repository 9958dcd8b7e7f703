//! The number of files that this process may have open.

/// Lets this process have `wanted` files open, or as many as the system allows it, and returns that number. The usual limit is
/// lower than what the system allows, for the sake of programs that are no longer written.
#[cfg(unix)]
pub(super) fn raise_to(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is no limit.
    let Some(current) = current.filter(|current| *current < wanted) else { return wanted };
    let most = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }) {
        Ok(()) => most,
        Err(_) => current,
    }
}

#[cfg(not(unix))]
pub(super) fn raise_to(wanted: u64) -> u64 {
    wanted
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{Resource, getrlimit};

    use super::*;

    #[test]
    fn limit_of_open_files_is_raised_as_far_as_allowed() {
        let maximum = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let allowed = raise_to(512);
        assert_eq!(allowed, maximum.min(512));
        assert!(getrlimit(Resource::Nofile).current.is_none_or(|current| current >= allowed));
        // The kernel allows no process 2^40 open files.
        assert!(raise_to(1 << 40) < 1 << 40);
    }
}
