//! Files that are not like others: what the host itself goes by, and what other programs go by unasked.

use std::path::{Path, PathBuf};

/// What no tool changes, whoever says yes: by the [names] in its path.
#[derive(Debug, Clone, Default)]
pub(super) struct Guarded(Vec<Vec<String>>);

const SHELLY: &str = ".shelly";

/// What lies so in a folder `.shelly` is guarded in every project: an agent could be given more by the next run there.
const OF_SHELLY: [&str; 4] = ["local", "plugins", "config.yaml", "permissions.json"];

impl Guarded {
    /// These too, with all below them; absolute, without links.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(paths.into_iter().map(|path| names(&path)).collect())
    }

    /// Whether this is one of them or lies in one.
    pub fn forbids(&self, path: &Path) -> bool {
        let names = names(path);
        let is_of_shelly = |two: &[String]| two[0] == SHELLY && OF_SHELLY.contains(&two[1].as_str());
        self.0.iter().any(|guarded| names.starts_with(guarded)) || names.windows(2).any(is_of_shelly)
    }

    /// Whether one of them lies in this.
    pub fn is_below(&self, path: &Path) -> bool {
        let names = names(path);
        self.0.iter().any(|guarded| guarded.starts_with(&names))
    }

    /// Whether one of them would lie behind a link that stood here.
    pub fn is_behind(&self, path: &Path) -> bool {
        self.is_below(path) || names(path).last().is_some_and(|name| name == SHELLY)
    }
}

/// The names in a path as those file systems take them that do not tell all names apart: by capital and small letters, by
/// characters that nobody sees, by dots and blanks at the end. What is one name to any of them is one name here.
fn names(path: &Path) -> Vec<String> {
    let is_passed_over = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name = |name: &str| {
        // Some letters, as the long s, are the same only as capitals.
        let name: String = name.chars().filter(|c| !is_passed_over(c)).flat_map(char::to_uppercase).collect();
        name.to_lowercase().trim_end_matches(['.', ' ']).to_owned()
    };
    path.components().map(|part| name(&part.as_os_str().to_string_lossy())).collect()
}

/// What runs, or is gone by, where a file of this name or in a folder of this name changes.
const GONE_BY: [(&[&str], &str); 8] = [
    (&[".git"], "git runs programs that are named there"),
    (&[".githooks", ".husky", ".pre-commit-config.yaml", ".gitmodules", ".gitattributes"], "git goes by it"),
    (&[".github", ".gitlab-ci.yml", ".circleci", "jenkinsfile", ".ci"], "it is run where the project is built"),
    (&[".vscode", ".idea", ".devcontainer", ".editorconfig"], "editors go by it, and may run what it names"),
    (&[".envrc", ".bashrc", ".zshrc", ".profile", ".bash_profile", ".ssh"], "a shell goes by it"),
    (
        &[".cargo", ".npmrc", ".yarnrc", ".yarnrc.yml", "conftest.py", "sitecustomize.py"],
        "builds and tests go by it, and may run what it names",
    ),
    (&[".mcp.json", ".claude", ".cursor", ".gemini", "shelly.yaml"], "agents go by it, and may run what it names"),
    (&[".shelly"], "agents are told what stands there"),
];

/// Why a person should look twice at a change of this.
pub(super) fn caution(path: &Path) -> Option<&'static str> {
    let names = names(path);
    GONE_BY.iter().find(|(known, _)| names.iter().any(|name| known.contains(&name.as_str()))).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_goes_by_is_guarded() {
        let guarded = Guarded::new(["/p/shelly.yaml".into()]);
        for (path, forbidden) in [
            ("/p/.shelly/local", true),
            ("/p/.shelly/local/sessions/a/journal", true),
            ("/p/.SHELLY/Local/x", true),
            ("/p/deep/.shelly/config.yaml", true),
            ("/p/.shelly/plugins/a/a.wasm", true),
            ("/p/shelly.yaml", true),
            ("/p/Shelly.YAML", true),
            ("/p/.\u{17f}helly/local/x", true),
            ("/p/.she\u{200c}lly/local./x", true),
            ("/p/shelly.yaml.bak", false),
            ("/p/.shelly/context.md", false),
            ("/p/local/x", false),
            ("/p/other/shelly.yaml", false),
        ] {
            assert_eq!(guarded.forbids(Path::new(path)), forbidden, "{path}");
        }
        assert!(guarded.is_below(Path::new("/P")) && !guarded.is_below(Path::new("/q")));
        assert!(guarded.is_behind(Path::new("/q/.shelly")) && !guarded.is_behind(Path::new("/q/shelly")));
    }

    #[test]
    fn what_programs_go_by_is_told() {
        for (path, told) in [
            ("/p/.git/hooks/pre-commit", true),
            ("/p/sub/.GIT/config", true),
            ("/p/sub/.gi\u{200d}t/config", true),
            ("/p/.github/workflows/ci.yml", true),
            ("/p/.envrc", true),
            ("/p/src/main.rs", false),
            ("/p/.gitignore", false),
        ] {
            assert_eq!(caution(Path::new(path)).is_some(), told, "{path}");
        }
    }
}
