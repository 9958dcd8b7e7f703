//! Resources that the agents of one run share: blackboards, the task board, notes, and the approval broker.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{apis::ReachedApis, mcp::GrantedServers, project_folder::ProjectFolder};
use crate::{
    agent::{AgentGroup, AgentRegistry, journal::JournalState},
    approval::ApprovalBroker,
    bucket::{BucketError, bucket_key_part, change_entry},
    builtin,
    change::ChangeApplier,
    config::{self, HostToolbox, HostToolboxUse},
    error::{ErrorKind, Report},
    kv::KvStores,
    session::SessionStore,
    state::{Blackboard, StateRestoreError, TaskBoard, blackboard_tools, note_tools, task_tools},
    tool::{Tool, ToolBox},
};

/// The resources that the agents of one run share.
pub(crate) struct RunResources {
    project: ProjectFolder,
    broker: ApprovalBroker,
    /// The key-value stores of plugins.
    pub stores: KvStores,
    /// Applies the file changes that tools propose.
    pub changes: ChangeApplier,
    /// The MCP servers that were reached.
    pub servers: GrantedServers,
    /// The APIs whose documents were read.
    pub apis: ReachedApis,
    board: TaskBoard,
    blackboards: Mutex<HashMap<String, Blackboard>>,
}

impl RunResources {
    pub fn new(project: &ProjectFolder, broker: &ApprovalBroker, changes: ChangeApplier) -> Self {
        let (stores, board, blackboards) = (project.stores(), TaskBoard::new(), Mutex::default());
        let (servers, apis) = (GrantedServers::default(), ReachedApis::default());
        Self { project: project.clone(), broker: broker.clone(), stores, changes, servers, apis, board, blackboards }
    }

    /// Sets the MCP servers that were reached, and the APIs whose documents were read.
    pub fn with_sources(self, servers: GrantedServers, apis: ReachedApis) -> Self {
        Self { servers, apis, ..self }
    }

    /// Returns a new agent group without agents.
    pub fn agent_group(&self) -> AgentGroup {
        let agent_group = AgentGroup::new(AgentRegistry::new()).with_board(self.board.clone());
        match self.project.reflections() {
            Some(reflections) => agent_group.with_reflections(reflections),
            None => agent_group,
        }
    }

    /// Returns the tool with which an agent asks a person, if there is a person who answers.
    pub fn ask(&self) -> Option<Arc<dyn Tool>> {
        self.broker.is_attended().then(|| Arc::new(builtin::ask_user(self.broker.clone())) as Arc<dyn Tool>)
    }

    /// Restores the shared state from a journal. Returns warnings about blackboards that no agent uses any more.
    pub fn restore(&self, past: &JournalState) -> Result<Vec<String>, StateRestoreError> {
        self.board.restore(past.tasks().iter().cloned())?;
        let blackboards = self.blackboards.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unused = Vec::new();
        for (namespace, changes) in past.blackboards() {
            match blackboards.get(namespace) {
                Some(blackboard) => blackboard.restore(changes.iter().cloned())?,
                None => unused.push(format!(
                    "the blackboard `{}` is dropped, because no agent uses it any more",
                    namespace.escape_debug()
                )),
            }
        }
        Ok(unused)
    }

