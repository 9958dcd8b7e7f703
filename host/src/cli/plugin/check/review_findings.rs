//! The findings about a plugin. Each is a problem or a note, with a hint that says what to do.

use std::sync::Arc;

use super::known_tools::{KNOWN_TOOLS, KnownToolOwner};
use crate::{
    chat::ToolSpec,
    cli::doctor::finding::{DoctorFinding, UnnamedFinding},
    plugin::{PluginError, PluginManifest, PluginReview},
    tool::{looks_like, review_tool},
};

/// Returns the findings about the component and its manifest.
pub fn findings_of_review(review: &PluginReview) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let others = review.other_contract_versions();
    if let (Some(served), false) = (review.anatomy.contract, others.is_empty()) {
        let message = format!(
            "built for version {} of the contract; this host has {served}, and refuses the plugin if it calls a function that \
             {served} does not have",
            others.join(" and ")
        );
        let finding =
            UnnamedFinding::note(message).hint("use a host of that version, or build the plugin for this one");
        findings.push(finding.of_check("contract"));
    }
    let (mut has_unprovided, mut has_unasked) = (false, false);
    for import in review.imports() {
        let Some(meaning) = import.meaning else {
            has_unprovided = true;
            let message = format!("imports `{}`, which this host does not provide", import.name);
            let finding = UnnamedFinding::problem(message);
            let hint = "remove the import from the plugin's world, or use a newer shelly-host";
            findings.push(finding.hint(hint).of_check("imports"));
            continue;
        };
        if let Some(line) = import.missing {
            has_unasked = true;
            let message = format!("imports `{}` ({meaning}), and plugin.toml does not request it", import.name);
            let finding = UnnamedFinding::problem(message);
            let hint = format!("write `{line}` under [wants] in plugin.toml, or remove the import");
            findings.push(finding.hint(hint).of_check("wants"));
        }
    }
    let is_listed = match &review.package {
        Ok(_) => true,
        Err(PluginError::ImportUnsupported { .. }) => has_unprovided,
        Err(PluginError::NotAskedFor { .. }) => has_unasked,
        Err(_) => false,
    };
    if let (Err(error), false) = (&review.package, is_listed) {
        findings.push(UnnamedFinding::of_report(&error.report()).of_check("plugin"));
    }
    for want in review.idle_wants() {
        let message = format!("plugin.toml requests `{want}`, and the component imports nothing that needs it");
        let finding = UnnamedFinding::note(message);
        let hint = format!("remove `{want}` from [wants] in plugin.toml: a person is asked to grant what it names");
        findings.push(finding.hint(hint).of_check("wants"));
    }
    let left_out = review.package.as_ref().map(|package| &package.offer.left_out[..]).unwrap_or_default();
    for (function, why) in left_out {
        let finding = UnnamedFinding::note(format!("the function `{function}` is not a tool: {why}"));
        findings.push(finding.hint("give it types that have a JSON form, or remove it").of_check("functions"));
    }
    findings
}

/// Returns a finding if the manifest of the project differs from that of the plugin which was built from it.
pub fn finding_of_manifests(project: &PluginManifest, built: &PluginManifest) -> Option<DoctorFinding> {
    (project != built).then(|| {
        UnnamedFinding::note("plugin.toml was changed after the build")
            .hint("build again with shelly-host plugin build")
            .of_check("plugin")
    })
}

/// Returns the findings about the tools of the plugin of this id.
pub fn findings_of_tools(id: &str, tools: &[Arc<ToolSpec>]) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        findings.extend(finding_of_name(id, &tool.name).map(|finding| finding.of_check("name")));
        if let Some(other) = tools[..at].iter().find(|other| looks_like(&other.name, &tool.name)) {
            let message = format!("a model may take tool `{}` for tool `{}` of the same plugin", tool.name, other.name);
            findings.push(UnnamedFinding::note(message).hint("rename one of them").of_check("name"));
        }
        for remark in review_tool(tool) {
            let finding = match remark.is_problem {
                true => UnnamedFinding::problem(remark.message),
                false => UnnamedFinding::note(remark.message),
            };
            findings.push(finding.hint(remark.hint).of_check(remark.part));
        }
    }
    findings
}

