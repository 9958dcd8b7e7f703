//! Files that are not like others: what the host itself goes by, and what other programs go by unasked.

use std::path::{Path, PathBuf};

/// What no tool changes, whoever says yes.
#[derive(Debug, Clone, Default)]
pub(super) struct Guarded(Vec<PathBuf>);

/// What lies so in a folder `.shelly` is guarded in every project: an agent could be given more by the next run there.
const OF_SHELLY: [&str; 4] = ["local", "plugins", "config.yaml", "permissions.json"];

impl Guarded {
    /// These too, with all below them; absolute, without links.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(paths.into_iter().collect())
    }

    /// Whether this is one of them or lies in one.
    pub fn forbids(&self, path: &Path) -> bool {
        self.0.iter().any(|guarded| path.starts_with(guarded)) || is_of_shelly(path)
    }

    /// Whether one of them lies in this.
    pub fn is_below(&self, path: &Path) -> bool {
        self.0.iter().any(|guarded| guarded.starts_with(path))
    }
}

/// Names as a file system that does not tell case apart takes them.
fn names(path: &Path) -> Vec<String> {
    path.components().map(|part| part.as_os_str().to_string_lossy().to_lowercase()).collect()
}

fn is_of_shelly(path: &Path) -> bool {
    names(path).windows(2).any(|two| two[0] == ".shelly" && OF_SHELLY.contains(&two[1].as_str()))
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
            ("/p/.shelly/context.md", false),
            ("/p/local/x", false),
            ("/p/other/shelly.yaml", false),
        ] {
            assert_eq!(guarded.forbids(Path::new(path)), forbidden, "{path}");
        }
        assert!(guarded.is_below(Path::new("/p")) && !guarded.is_below(Path::new("/q")));
    }

    #[test]
    fn what_programs_go_by_is_told() {
        for (path, told) in [
            ("/p/.git/hooks/pre-commit", true),
            ("/p/sub/.GIT/config", true),
            ("/p/.github/workflows/ci.yml", true),
            ("/p/.envrc", true),
            ("/p/src/main.rs", false),
            ("/p/.gitignore", false),
        ] {
            assert_eq!(caution(Path::new(path)).is_some(), told, "{path}");
        }
    }
}
