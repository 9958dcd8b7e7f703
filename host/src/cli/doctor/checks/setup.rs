//! Checks of the program itself, of the config, and of the person's consent to the project.

use crate::{
    cli::{
        build_info::BUILD,
        config_path::above,
        doctor::{doctor_context::DoctorContext, finding::UnnamedFinding},
        trust,
    },
    error::{Report, count},
};

/// The file in which Linux tells its version.
const KERNEL: &str = "/proc/sys/kernel/osrelease";

pub(super) fn version(_: &DoctorContext) -> Vec<UnnamedFinding> {
    let kernel = std::fs::read_to_string(KERNEL).unwrap_or_default();
    let system = format!("system    {} {} {}", std::env::consts::OS, kernel.trim(), std::env::consts::ARCH);
    let message = format!("shelly-host {}", BUILD.version);
    vec![UnnamedFinding::ok(message).details(BUILD.lines()).details([system])]
}

pub(super) fn config(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let path = context.path.as_ref().or(context.user_path.as_ref());
    let (Some(path), Some(config_check)) = (path, &context.config_check) else {
        let none = UnnamedFinding::note("no config: runs use one agent with the default toolboxes");
        return vec![match above() {
            Some(above) => none
                .details([format!("{} is the config of another folder and is not used", above.display())])
                .hint(format!("name it with --config {}, or create one here with shelly-host init", above.display())),
            None => none.hint("create one with shelly-host init"),
        }];
    };
    let place = path.display();
    let found = match (&context.path, &context.user_path) {
        (None, _) => "the user-wide config; this folder has none".to_owned(),
        (Some(_), None) => place_of(context).to_owned(),
        (Some(_), Some(user)) => format!("{}; with the user-wide config {}", place_of(context), user.display()),
    };
    let Some(first) = config_check.mistakes.first() else {
        let message = format!("{place} is valid ({found})");
        return vec![match config_check.warnings.is_empty() {
            true => UnnamedFinding::ok(message),
            false => {
                let message = format!("{place} can be used ({found}): {}", config_check.verdict());
                UnnamedFinding::note(message).details(config_check.warnings.clone())
            }
        }];
    };
    let told = |report: &Report| {
        let causes = report.causes.iter().map(|cause| format!("; {cause}")).collect::<String>();
        format!("{}{causes}", report.message)
    };
    let hint = first.hint.clone().unwrap_or_else(|| "run shelly-host config check".into());
    let problem = UnnamedFinding::problem(format!("{place} cannot be used ({found}): {}", config_check.verdict()));
    vec![problem.details(config_check.mistakes.iter().map(told)).details(config_check.warnings.clone()).hint(hint)]
}

/// Names the place of the project's config.
fn place_of(context: &DoctorContext) -> &'static str {
    match (context.is_named, context.is_above) {
        (true, _) => "named on the command line",
        (false, true) => "found above this folder",
        (false, false) => "found in this folder",
    }
}

pub(super) fn trust(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let standing = match &context.standing {
        Some(Ok(standing)) => standing,
        Some(Err(report)) => return vec![UnnamedFinding::of_report(report)],
        None => return vec![UnnamedFinding::note("unknown: the config cannot be used").hint("fix the config first")],
    };
    let facts = standing.facts();
    let finding = match (facts.is_empty(), standing.is_trusted()) {
        (true, _) if context.is_named => UnnamedFinding::ok("the config needs no consent because you named it"),
        (true, _) => UnnamedFinding::ok("the files of this project name nothing that needs consent"),
        (false, true) if facts.lines().all(|line| standing.is_own(line)) => UnnamedFinding::ok(
            "plugins in your own folders are trusted, and the files of this project name nothing else",
        ),
        (false, true) => UnnamedFinding::ok("the files of this project are trusted"),
        (false, false) => {
            let new = count(standing.new_facts().len() as u64, "entry", "entries");
            let what = standing.untrusted_in_words();
            let or = if standing.has_config() { ", or name the config with --config" } else { "" };
            UnnamedFinding::note(format!("{what}: {new} without your consent; nothing of the project is run"))
                .hint(format!("review and trust it with shelly-host config trust{or}"))
        }
    };
    let no_store = "your consent cannot be stored: neither XDG_STATE_HOME nor HOME is set to an absolute path";
    let unkept = trust::kept("trust.json").is_none().then(|| UnnamedFinding::note(no_store).hint("set HOME"));
    [finding].into_iter().chain(unkept).collect()
}
