//! The mend of a failed build, in the words of the author's language.

use crate::{
    contract::{NEWEST, interface_of, want_of},
    language::PluginLanguage,
    plugin_project::PluginProject,
    project_kind::ProjectKind,
};

/// Returns the cause of a failure and its mend, from the last lines of the tool that failed. The cause is `None` if the tool
/// has said it where nobody misses it.
pub(crate) fn of_tool(project: &PluginProject, last: &[String]) -> (Option<String>, String) {
    match project.language {
        PluginLanguage::Python => of_python(last),
        PluginLanguage::JavaScript | PluginLanguage::TypeScript => of_javascript(project.language, last),
        PluginLanguage::Rust => (None, of_rust(last)),
        PluginLanguage::Go | PluginLanguage::C => (None, of_compiler(project.language, last)),
    }
}

fn of_python(last: &[String]) -> (Option<String>, String) {
    // Above it is what Python itself says, with the line.
    let cause = last.iter().rposition(|line| line.trim() == "Caused by:").and_then(|at| last.get(at + 1));
    let cause = cause.or(last.iter().rev().find(|line| !line.trim().is_empty())).map(|line| line.trim().to_owned());
    let text = cause.as_deref().unwrap_or_default();
    let hint = if let Some(class) = between(text, "has no attribute '", "'") {
        match class {
            "WitWorld" => "define `class WitWorld(wit_world.WitWorld)` in the module: the world exports it".into(),
            class if is_kind(class) => format!("write `{class} = export(…)` in the module: the world exports it"),
            class => format!("define `class {class}(exports.{class})` in the module: the world exports it"),
        }
    } else if text.contains("abstract method") {
        let class = between(text, "abstract class ", " ").unwrap_or("that exports it");
        let (_, listed) = text.split_once("abstract method").unwrap_or_default();
        let methods = listed.split('\'').skip(1).step_by(2).map(|method| format!("`def {method}(self, …)`"));
        let methods: Vec<_> = methods.collect();
        format!("define {} in the class {class}", methods.join(" and "))
    } else if let Some(module) = missing_import(text) {
        interface_hint(PluginLanguage::Python, &module.replace('_', "-"))
    } else if text.contains("No module named 'shelly_plugin'") {
        "the SDK is missing: shelly-host plugin new writes it into shelly_plugin of a new project".into()
    } else if let Some(module) = between(text, "No module named '", "'") {
        format!(
            "put the module `{module}` beside the plugin; a package without compiled parts can be installed there: pip \
             install --target . {}",
            module.split('.').next().unwrap_or(module)
        )
    } else if text.contains("Unable to resolve") {
        "name the world in plugin.toml: `world = \"…\"` under [build]".into()
    } else {
        "correct the Python code: the module is loaded once while it is built".into()
    };
    (cause, hint)
}

/// Returns `true` for the class of a kind of the contract, such as `RunMiddleware`.
fn is_kind(class: &str) -> bool {
    ProjectKind::ALL.iter().any(|kind| kind.name().replace('-', "").eq_ignore_ascii_case(class))
}

/// Returns the import of the world that Python code names and the world does not have.
fn missing_import(text: &str) -> Option<&str> {
    match between(text, "cannot import name '", "'") {
        Some(name) if text.contains("from 'wit_world.imports'") => Some(name),
        _ => between(text, "No module named 'wit_world.imports.", "'"),
    }
}

fn of_javascript(language: PluginLanguage, last: &[String]) -> (Option<String>, String) {
    let extension = if language == PluginLanguage::TypeScript { "ts" } else { "js" };
    let text = last.join("\n");
    // Types that fail, and sources that cannot be bundled, are shown with their places.
    let unknown = ["TS2307: Cannot find module '", "for side-effect import of '"];
    if let Some(module) = unknown.iter().find_map(|words| between(&text, words, "'")) {
        return (None, module_hint(language, module));
    }
    if let Some(module) = between(&text, "Could not resolve \"shelly:", "\"") {
        return (None, module_hint(language, &format!("shelly:{module}")));
    }
    if text.contains("error TS") || text.contains("✘ [ERROR]") {
        return (None, "correct what the compiler says above; types/ is written anew from wit/ at each build".into());
    }
    let is_error = |line: &&String| {
        let word = line.split_once(": ").map_or("", |(word, _)| word);
        word.ends_with("Error")
            && !line.contains("Unable to extract")
            && !line.starts_with("Error: Failed to initialize")
    };
    let cause = last.iter().find(is_error).or(last.iter().find(|line| line.contains("Error: ")));
    let cause = cause.map(|line| line.trim().to_owned());
    let hint = if let Some(export) = between(&text, "does not export a \"", "\"") {
        match between(&text, &format!("\"{export}\" "), " function as expected") {
            Some(function) => {
                let interface = interface_of(export).unwrap_or(export);
                format!("add the function `{function}` to what src/plugin.{extension} exports for `{interface}`")
            }
            None => format!("write `export const {export} = {{ … }};` in src/plugin.{extension}: the world exports it"),
        }
    } else if let Some(module) = between(&text, "Error loading module \"", "\"") {
        module_hint(language, module)
    } else if let Some(function) = between(&text, "doesn't provide an export named: '", "'") {
        format!("no imported interface has a function `{function}`; wit/ says what there is")
    } else if text.contains("failed to parse JS source") {
        "correct the source: `node --check` with its name says where the mistake is".into()
    } else {
        "correct the code: it runs once while it is built".into()
    };
    (cause, hint)
}

