//! The toolboxes of the agent that runs if no config names agents or toolboxes.

use std::path::Path;

use serde::{Deserialize, de::IntoDeserializer};

use super::{AgentConfig, Config, ConfigEntryKind, LeftOutToolbox, ToolboxUse};

/// The toolboxes that the agent has in any folder.
const ANYWHERE: &[&str] = &["exec", "http"];

/// The toolboxes that the agent also has for the files of its project.
const IN_PROJECT: &[&str] = &["filesystem", "search", "git", "everyday"];

impl Config {
    /// Returns `true` if the config says which agents there are or which toolboxes the default agent has, so that the default
    /// toolboxes are not used.
    pub fn names_runners_or_toolboxes(&self) -> bool {
        !self.agents.is_empty() || !self.teams.is_empty() || !self.toolboxes.is_empty()
    }

    /// Gives the agent of a config without agents and toolboxes what a person expects of an assistant: it reads and searches
    /// the project's files and proposes changes of them, computes, and asks before it runs a program, uses git or reads a
    /// page. The toolboxes count as entries of the person, who started the agent, so a project is not asked about them.
    ///
    /// `project` is the absolute path of the project's folder; `None` leaves its files out. A toolbox with a plugin for which
    /// `is_found` returns `false` is left out too, and noted in [`Config::user`].
    pub fn with_default_toolboxes(mut self, project: Option<&Path>, is_found: impl Fn(&str) -> bool) -> Self {
        if self.names_runners_or_toolboxes() {
            return self;
        }
        let of_project = project.map(|folder| IN_PROJECT.iter().map(move |name| (*name, folder)));
        let of_project = of_project.into_iter().flatten().map(|(name, folder)| toolbox(name, folder));
        let anywhere = ANYWHERE.iter().map(|name| toolbox(name, Path::new("")));
        for toolbox in of_project.chain(anywhere) {
            let plugins = toolbox.shipped().into_iter().flat_map(|uses| uses.plugins.keys());
            let missing: Vec<_> = plugins.filter(|plugin| !is_found(plugin)).cloned().collect();
            match missing.is_empty() {
                true => {
                    self.user.note(ConfigEntryKind::Toolbox, toolbox.name(), false);
                    self.toolboxes.push(toolbox);
                }
                false => self
                    .user
                    .left_out_toolboxes
                    .push(LeftOutToolbox { name: toolbox.name().to_owned(), plugins: missing }),
            }
        }
        self.user.has_default_toolboxes = true;
        self
    }
}

impl AgentConfig {
    /// Leaves only the tools with which an agent reads, searches and changes files: the definitions of all default tools do
    /// not fit into the window of a small model.
    pub fn keep_file_tools(&mut self) {
        self.toolboxes.retain(|toolbox| matches!(toolbox.name(), "filesystem" | "search"));
        self.plugins.clear();
    }
}

/// Returns a toolbox as its name alone describes it, with the folder below which its tools resolve relative paths.
fn toolbox(name: &str, folder: &Path) -> ToolboxUse {
    let name: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
    let mut toolbox =
        ToolboxUse::deserialize(name).expect("each name in the lists is that of a toolbox, as a test says");
    if let Some(uses) = toolbox.shipped_mut() {
        uses.settle_paths(folder);
    }
    toolbox
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(config: &Config) -> Vec<&str> {
        config.toolboxes.iter().map(ToolboxUse::name).collect()
    }

    #[test]
    fn config_without_agents_gets_the_everyday_toolboxes() {
        let project = Path::new("/project");
        let config = Config::default().with_default_toolboxes(Some(project), |_| true);
        assert_eq!(names(&config), [IN_PROJECT, ANYWHERE].concat());
        assert!(config.toolboxes.iter().all(|one| config.user.contains(ConfigEntryKind::Toolbox, one.name())));
        let filesystem = &config.toolboxes[0].shipped().unwrap().plugins["filesystem"];
        assert_eq!(filesystem.files[0].name.as_deref(), Some("/project"));
        assert_eq!(filesystem.params["root"], "/project");
    }

    #[test]
    fn config_that_names_agents_or_toolboxes_is_left_alone() {
        for text in ["agents: [{name: a}]", "toolboxes: [tasks]"] {
            let read = || Config::parse(text, "/project".into()).unwrap_or_else(|_| panic!("{text}"));
            let config = read().with_default_toolboxes(Some(Path::new("/project")), |_| true);
            assert_eq!(names(&config), names(&read()), "{text}");
        }
    }

    #[test]
    fn toolbox_whose_plugin_is_not_found_is_left_out() {
        let config = Config::default().with_default_toolboxes(Some(Path::new("/project")), |id| id != "search");
        assert_eq!(names(&config), ["filesystem", "git", "everyday", "exec", "http"]);
        let left_out = LeftOutToolbox { name: "search".into(), plugins: vec!["search".into()] };
        assert_eq!(config.user.left_out_toolboxes, [left_out]);
    }

    #[test]
    fn toolboxes_for_files_need_a_project() {
        let config = Config::default().with_default_toolboxes(None, |_| true);
        assert_eq!(names(&config), ANYWHERE);
    }
}
