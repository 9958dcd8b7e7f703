use crate::{
    cli::file_limit,
    error::{ErrorKind, Report},
    limits,
};

/// Raises the number of files that this process may have open, so that `jobs` tasks can work at once.
///
/// # Errors
///
/// A [`Report`] if the system does not allow as many.
pub(super) fn make_room_for(jobs: usize) -> Result<(), Report> {
    let wanted = limits::TASK_FILES * jobs as u64 + limits::TASK_FILES_BESIDE;
    let allowed = file_limit::raise_to(wanted);
    if allowed >= wanted {
        return Ok(());
    }
    let fit = allowed.saturating_sub(limits::TASK_FILES_BESIDE) / limits::TASK_FILES;
    Err(Report::new(ErrorKind::Usage, format!("{jobs} concurrent tasks need {wanted} open files"))
        .cause(format!("the limit of this process is {allowed}"))
        .hint(format!("raise the limit with `ulimit -n`, or run fewer tasks at once: --jobs {}", fit.max(1))))
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