/// Returns the mend of a module of JavaScript that was not found.
fn module_hint(language: PluginLanguage, module: &str) -> String {
    match interface_of(module) {
        Some(interface) if module.contains('@') => import_hint(language, interface, module),
        Some(interface) => interface_hint(language, interface),
        None if module.contains(':') => {
            format!("add `import {module};` to the world in wit/, with its package in wit/deps")
        }
        None if language == PluginLanguage::TypeScript => format!("install the package: npm install {module}"),
        None => format!(
            "`{module}` is a package: use a project in TypeScript, whose build bundles packages, or import files of the \
             project alone"
        ),
    }
}

/// Returns the mend for an interface of the contract that code uses and the world does not import, in the version of the
/// SDKs.
fn interface_hint(language: PluginLanguage, interface: &str) -> String {
    import_hint(language, interface, &NEWEST.qualified(interface))
}

/// Returns the mend for an interface of the contract that the world does not import by this name.
fn import_hint(language: PluginLanguage, interface: &str, name: &str) -> String {
    let place = language.world_place();
    match want_of(interface) {
        Some(want) => {
            format!("add `import {name};` to the world in {place}, and `{want}` under [wants] in plugin.toml")
        }
        None => format!("add `import {name};` to the world in {place}"),
    }
}

fn of_rust(last: &[String]) -> String {
    let text = last.join("\n");
    if text.contains("can't find crate for `std`") || text.contains("can't find crate for `core`") {
        return "add the target: rustup target add wasm32-unknown-unknown".into();
    }
    if text.contains("is not supported on this platform") || text.contains("use of undeclared crate or module `libc`") {
        return "a crate needs an operating system: look for a feature that turns that off, or for another crate"
            .into();
    }
    if text.contains("no matching package named `shelly-plugin`") || text.contains("vendor/shelly-plugin") {
        return "the SDK is missing: shelly-host plugin new writes it into vendor/shelly-plugin of a new project"
            .into();
    }
    "correct what the compiler says above".into()
}

fn of_compiler(language: PluginLanguage, last: &[String]) -> String {
    let text = last.join("\n");
    if text.contains("'shelly/shelly.h' file not found") || text.contains("shelly/shelly.h: No such file") {
        return "the SDK is missing: shelly-host plugin new writes it into shelly of a new project".into();
    }
    if text.contains("replacement directory ./shelly-plugin does not exist") {
        return "the SDK is missing: shelly-host plugin new writes it into shelly-plugin of a new project".into();
    }
    if text.contains("'stdio.h' file not found") || text.contains("cannot find -lc") {
        return "the compiler has no C library for WASI: pip install ziglang, or install wasi-sdk".into();
    }
    if text.contains("undefined symbol: ") || text.contains("undefined reference") {
        return "define the function, or add the file that does; all files that end in .c are compiled".into();
    }
    match language {
        PluginLanguage::Go if text.contains("go: cannot find main module") => "add a go.mod: go mod init NAME".into(),
        _ => "correct what the compiler says above".into(),
    }
}

/// Returns the mend for a core module that does not fit its world.
pub(crate) fn of_module(language: PluginLanguage, cause: &str) -> String {
    if let Some(interface) = between(cause, "failed to find export of interface `", "`") {
        let function = between(cause, "` function `", "`").unwrap_or_default();
        return kind_hint(language, interface)
            .unwrap_or_else(|| export_hint(language, &format!("{interface}#{function}")));
    }
    if let Some(function) = between(cause, "failed to find export of function `", "`") {
        return export_hint(language, function);
    }
    if let Some(module) = between(cause, "import interface named `", "`") {
        return match module {
            "env" => "the module calls a function that nothing defines: define it, or remove the call".into(),
            module => module_hint(language, module),
        };
    }
    if cause.contains("type mismatch") || cause.contains("failed to validate") {
        return "the parameters or the result are not those of the function in wit/: a string or list is a pointer and a length, \
                a larger result a pointer (the canonical ABI)"
            .into();
    }
    if cause.contains("cabi_realloc") || cause.contains("realloc") {
        return export_hint(language, "cabi_realloc");
    }
    "compare the functions that the code exports and imports with the world in wit/".into()
}

