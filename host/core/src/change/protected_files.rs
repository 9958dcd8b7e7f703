//! Protected files: those that control the host itself, and those that other programs read or execute on their own.

use std::path::{Path, PathBuf};

use super::known_names::KNOWN_NAMES;
use crate::error::{acts_on_terminal, is_unseen};

/// The protected files of a host, by the normalized [names] in their paths.
#[derive(Debug, Clone, Default)]
pub(super) struct ProtectedFiles {
    /// Paths that no tool may change, whoever approves.
    never: Vec<Vec<String>>,
    /// Files that are part of agents' prompts, whatever their names, since links may lead to them.
    instructions: Vec<Vec<String>>,
    /// Folders whose content is built as soon as it changes.
    built: Vec<Vec<String>>,
}

const SHELLY: &str = ".shelly";

/// Entries of a `.shelly` folder that are protected in every project: changing them could give an agent more permissions in
/// the next run there.
const OF_SHELLY: [&str; 4] = ["local", "plugins", "config.yaml", "permissions.json"];

impl ProtectedFiles {
    /// Creates the set of these paths with everything below them; they must be absolute and without links.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { never: paths.into_iter().map(|path| names(&path)).collect(), ..Self::default() }
    }

    /// Adds files that are part of agents' prompts; they must be absolute and without links.
    pub fn with_instructions(self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { instructions: paths.into_iter().map(|path| names(&path)).collect(), ..self }
    }

    /// Adds folders whose content is built as soon as it changes; they must be absolute and without links.
    pub fn with_built(self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { built: folders.into_iter().map(|folder| names(&folder)).collect(), ..self }
    }

    /// Returns the reason for which a person must check a change of this path, whatever the policy says.
    pub fn caution(&self, path: &Path) -> Option<&'static str> {
        caution(path).or_else(|| {
            if self.instructions.is_empty() && self.built.is_empty() {
                return None;
            }
            let names = names(path);
            if self.instructions.contains(&names) {
                return Some("read by agents of this project as instructions");
            }
            let is_built = self.built.iter().any(|folder| names.starts_with(folder));
            is_built.then_some("built as soon as it changes, which runs what it says with your rights")
        })
    }

    /// Returns `true` if the path is protected or lies in a protected folder.
    pub fn forbids(&self, path: &Path) -> bool {
        let names = names(path);
        let is_of_shelly = |two: &[String]| two[0] == SHELLY && OF_SHELLY.contains(&two[1].as_str());
        self.never.iter().any(|guarded| names.starts_with(guarded)) || names.windows(2).any(is_of_shelly)
    }

    /// Returns `true` if a protected path lies in this path.
    pub fn is_below(&self, path: &Path) -> bool {
        let names = names(path);
        self.never.iter().any(|guarded| guarded.starts_with(&names))
    }

    /// Returns `true` if a link at this path would give access to a protected path.
    pub fn is_behind(&self, path: &Path) -> bool {
        self.is_below(path) || names(path).last().is_some_and(|name| name == SHELLY)
    }
}

/// Normalizes the components of a path such that names are equal if any file system treats them as equal: regardless of
/// case, invisible characters, trailing dots and blanks, and the stream name after a colon.
fn names(path: &Path) -> Vec<String> {
    let is_passed_over = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name = |name: &str| {
        // Some letters, such as the long s, are equal only in upper case.
        let name: String = name.chars().filter(|c| !is_passed_over(c)).flat_map(char::to_uppercase).collect();
        let name = name.to_lowercase();
        let file = name.split_once(':').map_or(&*name, |(file, _)| file);
        file.trim_end_matches(['.', ' ']).to_owned()
    };
    path.components().map(|part| name(&part.as_os_str().to_string_lossy())).collect()
}

/// Returns the reason for which a person must check a change of this path, whatever the policy says.
fn caution(path: &Path) -> Option<&'static str> {
    let names = names(path);
    let last = names.last()?;
    let is_it = |pattern: &str| match pattern.strip_suffix('/') {
        Some(folder) => names.iter().any(|name| fits(folder, name)),
        None => fits(pattern, last),
    };
    let is_known = |known: &str| known.split(' ').any(is_it);
    let gone_by = KNOWN_NAMES.iter().find(|(_, known)| is_known(known)).map(|(why, _)| *why);
    gone_by.or_else(|| {
        let is_as_it_looks = path.components().all(|part| {
            let name = part.as_os_str().to_str();
            name.is_some_and(|name| !name.chars().any(|c| acts_on_terminal(c) || is_unseen(c)))
        });
        (!is_as_it_looks).then_some("the name has invisible characters")
    })
}

