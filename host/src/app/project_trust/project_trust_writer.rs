use super::permission_facts::{GIT_READING, command_fact, domain_fact, folder_fact, line, tool_fact};
use crate::{
    approval::{PermissionSubject, TrustPersistence},
    assemble::domain_of,
    error::Fault,
    project::{ProjectLayout, ProjectPermissions},
    trust::{ProjectTrust, TrustStore, TrustedTool},
};

/// Stores trusted subjects for a project.
pub(super) struct ProjectTrustWriter {
    pub layout: ProjectLayout,
    pub store: TrustStore,
}

/// Adds an entry to the permissions.
type PermissionsEdit = Box<dyn Fn(&mut ProjectPermissions)>;

impl TrustPersistence for ProjectTrustWriter {
    fn keep(&self, subject: &PermissionSubject) -> Result<(), Fault> {
        // A project without this folder stores no permissions at all.
        if !self.layout.local().is_dir() {
            return Ok(());
        }
        let command = |name: String| {
            let fact = command_fact(&name);
            (Box::new(move |there: &mut ProjectPermissions| add(&mut there.trusted_commands, &name)) as _, fact, None)
        };
        let (allow, fact, tool): (PermissionsEdit, _, _) = match subject.clone() {
            PermissionSubject::Tool { agent, origin, name, digest } => {
                let tool = TrustedTool { agent, origin, name, digest };
                let line = line(&tool);
                let fact = tool_fact(&line);
                (Box::new(move |permissions| add(&mut permissions.trusted_tools, &line)), fact, Some(tool))
            }
            PermissionSubject::Folder { path } => {
                let fact = folder_fact(&path);
                (Box::new(move |permissions| add(&mut permissions.fs_directories, &path)), fact, None)
            }
            PermissionSubject::Server { url } => {
                let domain = domain_of(&url).to_owned();
                let fact = domain_fact(&domain);
                (Box::new(move |permissions| add(&mut permissions.trusted_domains, &domain)), fact, None)
            }
            PermissionSubject::Program { name } => command(name),
            PermissionSubject::GitReading => command(GIT_READING.into()),
            // The plugin alone knows the scope of a topic. It is trusted as long as this process runs.
            PermissionSubject::Topic { .. } | PermissionSubject::Change { .. } => return Ok(()),
        };
        let mut written = Ok(());
        // Both are written together: a line without consent in the store would count as somebody else's.
        let kept = self.store.change(self.layout.root(), |answered| {
            written = ProjectPermissions::change(&self.layout, &allow);
            if written.is_ok() {
                answered.permissions.add(fact.0, fact.1.clone());
                tool.iter().for_each(|tool| insert(answered, tool));
            }
        });
        written.map_err(|error| Fault::other(error.report().to_string()))?;
        kept.map_err(|error| Fault::other(error.report().to_string()))
    }
}

/// Adds an entry to a list if it is missing.
fn add<T: PartialEq + Clone>(list: &mut Vec<T>, one: &T) {
    if !list.contains(one) {
        list.push(one.clone());
    }
}

/// Adds a trusted tool, and removes an earlier version of it.
pub(super) fn insert(answered: &mut ProjectTrust, tool: &TrustedTool) {
    let is_same = |known: &TrustedTool| (&known.agent, line(known)) == (&tool.agent, line(tool));
    answered.tools.retain(|known| !is_same(known));
    answered.tools.push(tool.clone());
}