/// Returns the mend for a kind of the contract that the world exports and the module does not, in a language whose SDK has
/// it.
fn kind_hint(language: PluginLanguage, interface: &str) -> Option<String> {
    let kind = interface_of(interface)?;
    match language {
        PluginLanguage::Go => {
            let package = kind.replace('-', "");
            Some(format!(
                "import `shelly-plugin/{package}`, and call `{package}.Register(…)` in an init function: the world exports it"
            ))
        }
        PluginLanguage::C => {
            let part = if kind == "tool" { "TOOLS".to_owned() } else { kind.replace('-', "_").to_uppercase() };
            Some(format!("write `SHELLY_{part}(…);` at the end of the source: the world exports it"))
        }
        _ => None,
    }
}

/// Returns the mend for a function that the world exports and the module does not.
fn export_hint(language: PluginLanguage, name: &str) -> String {
    match language {
        PluginLanguage::Go => {
            format!("write `//go:wasmexport {name}` above the function, in a file that is built for wasm")
        }
        PluginLanguage::C => format!("write `__attribute__((export_name(\"{name}\")))` before the function"),
        _ => format!("export the function `{name}`"),
    }
}

/// Returns the mend for an import that the manifest does not ask for. `line` is what it would need under `[wants]`.
pub fn undeclared_import(language: PluginLanguage, import: &str, line: &str) -> String {
    let without = match (language, interface_of(import)) {
        (PluginLanguage::Rust, Some(interface)) => {
            format!("remove the calls of `shelly_plugin::{}`", interface.replace('-', "_"))
        }
        (PluginLanguage::Go | PluginLanguage::C, _) => "remove what calls it".into(),
        (PluginLanguage::Rust, None) => "remove what calls it".into(),
        (_, _) if import.starts_with("wasi:") => "remove what needs it".into(),
        (_, _) => "remove the import from the world in wit/".into(),
    };
    format!("write `{line}` under [wants] in plugin.toml, or {without}")
}

/// Returns the mend for a component that exports other kinds than the manifest says; `exported` is empty if it exports none.
pub fn other_kinds(language: PluginLanguage, declared: &str, exported: &str) -> String {
    let export = match language {
        PluginLanguage::Rust => "name them in `shelly_plugin::export!` in src/lib.rs",
        PluginLanguage::Python => "export them from the world in wit/, and from app.py: `Effect = export(…)`",
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => {
            "export them from the world in wit/, and from the source of the plugin"
        }
        PluginLanguage::Go => "import the packages of these kinds, and call their `Register`",
        PluginLanguage::C => "write the macros of these kinds, such as `SHELLY_EFFECT(…)`",
    };
    match exported {
        "" => format!("plugin.toml says kinds = [{declared}]: {export}"),
        exported => format!("write kinds = [{exported}] in plugin.toml; or, for [{declared}], {export}"),
    }
}