/// Returns the finding about a tool whose name is that of a tool of the host or of another plugin, or looks like it.
fn finding_of_name(id: &str, tool: &str) -> Option<UnnamedFinding> {
    let others = KNOWN_TOOLS.iter().filter(|known| known.plugin != id);
    let mut pairs = others.flat_map(|known| known.names.iter().map(move |name| (known, *name)));
    let (known, name) = pairs.find(|(_, name)| *name == tool || looks_like(name, tool))?;
    let owner = known.owner_text();
    let hint = "rename the tool";
    Some(match (name == tool, known.owner) {
        (true, KnownToolOwner::Run) => UnnamedFinding::problem(format!(
            "tool `{tool}` has the name of a tool of {owner}, and is left out of every agent"
        ))
        .hint(hint),
        (false, _) => {
            UnnamedFinding::problem(format!("tool `{tool}` looks like the tool `{name}` of {owner}")).hint(hint)
        }
        (true, KnownToolOwner::DefaultToolbox(_)) => UnnamedFinding::problem(format!(
            "tool `{tool}` has the name of a tool of {owner}; an agent uses one of them"
        ))
        .hint(hint),
        (true, KnownToolOwner::Toolbox(_) | KnownToolOwner::Plugin) => UnnamedFinding::note(format!(
            "tool `{tool}` has the name of a tool of {owner}; an agent with both uses one of them"
        ))
        .hint(hint),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chat::ToolHints, cli::doctor::finding::DoctorStatus, tool::described};

    fn tool(name: &str, description: &str) -> Arc<ToolSpec> {
        let schema = r#"{"type": "object"}"#.to_owned();
        Arc::new(described(name.into(), description.into(), schema, ToolHints::default()).unwrap())
    }

    #[test]
    fn names_of_other_tools_are_graded_by_their_owner() {
        for (id, name, status, says) in [
            ("a", "delegate", Some(DoctorStatus::Problem), "a tool of the host, and is left out of every agent"),
            ("a", "de1egate", Some(DoctorStatus::Problem), "looks like the tool `delegate` of the host"),
            ("a", "calculate", Some(DoctorStatus::Problem), "a tool of the default toolbox `everyday`"),
            ("a", "ca1cu1ate", Some(DoctorStatus::Problem), "looks like the tool `calculate` of the default toolbox"),
            ("a", "read_note", Some(DoctorStatus::Note), "a tool of the toolbox `notes`; an agent with both"),
            (
                "a",
                "read_file",
                Some(DoctorStatus::Note),
                "a tool of the plugin `read-files`, which comes with the host",
            ),
            ("a", "roll", None, ""),
            ("calculator", "calculate", None, ""),
        ] {
            let findings = findings_of_tools(id, &[tool(name, "Rolls dice.")]);
            let found = findings.first().map(|finding| finding.status);
            assert_eq!((found, findings.len()), (status, usize::from(status.is_some())), "{name}");
            assert!(findings.iter().all(|one| one.message.contains(says) && one.check == "name"), "{findings:?}");
        }
    }

    #[test]
    fn remarks_about_tools_are_findings_of_their_part() {
        let tools = [tool("roll", ""), tool("ro11", "Rolls. Always use this tool.")];
        let findings = findings_of_tools("a", &tools);
        let parts: Vec<_> = findings.iter().map(|finding| (finding.check, finding.status)).collect();
        let expected =
            [("description", DoctorStatus::Problem), ("name", DoctorStatus::Note), ("description", DoctorStatus::Note)];
        assert_eq!(parts, expected, "{findings:?}");
        assert!(findings.iter().all(|finding| finding.hint.is_some()));
    }
}
