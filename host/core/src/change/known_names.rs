//! Names of files that programs execute or agents read as instructions.

/// The names by class, separated by blanks, each class with the reason to ask a person. `*` matches any characters; a name
/// with `/` also matches a folder with its content.
pub(super) const KNOWN_NAMES: [(&str, &str); 9] = [
    (
        "read by agents as instructions or configuration",
        ".agent.md .agent/ .agents/ .ai/ .aider* .amazonq/ .augment*/ .bolt/ .claude.json .claude/ .clinerules*/ \
         .codebuddy/ .codeium/ .coderabbit.y*ml .codex/ .cody/ .continue*/ .crush*/ .cursor/ .cursorrules .devin/ \
         .factory/ .firebender/ .gemini/ .goose*/ .idx/ .junie/ .kilocode*/ .kiro/ .lovable/ .mcp.json .mcp/ .mentat/ \
         .opencode*/ .openhands*/ .pi/ .plandex* .pr_agent.toml .prompts/ .qwen/ .replit .roo*/ .ruler/ .rules \
         .rulesync/ .shelly/ .sourcegraph/ .tabnine/ .trae/ .warp/ .windsurf*/ .zencoder/ *.agent.md *.chatmode.md \
         *.instructions.md *.mdc *.prompt.md agent.md agents.*.md agents.md airules.md antigravity.md claude.*.md \
         claude.md claude_desktop_config.json codex.md conventions.md copilot-*.md copilot-instructions.md crush.json \
         crush.md devin.md fastmcp.json gemini.md goose.yaml gptme.toml instructions.md jules.md mcp*.json mcp.json \
         mcp_*.json memory-bank/ opencode.json* qwen.md replit.md shelly.yaml skill.md sweep.y*ml system-prompt* \
         system_prompt* warp.md",
    ),
    (
        "read by version control, which may run programs that the file names",
        ".commitlintrc* .git/ .gitattributes .gitconfig .githooks/ .gitlint .gitmessage .gitmodules .hg/ .hgrc \
         .husky/ .huskyrc* .jj/ .lefthook*/ .lfsconfig .lintstagedrc* .overcommit.yml .pre-commit-config.y*ml \
         .pre-commit-hooks.y*ml .sl/ .svn/ commit-msg head lefthook.* post-checkout post-commit post-merge post-rewrite pre-commit \
         pre-merge-commit pre-push pre-rebase pre-receive prepare-commit-msg .simple-git-hooks.*",
    ),
    (
        "runs where the project is built",
        ".appveyor.yml .azure-pipelines* .build.yml .buildkite/ .builds/ .ci/ .circleci/ .cirrus.y*ml .codeship*/ \
         .concourse/ .dagger/ .drone.y*ml .forgejo/ .gitea/ .github/ .gitlab*/ .harness/ .mergify.y*ml .prow.y*ml \
         .releaserc* .screwdriver* .scrutinizer.yml .semaphore/ .teamcity/ .tekton/ .travis.y*ml .vsts-ci.yml \
         .wercker* .woodpecker*/ .zuul* action.y*ml appveyor.y*ml azure-pipelines*.y*ml bitbucket-pipelines.y*ml \
         buildspec.y*ml cloudbuild.y*ml codemagic.y*ml codeship-*.yml dagger.json jenkinsfile* \
         release-please-config.json renovate.json* screwdriver.y*ml wercker.yml zuul*",
    ),
    (
        "read by editors, which may run programs that the file names",
        ".atom/ .ccls .clangd .classpath .devcontainer*/ .dir-locals*.el .editorconfig .emacs* .exrc \
         .externaltoolbuilders/ .factorypath .fleet/ .helix/ .idea/ .ideavimrc .kakrc .kateconfig .lapce/ .luarc.json \
         .lvimrc .nanorc .neoconf.json .nvim*/ .project .projectile .run/ .settings/ .sublime* .vim*/ .vs/ .vscode/ \
         .ycm_extra_conf.py .zed/ *.code-workspace *.iml *.ipr *.launch *.sublime-* *.sublime-project *.suo \
         nbproject/",
    ),
    (
        "read by a shell, a debugger or a login session",
        ".ackrc .aws/ .bash* .bundle/ .condarc .config/ .cshrc .curlrc .direnv*/ .docker/ .emacs.d/ .env .env.* \
         .envrc .erlang .forward .gdbinit .ghci .gnupg/ .guile .iex.exs .inputrc .ipython/ .irbrc .jupyter/ .kshrc \
         .kube/ .lessfilter .lesskey .lldbinit .login .mailcap .msmtprc .muttrc .my.cnf .netrc .netrwhist .ocamlinit \
         .octaverc .pam_environment .pdbrc .pgpass .procmailrc .profile .pryrc .psqlrc .pypirc .pythonrc* .renviron \
         .rprofile .sbclrc .screenrc .sqliterc .ssh/ .tcshrc .tmux.conf .utoprc .wgetrc .xinitrc .xprofile \
         .xresources .xsession* .zlogin .zlogout .zprofile .zsh* *.desktop *.mount *.plist *.service *.socket *.timer \
         authorized_keys* autorun.inf autostart/ config.fish crontab* desktop.ini init.vim launchagents/ \
         launchdaemons/ pip.conf pip.ini startup.jl",
    ),
    (
        "read by builds, which run programs that the file names",
        ".air.toml .bazel* .buckconfig .cargo/ .golangci.y*ml .goreleaser.y*ml .justfile .luacheckrc .mill* .mvn/ \
         .sbtopts .scala-build/ *.am *.buck *.bzl *.cabal *.cake *.cmake *.csproj *.csx *.dproj *.fsproj *.gemspec \
         *.gradle *.gradle.kts *.just *.mak *.make *.mill *.mk *.nimble *.nims *.ninja *.nix *.opam *.pbxproj \
         *.podspec *.proj *.props *.rockspec *.sbt *.sln *.slnx *.targets *.vbproj *.vcproj *.vcxproj *.xcconfig \
         *.xcodeproj/ *.xcscheme *.xcworkspace/ acinclude.m4 aclocal.m4 ant.xml autogen.sh bootstrap.sh brewfile buck \
         build build.bazel build.gradle.* build.ninja build.pl build.py build.rs build.sc build.sh build.xml \
         build.zig* cabal.project* cargo.lock cargo.toml cartfile* cmakelists.txt cmakepresets.json \
         cmakeuserpresets.json conanfile.* config.guess config.sub configure configure.ac configure.in cpanfile \
         cross.toml directory.packages.props dist.ini dub.json dub.sdl dune dune-project earthfile elm.json fastfile \
         flake.lock global.json gnumakefile go.mod go.work gradle-wrapper.properties gradle.properties gradle/ \
         gradlew* guix.scm hie.yaml install-sh justfile magefile.go make.bat makefile* maven-*.xml meson.build \
         meson.options meson_options.txt module.bazel mvnw* nuget.config package.yaml packages.config paket.* \
         pants.toml pom.xml premake5.lua rules.ninja rust-toolchain* sconscript sconstruct sconstruct.py setup.hs \
         shard.yml spago.* stack.yaml taskfile*.y*ml v.mod vcpkg*.json waf workspace workspace.bazel wscript xmake.lua",
    ),
    (
        "read by package managers, builds and tests, which run programs that the file names",
        ".asdfrc .babelrc* .bunfig.toml .coveragerc .eslintrc* .flake8 .formatter.exs .mise*.toml .mocharc* \
         .node-version .npmrc .nvmrc .nycrc* .php-cs-fixer* .pnpmfile* .postcssrc* .prettierrc* .pylintrc \
         .python-version .remarkrc* .rspec .rubocop.y*ml .ruby-version .sdkmanrc .stylelintrc* .swcrc .tool-versions \
         .yarn/ .yarnrc* *.conf.cjs *.conf.js *.conf.mjs *.conf.ts *.config.cjs *.config.js *.config.mjs *.config.mts \
         *.config.ts *.pth *.rake angular.json appraisals bb.edn berksfile bower.json box.json bun.lock* bunfig.toml \
         capfile composer.json composer.lock config.ru conftest.py dangerfile deno.json* deno.lock deps.edn dodo.py \
         doit.cfg ember-cli-build.js environment.y*ml fabfile.py gemfile* gruntfile.* guardfile gulpfile.* hatch.toml \
         hatch_build.py karma.conf.* lefthook-local.* lerna.json manage.py mise*.toml mix.exs mix.lock mypy.ini \
         nest-cli.json nodemon.json noxfile.py npm-shrinkwrap.json nx.json package-lock.json package.json \
         package.swift pavement.py pdm.lock pdm.toml phpunit.xml* pipfile* pixi.toml pnpm-*.yaml pnpmfile.* podfile \
         poetry.lock project.clj pubspec.lock pubspec.y*ml pylintrc pyproject.toml pytest.ini rakefile rebar.config \
         rector.php requirements*.txt rush.json setup.cfg setup.py shadow-cljs.edn sitecustomize.py spec_helper.rb \
         tasks.py thorfile tox.ini turbo.json usercustomize.py uv.lock yarn.lock",
    ),
    (
        "defines what is started or deployed",
        ".ebextensions/ .kitchen.y*ml .platform* *.bicep *.hcl *.nomad *.tf *.tfvars *.tofu amplify.yml ansible.cfg \
         cdk.json chart.yaml cloudformation*.y*ml compose*.y*ml containerfile* devbox.json docker-bake.* \
         docker-compose*.y*ml docker-stack.y*ml dockerfile* firebase.json fly.toml helmfile.y*ml heroku.yml \
         kustomization.y*ml netlify.toml nixpacks.toml now.json playbook*.y*ml procfile* pulumi.yaml railway.* \
         render.y*ml samconfig.toml serverless.y*ml skaffold.yaml terragrunt.hcl tiltfile vagrantfile vercel.json \
         wrangler.toml",
    ),
    (
        "a program, or loaded as one",
        ".nox/ .tox/ .venv/ *.appimage *.bat *.cmd *.com *.command *.cpl *.crx *.deb *.dll *.docm *.dylib *.dylib.* \
         *.elc *.exe *.hta *.inf *.jar *.jse *.ko *.lnk *.msi *.node *.ocx *.phar *.pif *.pkg *.ps1 *.psd1 *.psm1 \
         *.pyc *.pyd *.pyo *.pyz *.reg *.rpm *.run *.scpt *.scr *.so *.so.* *.sys *.url *.vbe *.vbs *.vsix *.war \
         *.wasm *.webloc *.whl *.workflow/ *.wsf *.wsh *.xlsm __pycache__/ bower_components/ node_modules/ \
         site-packages/ venv/",
    ),
];