/// Returns the text between two others, of the first place where both are.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside).filter(|inside| !inside.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{javascript_engine::JavaScriptEngine, plugin_project::ProjectSettings};

    fn of(language: PluginLanguage, output: &str) -> (Option<String>, String) {
        let project = PluginProject {
            folder: "/p".into(),
            language,
            engine: JavaScriptEngine::default(),
            settings: ProjectSettings::default(),
            build_folder: "/p/build".into(),
        };
        let last: Vec<_> = output.lines().map(str::to_owned).collect();
        of_tool(&project, &last)
    }

    #[test]
    fn python_error_leads_to_a_mend_in_python() {
        for (error, says) in [
            ("AttributeError: module 'app' has no attribute 'Tool'", "write `Tool = export(…)` in the module"),
            ("AttributeError: module 'app' has no attribute 'RunMiddleware'", "write `RunMiddleware = export(…)`"),
            ("AttributeError: module 'app' has no attribute 'Own'", "define `class Own(exports.Own)` in the module"),
            ("AttributeError: module 'app' has no attribute 'WitWorld'", "define `class WitWorld(wit_world.WitWorld)`"),
            (
                "TypeError: Can't instantiate abstract class Tool without an implementation for abstract methods 'call', 'specs'",
                "define `def call(self, …)` and `def specs(self, …)` in the class Tool",
            ),
            (
                "ImportError: cannot import name 'http' from 'wit_world.imports' (/world/wit_world/imports/__init__.py)",
                "add `import shelly:plugin/http@0.2.0;` to the world in wit/, and `http = true` under [wants]",
            ),
            ("ModuleNotFoundError: No module named 'wit_world.imports.kv'", "`import shelly:plugin/kv@0.2.0;`"),
            ("ModuleNotFoundError: No module named 'yaml.x'", "pip install --target . yaml"),
            ("ModuleNotFoundError: No module named 'shelly_plugin'", "plugin new writes it into shelly_plugin"),
            ("SyntaxError: invalid syntax (app.py, line 1)", "correct the Python code"),
        ] {
            let output =
                format!("Traceback (most recent call last):\nAssertionError: {error}\n\n\nCaused by:\n    {error}\n");
            let (cause, hint) = of(PluginLanguage::Python, &output);
            assert_eq!(cause.as_deref(), Some(error));
            assert!(hint.contains(says), "{error}\n{hint}");
        }
        assert_eq!(of(PluginLanguage::Python, "").0, None);
    }

    #[test]
    fn javascript_error_leads_to_a_mend_in_javascript() {
        let js = PluginLanguage::JavaScript;
        for (output, cause, says) in [
            (
                "    throw new Error(msg);\nError: Unable to extract expected exports list\nError: \"source.js\" does not export a \
                 \"tool\" interface as expected by the world.\n  Try defining it by its alias:",
                "Error: \"source.js\" does not export a \"tool\" interface as expected by the world.",
                "write `export const tool = { … };` in src/plugin.js",
            ),
            (
                "Error: Unable to extract expected exports list\nError: \"source.js\" does not export a \
                 \"shelly:plugin/tool@0.1.0\" call function as expected by the world.",
                "Error: \"source.js\" does not export a \"shelly:plugin/tool@0.1.0\" call function as expected by the world.",
                "add the function `call` to what src/plugin.js exports for `tool`",
            ),
            (
                "Error: Failed to initialize component (wizer (/x/wizer)):\nException while evaluating top-level script\n\
                 ReferenceError: Error loading module \"shelly:plugin/http@0.1.0\" (resolved path \"x\"): No such file or directory",
                "ReferenceError: Error loading module \"shelly:plugin/http@0.1.0\" (resolved path \"x\"): No such file or directory",
                "add `import shelly:plugin/http@0.1.0;` to the world in wit/, and `http = true` under [wants]",
            ),
            (
                "ReferenceError: Error loading module \"lodash\" (resolved path \"x\"): No such file or directory",
                "ReferenceError: Error loading module \"lodash\" (resolved path \"x\"): No such file or directory",
                "use a project in TypeScript",
            ),
            (
                "Error: Failed to initialize component (wizer (/x/wizer)):\njs/plugin.js:1:10 SyntaxError: The requested module \
                 '<internal>' doesn't provide an export named: 'wrte'",
                "js/plugin.js:1:10 SyntaxError: The requested module '<internal>' doesn't provide an export named: 'wrte'",
                "no imported interface has a function `wrte`",
            ),
            (
                "Error: failed to parse JS source, encountered [1] errors",
                "Error: failed to parse JS source, encountered [1] errors",
                "`node --check`",
            ),
        ] {
            let (found, hint) = of(js, output);
            assert_eq!(found.as_deref(), Some(cause));
            assert!(hint.contains(says), "{output}\n{hint}");
        }
    }

    #[test]
    fn typescript_error_leads_to_a_mend_in_typescript() {
        let ts = PluginLanguage::TypeScript;
        for (output, says) in [
            (
                "src/plugin.ts(1,22): error TS2307: Cannot find module 'shelly:plugin/kv@0.1.0' or its corresponding type declarations.",
                "`import shelly:plugin/kv@0.1.0;`",
            ),
            ("src/plugin.ts(1,22): error TS2307: Cannot find module 'lodash' or its", "npm install lodash"),
            (
                "src/plugin.ts(2,8): error TS2882: Cannot find module or type declarations for side-effect import of 'a:b/c@1.0.0'.",
                "add `import a:b/c@1.0.0;` to the world in wit/",
            ),
            (
                "src/plugin.ts(1,22): error TS2322: Type 'string' is not assignable to type 'number'.",
                "correct what the compiler says",
            ),
            ("✘ [ERROR] Could not resolve \"shelly:plugin/kv@0.1.0\"", "`import shelly:plugin/kv@0.1.0;`"),
        ] {
            let (cause, hint) = of(ts, output);
            assert_eq!(cause, None, "it is shown above, with its place");
            assert!(hint.contains(says), "{output}\n{hint}");
        }
    }

    #[test]
    fn compiler_error_leads_to_a_mend() {
        for (language, output, says) in [
            (
                PluginLanguage::C,
                "wasm-ld: error: x.o: undefined symbol: counts",
                "all files that end in .c are compiled",
            ),
            (PluginLanguage::C, "plugin.c:1:10: fatal error: 'stdio.h' file not found", "pip install ziglang"),
            (PluginLanguage::Go, "go: cannot find main module, but found .git/config", "go mod init"),
            (PluginLanguage::Go, "./plugin.go:3:2: undefined: x", "correct what the compiler says above"),
            (
                PluginLanguage::Go,
                "go: shelly-plugin@v0.0.0 (replaced by ./shelly-plugin): reading shelly-plugin/go.mod: replacement directory \
                 ./shelly-plugin does not exist",
                "writes it into shelly-plugin of a new project",
            ),
            (
                PluginLanguage::C,
                "plugin.c:2:10: fatal error: 'shelly/shelly.h' file not found",
                "writes it into shelly of a new project",
            ),
            (PluginLanguage::Rust, "error[E0463]: can't find crate for `std`", "rustup target add"),
            (PluginLanguage::Rust, "error: no matching package named `shelly-plugin` found", "vendor/shelly-plugin"),
            (PluginLanguage::Rust, "error[E0308]: mismatched types", "correct what the compiler says above"),
        ] {
            let hint = of(language, output).1;
            assert!(hint.contains(says), "{output}\n{hint}");
        }
    }

    #[test]
    fn module_that_does_not_fit_leads_to_a_mend() {
        let missing = "failed to decode world from module: failed to find export of interface `shelly:plugin/tool@0.1.0` function `call`";
        for (language, cause, says) in [
            (PluginLanguage::Go, missing, "import `shelly-plugin/tool`, and call `tool.Register(…)`"),
            (PluginLanguage::C, missing, "write `SHELLY_TOOLS(…);`"),
            (
                PluginLanguage::Go,
                "failed to find export of interface `shelly:plugin/run-middleware@0.1.0` function `after`",
                "call `runmiddleware.Register(…)`",
            ),
            (
                PluginLanguage::C,
                "failed to find export of interface `shelly:plugin/run-middleware@0.1.0` function `after`",
                "write `SHELLY_RUN_MIDDLEWARE(…);`",
            ),
            (
                PluginLanguage::Go,
                "failed to find export of interface `my:own/x` function `f`",
                "`//go:wasmexport my:own/x#f`",
            ),
            (PluginLanguage::Go, "failed to find export of function `count`", "`//go:wasmexport count`"),
            (PluginLanguage::C, "failed to find export of function `count`", "export_name(\"count\")"),
            (PluginLanguage::C, "module requires an import interface named `env`", "that nothing defines"),
            (
                PluginLanguage::Go,
                "module requires an import interface named `shelly:plugin/http@0.1.0`",
                "add `import shelly:plugin/http@0.1.0;` to the world in wit/",
            ),
            (PluginLanguage::Go, "module requires an import interface named `my:own/x`", "add `import my:own/x;`"),
            (
                PluginLanguage::C,
                "type mismatch for function `count`: expected `[I32, I32] -> [I32]`",
                "the canonical ABI",
            ),
        ] {
            let hint = of_module(language, cause);
            assert!(hint.contains(says), "{cause}\n{hint}");
        }
    }

    #[test]
    fn undeclared_import_and_kind_lead_to_a_mend() {
        let hint = undeclared_import(PluginLanguage::Rust, "shelly:plugin/http@0.1.0", "http = true");
        assert_eq!(
            hint,
            "write `http = true` under [wants] in plugin.toml, or remove the calls of `shelly_plugin::http`"
        );
        let hint = undeclared_import(PluginLanguage::Python, "shelly:plugin/kv@0.1.0", "kv = true");
        assert!(hint.ends_with("or remove the import from the world in wit/"), "{hint}");
        assert!(other_kinds(PluginLanguage::Rust, "\"tool\"", "").contains("shelly_plugin::export!"));
        assert!(
            other_kinds(PluginLanguage::Python, "\"tool\"", "\"effect\"").starts_with("write kinds = [\"effect\"]")
        );
    }
}