    /// Makes the boards those of the run tree that this session belongs to, in the cluster. Its root is the session whose
    /// boards the session `parent` uses, or this session without a parent. Called after a journal was restored: a document
    /// that other hosts have changed meanwhile is newer. Blocks.
    pub fn share_boards(&self, session: &str, parent: Option<&str>) -> Result<(), Report> {
        let failed = |reason: String| {
            Report::new(ErrorKind::Run, "the boards of the run cannot be shared with other hosts")
                .cause(reason)
                .hint("check that the cluster of the config can be reached")
        };
        let buckets = self.project.buckets().ok_or_else(|| failed("the config names no cluster".into()))?;
        let bucket = &buckets.boards;
        let key = |session: &str, board: &str| format!("session.{}.{board}", bucket_key_part(session));
        let root = match parent {
            Some(parent) => {
                // A session whose parent is no root says which one is.
                let entry = bucket.get(&key(parent, "root")).map_err(|error| failed(error.to_string()))?;
                let root = match entry {
                    // Whoever can write to the server can have written it, and it becomes a part of keys and of entries.
                    Some(entry) => root_of(&entry.value).ok_or_else(|| {
                        let hint = "find out who wrote it, and submit the task anew in another session";
                        failed(format!("the entry `{}` names no session", key(parent, "root"))).hint(hint)
                    })?,
                    None => parent.to_owned(),
                };
                let own = |_: Option<&[u8]>| Ok::<_, BucketError>((Some(root.clone().into_bytes()), ()));
                change_entry(&**bucket, &key(session, "root"), own).map_err(|error| failed(error.to_string()))?;
                root
            }
            None => session.to_owned(),
        };
        let member = parent.is_some().then(|| session.to_owned());
        let tasks = self.board.share(Arc::clone(bucket), key(&root, "tasks"), member);
        tasks.map_err(|error| failed(error.to_string()))?;
        let blackboards = self.blackboards.lock().unwrap_or_else(PoisonError::into_inner);
        for (namespace, blackboard) in &*blackboards {
            let shared = blackboard.share(Arc::clone(bucket), key(&root, &format!("blackboard.{namespace}")));
            shared.map_err(|error| failed(error.to_string()))?;
        }
        Ok(())
    }

    /// Gives the blackboards to `agent_group`, which records their changes if it has a journal.
    pub fn share(&self, agent_group: &AgentGroup) {
        let blackboards = self.blackboards.lock().unwrap_or_else(PoisonError::into_inner);
        blackboards.iter().for_each(|(namespace, blackboard)| agent_group.add_blackboard(namespace, blackboard));
    }

    /// Returns the tools of a toolbox for an agent.
    pub fn tools(&self, agent: &str, uses: &HostToolboxUse) -> Result<ToolBox, Report> {
        let wrong = |what: String| Report::new(ErrorKind::Usage, format!("agents.{agent}.toolboxes: {what}"));
        let tools = match uses.name {
            HostToolbox::Ask => ToolBox::new().with(builtin::ask_user(self.broker.clone())),
            HostToolbox::Tasks => task_tools(&self.board),
            HostToolbox::Notes => note_tools(&self.project.notes()),
            // These tools depend on the agent's ceiling; `program_toolbox.rs` builds them.
            HostToolbox::Exec | HostToolbox::Git => ToolBox::new(),
            HostToolbox::State => {
                let ns = uses.ns.as_deref().unwrap_or(config::DEFAULT_NAMESPACE);
                let mut blackboards = self.blackboards.lock().unwrap_or_else(PoisonError::into_inner);
                let blackboard = blackboards.entry(ns.to_owned()).or_default();
                blackboard_tools(blackboard, ns)
                    .map_err(|error| wrong(error.to_string()).hint("write, for example, `{name: state, ns: team}`"))?
            }
        };
        chosen(agent, uses, tools)
    }
}

/// Returns the tools that the config selects from a toolbox.
pub(crate) fn chosen(agent: &str, uses: &HostToolboxUse, tools: ToolBox) -> Result<ToolBox, Report> {
    let Some(only) = &uses.tools else { return Ok(tools) };
    let (chosen, unknown) = tools.only(only);
    match unknown.first() {
        None => Ok(chosen),
        Some(name) => Err(config::unknown("tool", name, tools.names())
            .cause(format!("named by agents.{agent}.toolboxes under `{}`", uses.name.name()))),
    }
}

/// Returns the session that an entry `session.NAME.root` names; `None` if that cannot be one.
fn root_of(value: &[u8]) -> Option<String> {
    std::str::from_utf8(value).ok().filter(|name| SessionStore::is_name(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn root_of_boards_is_the_name_of_a_session() {
        let longest = "a".repeat(limits::SESSION_NAME_BYTES);
        for name in ["lead", "a.b-c_d", &longest] {
            assert_eq!(root_of(name.as_bytes()).as_deref(), Some(name));
        }
        for none in ["", "../lead", "a b", "session.*", &format!("{longest}a")] {
            assert_eq!(root_of(none.as_bytes()), None, "{none}");
        }
        assert_eq!(root_of(b"\xff"), None);
    }
}