/// Returns `true` if the content is a program, by its first bytes.
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

/// Returns `true` if a name matches a pattern, in which `*` matches any characters.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut middle: Vec<_> = rest.split('*').collect();
    let end = middle.pop().unwrap_or_default();
    for part in middle {
        // The first match leaves the most for the rest of the pattern.
        let Some((_, behind)) = name.split_once(part) else { return false };
        name = behind;
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_control_files_are_protected() {
        let guarded = ProtectedFiles::new(["/p/shelly.yaml".into()]);
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

    /// Names from practice, by the program that reads or runs them.
    const CORPUS: [(&str, &str); 10] = [
        (
            "agents",
            "CLAUDE.md CLAUDE.local.md AGENTS.md AGENTS.override.md GEMINI.md QWEN.md CRUSH.md WARP.md .cursorrules \
             .cursor/rules/a.mdc .windsurfrules .windsurf/rules/a.md .clinerules .clinerules/a.md .roo/rules/a.md .roorules \
             .roomodes .goosehints .aider.conf.yml CONVENTIONS.md .github/copilot-instructions.md \
             .github/instructions/a.instructions.md .claude/settings.json .claude/agents/a.md .claude/skills/a/SKILL.md \
             .mcp.json .cursor/mcp.json .gemini/settings.json .codex/config.toml opencode.json .opencode/agent/a.md .crush.json \
             .continue/config.yaml .junie/guidelines.md .kiro/steering/a.md .amazonq/rules/a.md .augment-guidelines .rules \
             .trae/rules/a.md shelly.yaml .shelly/context.md skills/a/SKILL.md .agent/rules/a.md .github/agents/a.agent.md \
             JULES.md .openhands/microagents/repo.md .kilocode/rules/a.md .factory/droids/a.md .idx/airules.md .ai/rules.md \
             memory-bank/brief.md .prompts/a.md  cLaUdE.Md CLAUDE.MD. claude.md::$DATA \
             CLA\u{200b}UDE.md a/b/c/AGENTS.md .CURSOR/rules/x",
        ),
        (
            "version control",
            ".git/hooks/pre-commit .git/config sub/.GIT/config sub/.gi\u{200d}t/config .gitmodules .gitattributes \
             .githooks/pre-push hooks/post-checkout sub/HEAD .lfsconfig .husky/pre-commit .pre-commit-config.yaml lefthook.yml .hg/hgrc .jj/repo/config.toml",
        ),
        (
            "continuous integration",
            ".github/workflows/ci.yml .github/dependabot.yml .gitlab-ci.yml .circleci/config.yml .travis.yml Jenkinsfile \
             azure-pipelines.yml bitbucket-pipelines.yml .drone.yml .woodpecker.yml cloudbuild.yaml buildspec.yml \
             .buildkite/pipeline.yml .build.yml .tekton/a.yaml action.yml dagger.json appveyor.yml .cirrus.yml renovate.json .forgejo/workflows/a.yml",
        ),
        (
            "editors",
            ".vscode/tasks.json .vscode/settings.json .idea/workspace.xml .devcontainer/devcontainer.json .editorconfig .exrc \
             .nvim.lua .vimrc .dir-locals.el .zed/tasks.json a.code-workspace .ycm_extra_conf.py .clangd .project .run/a.run.xml .luarc.json .vs/tasks.vs.json .helix/languages.toml",
        ),
        (
            "shells",
            ".envrc .env .env.local .bashrc .bash_profile .zshrc .zshenv .profile .inputrc .gdbinit .ssh/authorized_keys .netrc \
             .Rprofile a.desktop a.service .tmux.conf .config/fish/config.fish .config/autostart/a .ghci .iex.exs .mailcap .forward \
             Library/LaunchAgents/a .docker/config.json desktop.ini",
        ),
        (
            "builds",
            "Makefile makefile GNUmakefile rules.mk justfile .justfile Taskfile.yml Taskfile.dist.yaml CMakeLists.txt a.cmake meson.build \
             build.gradle build.gradle.kts settings.gradle gradlew pom.xml mvnw build.sbt BUILD BUILD.bazel MODULE.bazel \
             .bazelrc a.bzl Cargo.toml build.rs .cargo/config.toml rust-toolchain.toml build.zig go.mod a.csproj \
             Directory.Build.props configure configure.ac flake.nix default.nix shell.nix SConstruct wscript a.cabal dune Cargo.lock build.sh a.sln App.xcodeproj/project.pbxproj \
             conanfile.py vcpkg.json premake5.lua xmake.lua Build.PL a.nimble global.json .golangci.yml",
        ),
        (
            "packages and tests",
            "package.json package-lock.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml .npmrc .yarnrc.yml \
             .yarn/releases/yarn.cjs vite.config.ts webpack.config.js jest.config.mjs Gruntfile.js gulpfile.js deno.json \
             bunfig.toml turbo.json nx.json setup.py setup.cfg pyproject.toml tox.ini noxfile.py conftest.py pytest.ini \
             requirements.txt requirements-dev.txt Pipfile uv.lock poetry.lock sitecustomize.py a.pth Gemfile Rakefile a.gemspec \
             composer.json mix.exs rebar.config Package.swift Podfile project.clj deps.edn .tool-versions mise.toml manage.py .eslintrc.js .babelrc .prettierrc.json karma.conf.js composer.lock \
             bun.lockb deno.lock .rspec lib/tasks/a.rake .pylintrc mypy.ini .php-cs-fixer.php phpunit.xml.dist hatch_build.py",
        ),
        (
            "deployment",
            "Dockerfile Dockerfile.dev Containerfile docker-compose.yml docker-compose.override.yaml compose.yaml compose.override.yml Vagrantfile \
             Procfile main.tf fly.toml vercel.json netlify.toml wrangler.toml Tiltfile skaffold.yaml serverless.yml kustomization.yaml helmfile.yaml docker-bake.hcl cdk.json firebase.json main.bicep \
             playbook.yml",
        ),
        (
            "programs",
            "a.exe A.BAT run.cmd setup.ps1 lib/a.so lib/a.so.1 a.dll a.dylib native.node a.jar a.wasm a.pyc a.phar a.psm1 a.hta \
             node_modules/a/index.js .venv/bin/x lib/site-packages/a.py",
        ),
        ("names that are not what they seem", "a\u{1b}[2J.txt a\u{202e}txt.md a\u{7}b dir\u{2066}x/a.txt"),
    ];

    #[test]
    fn known_tool_config_names_need_caution() {
        for (class, names) in CORPUS {
            for name in names.split(' ').filter(|name| !name.is_empty()) {
                assert!(caution(&Path::new("/p").join(name)).is_some(), "{class}: {name:?}");
            }
        }
    }

    #[test]
    fn ordinary_source_names_need_no_caution() {
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
    fn pattern_fits_with_any_characters_for_each_star() {
        for (pattern, name, is_fit) in [
            ("a*.y*ml", "a.yaml", true),
            ("a*.y*ml", "a-b.yml", true),
            ("a*.y*ml", "a.yl", false),
            ("*.so.*", "liba.so.1.2", true),
            ("*.so.*", "liba.so", false),
            ("a*a", "a", false),
            ("a*b*b", "ab", false),
            ("a", "ab", false),
        ] {
            assert_eq!(fits(pattern, name), is_fit, "{pattern} {name}");
        }
    }

    #[test]
    fn file_that_an_instruction_file_links_to_is_asked_about() {
        let guarded = ProtectedFiles::new([]).with_instructions(["/p/docs/guide.md".into()]);
        assert!(guarded.caution(Path::new("/p/docs/guide.md")).is_some_and(|why| why.contains("read by agents")));
        assert!(
            guarded.caution(Path::new("/p/Docs/Guide.md")).is_some(),
            "as file systems take it that tell no case apart"
        );
        assert!(guarded.caution(Path::new("/p/docs/other.md")).is_none());
        assert!(!guarded.forbids(Path::new("/p/docs/guide.md")));
    }

    #[test]
    fn file_of_a_folder_that_is_built_is_asked_about() {
        let guarded = ProtectedFiles::new([]).with_built(["/p/dice".into()]);
        assert!(
            guarded.caution(Path::new("/p/dice/src/lib.rs")).is_some_and(|why| why.starts_with("built as soon as"))
        );
        assert!(guarded.caution(Path::new("/p/dices/src/lib.rs")).is_none(), "another folder");
        assert!(!guarded.forbids(Path::new("/p/dice/src/lib.rs")));
    }

    #[test]
    fn programs_are_recognized_by_their_first_bytes() {
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
