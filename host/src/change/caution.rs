//! Files that are not like others: what the host itself goes by, and what other programs go by unasked.

use std::path::{Path, PathBuf};

use crate::error::{acts_on_terminal, is_unseen};

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

/// Names of files that something reads as instructions or runs, by class, and why a person is asked about them. A `*` stands for
/// any characters; a name with `/` is that of a folder, too, with all that is in it.
const GONE_BY: [(&str, &[&str]); 9] = [
    (
        "agents are told what stands there, or go by it",
        &[
            ".agents/",
            ".aider*",
            ".amazonq/",
            ".augment*/",
            ".claude/",
            ".claude.json",
            ".clinerules*/",
            ".codex/",
            ".continue*/",
            ".crush*/",
            ".cursor/",
            ".cursorrules",
            ".gemini/",
            ".goose*/",
            ".junie/",
            ".kiro/",
            ".mcp.json",
            ".opencode*/",
            ".qwen/",
            ".roo*/",
            ".rules",
            ".shelly/",
            ".trae/",
            ".windsurf*/",
            "*.chatmode.md",
            "*.instructions.md",
            "*.mdc",
            "*.prompt.md",
            "agent.md",
            "agents.md",
            "agents.*.md",
            "claude.md",
            "claude.*.md",
            "codex.md",
            "conventions.md",
            "copilot-instructions.md",
            "crush.json",
            "crush.md",
            "gemini.md",
            "goose.yaml",
            "mcp.json",
            "opencode.json*",
            "qwen.md",
            "replit.md",
            "shelly.yaml",
            "skill.md",
            "warp.md",
        ],
    ),
    (
        "version control runs programs that are named there, or goes by it",
        &[
            ".git/",
            ".gitattributes",
            ".gitconfig",
            ".githooks/",
            ".gitmodules",
            ".hg/",
            ".hgrc",
            ".husky/",
            ".jj/",
            ".lefthook*/",
            ".overcommit.yml",
            ".pre-commit-config.y*ml",
            ".svn/",
            "lefthook.*",
            "pre-commit",
        ],
    ),
    (
        "it is run where the project is built",
        &[
            ".appveyor.yml",
            ".azure-pipelines*",
            ".buildkite/",
            ".ci/",
            ".circleci/",
            ".cirrus.y*ml",
            ".drone.y*ml",
            ".forgejo/",
            ".gitea/",
            ".github/",
            ".gitlab*/",
            ".semaphore/",
            ".teamcity/",
            ".travis.y*ml",
            ".woodpecker*/",
            "appveyor.y*ml",
            "azure-pipelines*.y*ml",
            "bitbucket-pipelines.y*ml",
            "buildspec.y*ml",
            "cloudbuild.y*ml",
            "codemagic.y*ml",
            "jenkinsfile*",
            "renovate.json*",
        ],
    ),
    (
        "editors go by it, and may run what it names",
        &[
            ".clangd",
            ".devcontainer*/",
            ".dir-locals*.el",
            ".editorconfig",
            ".emacs*",
            ".exrc",
            ".fleet/",
            ".idea/",
            ".lvimrc",
            ".nvim*/",
            ".settings/",
            ".vim*/",
            ".vscode/",
            ".ycm_extra_conf.py",
            ".zed/",
            "*.code-workspace",
            "*.sublime-project",
        ],
    ),
    (
        "a shell, a debugger or a session goes by it",
        &[
            ".bash*",
            ".cshrc",
            ".curlrc",
            ".direnv*/",
            ".env",
            ".env.*",
            ".envrc",
            ".gdbinit",
            ".inputrc",
            ".irbrc",
            ".kshrc",
            ".lldbinit",
            ".login",
            ".netrc",
            ".pam_environment",
            ".pdbrc",
            ".profile",
            ".pryrc",
            ".psqlrc",
            ".pythonrc*",
            ".renviron",
            ".rprofile",
            ".screenrc",
            ".sqliterc",
            ".ssh/",
            ".tcshrc",
            ".tmux.conf",
            ".wgetrc",
            ".xinitrc",
            ".xprofile",
            ".xsession*",
            ".zlogin",
            ".zlogout",
            ".zprofile",
            ".zsh*",
            "*.desktop",
            "*.plist",
            "*.service",
            "*.timer",
            "authorized_keys*",
            "autostart/",
            "config.fish",
            "crontab",
        ],
    ),
    (
        "builds go by it, and run what it names",
        &[
            ".bazel*",
            ".cargo/",
            ".justfile",
            ".mvn/",
            "*.bzl",
            "*.cabal",
            "*.cmake",
            "*.csproj",
            "*.fsproj",
            "*.gemspec",
            "*.gradle",
            "*.gradle.kts",
            "*.just",
            "*.mk",
            "*.nix",
            "*.opam",
            "*.podspec",
            "*.props",
            "*.sbt",
            "*.targets",
            "*.vbproj",
            "*.vcxproj",
            "autogen.sh",
            "brewfile",
            "build",
            "build.bazel",
            "build.ninja",
            "build.rs",
            "build.sc",
            "build.xml",
            "build.zig*",
            "cargo.toml",
            "cmakelists.txt",
            "cmakepresets.json",
            "configure",
            "configure.ac",
            "dune",
            "dune-project",
            "earthfile",
            "fastfile",
            "flake.lock",
            "gnumakefile",
            "go.mod",
            "go.work",
            "gradle-wrapper.properties",
            "gradle.properties",
            "gradlew*",
            "guix.scm",
            "justfile",
            "magefile.go",
            "makefile*",
            "meson.build",
            "module.bazel",
            "mvnw*",
            "nuget.config",
            "pom.xml",
            "rust-toolchain*",
            "sconscript",
            "sconstruct",
            "setup.hs",
            "stack.yaml",
            "taskfile.y*ml",
            "workspace",
            "workspace.bazel",
            "wscript",
        ],
    ),
    (
        "package managers, builds and tests go by it, and run what it names",
        &[
            ".mise.toml",
            ".mocharc*",
            ".npmrc",
            ".pnpmfile*",
            ".tool-versions",
            ".yarn/",
            ".yarnrc*",
            "*.config.cjs",
            "*.config.js",
            "*.config.mjs",
            "*.config.mts",
            "*.config.ts",
            "*.pth",
            "bb.edn",
            "bower.json",
            "bunfig.toml",
            "capfile",
            "composer.json",
            "conftest.py",
            "deno.json*",
            "deps.edn",
            "dodo.py",
            "environment.y*ml",
            "fabfile.py",
            "gemfile*",
            "gruntfile.*",
            "guardfile",
            "gulpfile.*",
            "lerna.json",
            "manage.py",
            "mise.toml",
            "mix.exs",
            "noxfile.py",
            "nx.json",
            "package-lock.json",
            "package.json",
            "package.swift",
            "pipfile*",
            "pnpm-*.yaml",
            "podfile",
            "poetry.lock",
            "project.clj",
            "pyproject.toml",
            "pytest.ini",
            "rakefile",
            "rebar.config",
            "requirements*.txt",
            "setup.cfg",
            "setup.py",
            "shadow-cljs.edn",
            "sitecustomize.py",
            "tasks.py",
            "tox.ini",
            "turbo.json",
            "usercustomize.py",
            "uv.lock",
            "yarn.lock",
        ],
    ),
    (
        "it says what is started or deployed",
        &[
            "*.tf",
            "ansible.cfg",
            "chart.yaml",
            "compose.y*ml",
            "containerfile*",
            "devbox.json",
            "docker-compose*.y*ml",
            "dockerfile*",
            "fly.toml",
            "netlify.toml",
            "procfile*",
            "pulumi.yaml",
            "serverless.y*ml",
            "skaffold.yaml",
            "terragrunt.hcl",
            "tiltfile",
            "vagrantfile",
            "vercel.json",
            "wrangler.toml",
        ],
    ),
    (
        "it is a program, or is loaded as one",
        &[
            "*.bat",
            "*.cmd",
            "*.com",
            "*.command",
            "*.dll",
            "*.dylib",
            "*.exe",
            "*.jar",
            "*.lnk",
            "*.msi",
            "*.node",
            "*.ps1",
            "*.pyd",
            "*.scr",
            "*.so",
            "*.vbs",
            "*.wasm",
        ],
    ),
];

