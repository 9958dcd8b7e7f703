//! The names of the tools of the host and of its shipped plugins. A plugin's tool with such a name, or one that looks like
//! it, is a finding.
//!
//! Most are written here, because no type has them: a shipped plugin is a component that tells its tools only when it runs,
//! and a toolbox of the host names its own when it is made for an agent. A check does neither, so that its findings are the
//! same whichever plugins a build of the host comes with. Tests compare the list with the sources and with docs/tools.md.

use crate::agent::RUN_TOOLS;

/// The owner of a tool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownToolOwner {
    /// The host itself: it adds the tool to a run that needs it, and leaves out a plugin's tool of the same name.
    Run,
    /// A toolbox that an agent has unless its config names others. It is of the host or of shipped plugins.
    DefaultToolbox(&'static str),
    /// A toolbox that an agent has only if its config names it.
    Toolbox(&'static str),
    /// A plugin that comes with the host and is in no toolbox.
    Plugin,
}

/// The tools of one owner.
pub struct KnownTools {
    /// The id of the plugin, or `host`.
    pub plugin: &'static str,
    pub owner: KnownToolOwner,
    pub names: &'static [&'static str],
}

const fn of_plugin(plugin: &'static str, owner: KnownToolOwner, names: &'static [&'static str]) -> KnownTools {
    KnownTools { plugin, owner, names }
}

const fn of_host(owner: KnownToolOwner, names: &'static [&'static str]) -> KnownTools {
    KnownTools { plugin: "host", owner, names }
}

/// The tools of all owners.
pub const KNOWN_TOOLS: &[KnownTools] = &[
    of_host(KnownToolOwner::Run, &RUN_TOOLS),
    of_host(KnownToolOwner::DefaultToolbox("exec"), &["exec_run"]),
    of_host(
        KnownToolOwner::DefaultToolbox("git"),
        &["git_status", "git_diff", "git_log", "git_show", "git_branch", "git_add", "git_commit"],
    ),
    of_host(
        KnownToolOwner::Toolbox("tasks"),
        &[
            "shared_tasks_create",
            "shared_tasks_list",
            "shared_tasks_get",
            "shared_tasks_claim",
            "shared_tasks_update",
            "shared_tasks_watch",
            "shared_tasks_cancel",
        ],
    ),
    of_host(
        KnownToolOwner::Toolbox("state"),
        &["shared_state_get", "shared_state_set", "shared_state_list", "shared_state_watch"],
    ),
    of_host(KnownToolOwner::Toolbox("notes"), &["write_note", "read_note", "list_notes"]),
    of_plugin(
        "filesystem",
        KnownToolOwner::DefaultToolbox("filesystem"),
        &[
            "fs_copy",
            "fs_delete",
            "fs_diff",
            "fs_edit",
            "fs_list",
            "fs_mkdir",
            "fs_move",
            "fs_patch",
            "fs_read",
            "fs_read_lines",
            "fs_stat",
            "fs_write",
        ],
    ),
    of_plugin("search", KnownToolOwner::DefaultToolbox("search"), &["search_content", "search_files"]),
    of_plugin("fetch", KnownToolOwner::DefaultToolbox("http"), &["http_fetch"]),
    of_plugin("json-query", KnownToolOwner::DefaultToolbox("everyday"), &["json_query"]),
    of_plugin("tables", KnownToolOwner::DefaultToolbox("everyday"), &["csv_read", "sql_query"]),
    of_plugin(
        "date-time",
        KnownToolOwner::DefaultToolbox("everyday"),
        &["time_add", "time_convert", "time_difference", "time_format", "time_now", "time_parse"],
    ),
    of_plugin("calculator", KnownToolOwner::DefaultToolbox("everyday"), &["calculate"]),
    of_plugin("encode", KnownToolOwner::DefaultToolbox("everyday"), &["decode", "encode", "hash"]),
    of_plugin(
        "convert",
        KnownToolOwner::DefaultToolbox("everyday"),
        &["html_to_markdown", "html_to_text", "markdown_to_html"],
    ),
    of_plugin("compare", KnownToolOwner::DefaultToolbox("everyday"), &["apply_patch", "text_diff", "text_merge"]),
    of_plugin("count-text", KnownToolOwner::Plugin, &["count_text", "longest_lines"]),
    of_plugin("ids", KnownToolOwner::Plugin, &["uuid"]),
    of_plugin("offload", KnownToolOwner::Plugin, &["recall"]),
    of_plugin("read-files", KnownToolOwner::Plugin, &["list_files", "read_file"]),
];

impl KnownTools {
    /// Returns the owner in words.
    pub fn owner_text(&self) -> String {
        match self.owner {
            KnownToolOwner::Run => "the host".to_owned(),
            KnownToolOwner::DefaultToolbox(name) => format!("the default toolbox `{name}`"),
            KnownToolOwner::Toolbox(name) => format!("the toolbox `{name}`"),
            KnownToolOwner::Plugin => format!("the plugin `{}`, which comes with the host", self.plugin),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::{Path, PathBuf},
    };

    use super::*;
    use crate::{config::ShippedToolbox, plugin::SHIPPED_PLUGINS};

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    /// Returns all Rust files below a folder.
    fn sources(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let below = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
        below.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
    }

    #[test]
    fn tools_of_shipped_plugins_are_known() {
        for id in SHIPPED_PLUGINS {
            let mut written = BTreeSet::new();
            for source in sources(&root().join("plugins").join(id).join("src")) {
                let text = fs::read_to_string(&source).unwrap();
                let names = text.lines().filter_map(|line| {
                    line.trim().strip_prefix("const NAME: &'static str = \"")?.strip_suffix("\";").map(str::to_owned)
                });
                written.extend(names);
            }
            let known = KNOWN_TOOLS.iter().filter(|tools| tools.plugin == id).flat_map(|tools| tools.names);
            let known: BTreeSet<_> = known.map(|name| (*name).to_owned()).collect();
            assert_eq!(known, written, "{id}");
        }
    }

    #[test]
    fn tools_of_the_host_are_those_of_the_documents() {
        let page = fs::read_to_string(root().join("docs/tools.md")).unwrap();
        let known: BTreeSet<_> = KNOWN_TOOLS.iter().flat_map(|tools| tools.names.iter().copied()).collect();
        let (_, table) = page.split_once("## All of them").unwrap();
        let rows = table.lines().skip(1).take_while(|line| !line.starts_with("## "));
        let first_cells = rows.filter_map(|row| row.split('|').nth(1));
        let names: Vec<_> = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            let like = name.trim_start_matches("{ns}").trim_end_matches('*');
            assert!(known.iter().any(|known| *known == name || name != like && known.contains(like)), "{name}");
        }
    }

    #[test]
    fn toolboxes_have_the_plugins_of_the_config() {
        let mut plugins: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for tools in KNOWN_TOOLS.iter().filter(|tools| tools.plugin != "host") {
            if let KnownToolOwner::DefaultToolbox(name) = tools.owner {
                plugins.entry(name).or_default().push(tools.plugin);
            }
        }
        for toolbox in
            [ShippedToolbox::Filesystem, ShippedToolbox::Search, ShippedToolbox::Http, ShippedToolbox::Everyday]
        {
            assert_eq!(plugins[toolbox.name()], toolbox.plugins());
        }
    }
}
