//! The lines of a project's permissions: as facts that a person consents to, and as subjects that are not asked about.

use std::path::Path;

use crate::{
    approval::PermissionSubject,
    project::ProjectPermissions,
    trust::{RiskLevel, TrustFacts, TrustedTool, quoted, quoted_path},
};

/// The entry among trusted commands for reading the repository with git. No program can have this name.
pub(super) const GIT_READING: &str = "git (reading)";

/// Returns the subject of an entry among the trusted commands.
pub(super) fn of_command(command: &str) -> PermissionSubject {
    match command {
        GIT_READING => PermissionSubject::GitReading,
        name => PermissionSubject::Program { name: name.to_owned() },
    }
}

/// Returns the fact for an entry among the trusted commands.
pub(super) fn command_fact(command: &str) -> (RiskLevel, String) {
    match command {
        GIT_READING => (RiskLevel::Reads, "permissions: git may read the repository without asking you".into()),
        name => (RiskLevel::Runs, format!("permissions: the program {} may be run", quoted(name))),
    }
}

/// Returns the facts of permissions, one line each, for all of their keys.
pub(super) fn permission_facts(permissions: &ProjectPermissions) -> TrustFacts {
    // Keys of another version have no effect in this one.
    let ProjectPermissions { fs_directories, trusted_commands, trusted_domains, trusted_tools, other: _ } = permissions;
    let command = |name: &String| command_fact(name);
    let folders = fs_directories.iter().map(|path| folder_fact(path));
    let commands = trusted_commands.iter().map(command);
    let domains = trusted_domains.iter().map(|name| domain_fact(name));
    folders.chain(commands).chain(domains).chain(trusted_tools.iter().map(|line| tool_fact(line))).collect()
}

/// Returns the fact for a folder.
pub(super) fn folder_fact(path: &Path) -> (RiskLevel, String) {
    (RiskLevel::Changes, format!("permissions: {} may be read and changed", quoted_path(path)))
}

/// Returns the fact for a server.
pub(super) fn domain_fact(name: &str) -> (RiskLevel, String) {
    (RiskLevel::Reads, format!("permissions: the server {} may be contacted", quoted(name)))
}

/// Returns the fact for a tool.
pub(super) fn tool_fact(line: &str) -> (RiskLevel, String) {
    (RiskLevel::Changes, format!("permissions: the tool {} may be called without asking you", quoted(line)))
}

/// Returns the line for a tool in the permissions, in the form that other programs read, too.
pub(super) fn line(tool: &TrustedTool) -> String {
    format!("{}/{}", tool.origin, tool.name)
}

/// Returns the subject of a trusted tool.
pub(super) fn subject(tool: &TrustedTool) -> PermissionSubject {
    let TrustedTool { agent, origin, name, digest } = tool.clone();
    PermissionSubject::Tool { agent, origin, name, digest }
}
