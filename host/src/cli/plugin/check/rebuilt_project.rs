//! Two builds of a project, and their comparison.

use std::path::Path;

use shelly_author::rebuild_twice;

use super::super::{
    build::{ReadProject, build_environment, show_tool_line},
    cancelled_work::cancelled_with,
};
use crate::{cli::doctor::finding::UnnamedFinding, digest::Sha256Digest, error::Report};

/// Builds a project twice, each time in an empty folder, and compares the two components with each other and with the
/// checked one, whose digest is `built`.
///
/// # Errors
///
/// A [`Report`] if it cannot be built.
pub async fn finding_of_rebuild(
    folder: &Path,
    is_release: bool,
    built: Sha256Digest,
) -> Result<UnnamedFinding, Report> {
    let ReadProject { project, .. } = ReadProject::read(folder)?;
    let environment = build_environment();
    let digests = cancelled_with(move |cancellation| {
        rebuild_twice(&project, &environment, is_release, cancellation, &mut show_tool_line)
    });
    let digests = digests.await.map_err(|error| error.report())?;
    Ok(compared(digests, built, is_release))
}

/// Compares the digests of two builds with each other and with that of the checked component.
fn compared([first, second]: [Sha256Digest; 2], built: Sha256Digest, is_release: bool) -> UnnamedFinding {
    if first != second {
        let digests = [first, second].map(|digest| format!("built {digest}"));
        return UnnamedFinding::problem("two builds of the same sources made different components").details(digests).hint(
            "find what differs: the time, random numbers, an order of files or of a map, the name of a temporary file",
        );
    }
    if first == built {
        return UnnamedFinding::ok("two builds from nothing made exactly this component");
    }
    let other = if is_release { "without --release" } else { "with --release" };
    let message = "two builds from nothing made the same component, which is not the one that was checked";
    UnnamedFinding::note(message).details([format!("checked {built}"), format!("built {first}")]).hint(format!(
        "build it again with shelly-host plugin build, or run this check {other} if it was built that way"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::{DoctorFinding, DoctorStatus};

    #[test]
    fn two_builds_are_compared_with_the_checked_component() {
        let [one, two] = [b"one", b"two"].map(Sha256Digest::of);
        for (builds, built, status) in [
            ([one, one], one, DoctorStatus::Ok),
            ([one, one], two, DoctorStatus::Note),
            ([one, two], one, DoctorStatus::Problem),
        ] {
            let finding: DoctorFinding = compared(builds, built, true).of_check("rebuild");
            assert_eq!(finding.status, status, "{finding:?}");
            assert_eq!(finding.hint.is_some(), status != DoctorStatus::Ok, "{finding:?}");
        }
    }
}