/// Why a person should look twice at a change of this, whatever the policy says.
pub(super) fn caution(path: &Path) -> Option<&'static str> {
    let names = names(path);
    let last = names.last()?;
    let is_it = |pattern: &str| match pattern.strip_suffix('/') {
        Some(folder) => names.iter().any(|name| fits(folder, name)),
        None => fits(pattern, last),
    };
    let is_known = |known: &[&str]| known.iter().any(|pattern| is_it(pattern));
    let gone_by = GONE_BY.iter().find(|(_, known)| is_known(known)).map(|(why, _)| *why);
    gone_by.or_else(|| {
        let is_as_it_looks = path.components().all(|part| {
            let name = part.as_os_str().to_str();
            name.is_some_and(|name| !name.chars().any(|c| acts_on_terminal(c) || is_unseen(c)))
        });
        (!is_as_it_looks).then_some("its name holds characters that cannot be seen")
    })
}

/// Returns `true` if what a file holds is a program, by how it begins.
pub(super) fn is_program(content: &[u8]) -> bool {
    const PROGRAMS: [&[u8]; 8] = [
        b"#!",
        b"\x7fELF",
        b"MZ",
        b"\0asm",
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xce\xfa\xed\xfe",
        b"\xcf\xfa\xed\xfe",
    ];
    PROGRAMS.iter().any(|start| content.starts_with(start))
}

