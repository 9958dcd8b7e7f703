use crate::{error::Report, limits};

/// Raises the number of files that this process may have open, so that `jobs` tasks can work at once. The usual limit is lower
/// than what the system allows, for the sake of programs that are no longer written.
///
/// # Errors
///
/// A [`Report`] if the system does not allow as many.
#[cfg(unix)]
pub(super) fn make_room_for(jobs: usize) -> Result<(), Report> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let wanted = limits::TASK_FILES * jobs as u64 + limits::TASK_FILES_BESIDE;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is no limit.
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let is_allowed = maximum.is_none_or(|maximum| maximum >= wanted);
    let raised = is_allowed && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok();
    if raised {
        return Ok(());
    }
    let fit = maximum.unwrap_or(wanted).saturating_sub(limits::TASK_FILES_BESIDE) / limits::TASK_FILES;
    let report =
        Report::new(crate::error::ErrorKind::Usage, format!("{jobs} concurrent tasks need {wanted} open files"));
    Err(report
        .cause(format!("the limit of this process is {}", maximum.unwrap_or(wanted)))
        .hint(format!("raise the limit with `ulimit -n`, or run fewer tasks at once: --jobs {}", fit.max(1))))
}

#[cfg(not(unix))]
pub(super) fn make_room_for(_: usize) -> Result<(), Report> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{Resource, getrlimit};

    use super::*;

    #[test]
    fn more_open_files_are_asked_for() {
        make_room_for(8).unwrap();
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(most >= 8 * limits::TASK_FILES + limits::TASK_FILES_BESIDE);
        // The kernel allows no process 2^40 open files.
        let report = make_room_for(1 << 40).unwrap_err();
        assert!(report.hint.unwrap().contains("--jobs "), "the mend is named");
    }
}