/// Returns `true` if a name fits a pattern, in which a `*` stands for any characters.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, end)) => {
            name.strip_prefix(start).is_some_and(|rest| rest.len() >= end.len() && rest.ends_with(end))
        }
    }
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

    /// Names from the field, by what reads or runs them.
    const CORPUS: [(&str, &str); 10] = [
        (
            "agents",
            "CLAUDE.md CLAUDE.local.md AGENTS.md AGENTS.override.md GEMINI.md QWEN.md CRUSH.md WARP.md .cursorrules \
             .cursor/rules/a.mdc .windsurfrules .windsurf/rules/a.md .clinerules .clinerules/a.md .roo/rules/a.md .roorules \
             .roomodes .goosehints .aider.conf.yml CONVENTIONS.md .github/copilot-instructions.md \
             .github/instructions/a.instructions.md .claude/settings.json .claude/agents/a.md .claude/skills/a/SKILL.md \
             .mcp.json .cursor/mcp.json .gemini/settings.json .codex/config.toml opencode.json .opencode/agent/a.md .crush.json \
             .continue/config.yaml .junie/guidelines.md .kiro/steering/a.md .amazonq/rules/a.md .augment-guidelines .rules \
             .trae/rules/a.md shelly.yaml .shelly/context.md skills/a/SKILL.md",
        ),
        (
            "version control",
            ".git/hooks/pre-commit .git/config sub/.GIT/config sub/.gi\u{200d}t/config .gitmodules .gitattributes \
             .githooks/pre-push .husky/pre-commit .pre-commit-config.yaml lefthook.yml .hg/hgrc .jj/repo/config.toml",
        ),
        (
            "continuous integration",
            ".github/workflows/ci.yml .github/dependabot.yml .gitlab-ci.yml .circleci/config.yml .travis.yml Jenkinsfile \
             azure-pipelines.yml bitbucket-pipelines.yml .drone.yml .woodpecker.yml cloudbuild.yaml buildspec.yml \
             .buildkite/pipeline.yml appveyor.yml .cirrus.yml renovate.json .forgejo/workflows/a.yml",
        ),
        (
            "editors",
            ".vscode/tasks.json .vscode/settings.json .idea/workspace.xml .devcontainer/devcontainer.json .editorconfig .exrc \
             .nvim.lua .vimrc .dir-locals.el .zed/tasks.json a.code-workspace .ycm_extra_conf.py .clangd",
        ),
        (
            "shells",
            ".envrc .env .env.local .bashrc .bash_profile .zshrc .zshenv .profile .inputrc .gdbinit .ssh/authorized_keys .netrc \
             .Rprofile a.desktop a.service .tmux.conf",
        ),
        (
            "builds",
            "Makefile makefile GNUmakefile rules.mk justfile .justfile Taskfile.yml CMakeLists.txt a.cmake meson.build \
             build.gradle build.gradle.kts settings.gradle gradlew pom.xml mvnw build.sbt BUILD BUILD.bazel MODULE.bazel \
             .bazelrc a.bzl Cargo.toml build.rs .cargo/config.toml rust-toolchain.toml build.zig go.mod a.csproj \
             Directory.Build.props configure configure.ac flake.nix default.nix shell.nix SConstruct wscript a.cabal dune",
        ),
        (
            "packages and tests",
            "package.json package-lock.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml .npmrc .yarnrc.yml \
             .yarn/releases/yarn.cjs vite.config.ts webpack.config.js jest.config.mjs Gruntfile.js gulpfile.js deno.json \
             bunfig.toml turbo.json nx.json setup.py setup.cfg pyproject.toml tox.ini noxfile.py conftest.py pytest.ini \
             requirements.txt requirements-dev.txt Pipfile uv.lock poetry.lock sitecustomize.py a.pth Gemfile Rakefile a.gemspec \
             composer.json mix.exs rebar.config Package.swift Podfile project.clj deps.edn .tool-versions mise.toml manage.py",
        ),
        (
            "deployment",
            "Dockerfile Dockerfile.dev Containerfile docker-compose.yml docker-compose.override.yaml compose.yaml Vagrantfile \
             Procfile main.tf fly.toml vercel.json netlify.toml wrangler.toml Tiltfile skaffold.yaml serverless.yml",
        ),
        ("programs", "a.exe A.BAT run.cmd setup.ps1 lib/a.so a.dll a.dylib native.node a.jar a.wasm"),
        ("names that are not what they seem", "a\u{1b}[2J.txt a\u{202e}txt.md a\u{7}b dir\u{2066}x/a.txt"),
    ];

    #[test]
    fn names_from_the_field_are_asked_about() {
        for (class, names) in CORPUS {
            for name in names.split(' ').filter(|name| !name.is_empty()) {
                assert!(caution(&Path::new("/p").join(name)).is_some(), "{class}: {name:?}");
            }
        }
    }

    #[test]
    fn what_people_write_every_day_is_not_asked_about() {
        for name in [
            "src/main.rs",
            "src/lib/build/mod.rs",
            "workspace/a.txt",
            "README.md",
            "docs/agents/overview.md",
            "docs/claude-notes.md",
            "notes.txt",
            ".gitignore",
            "index.html",
            "app.py",
            "test_app.py",
            "src/config.ts",
            "data.json",
            "go.sum",
            "main.go",
            "Main.java",
            "style.css",
            "a.sh.txt",
            "schl\u{fc}ssel/\u{1f469}\u{200d}\u{1f680}.txt",
        ] {
            assert_eq!(caution(&Path::new("/p").join(name)), None, "{name}");
        }
    }

    #[test]
    fn programs_are_known_by_how_they_begin() {
        for (content, is_program) in [
            (&b"#!/bin/sh\n"[..], true),
            (b"\x7fELF\x02", true),
            (b"MZ\x90", true),
            (b"\0asm\x01\0\0\0", true),
            (b"# a heading\n", false),
            (b"", false),
        ] {
            assert_eq!(super::is_program(content), is_program, "{content:?}");
        }
    }
}
