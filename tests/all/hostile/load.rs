//! Errors that are found before a plugin's first call.

use std::{fs, time::Instant};

use shelly_host::{capability::Grant, limits, plugin::Plugin};

use super::{
    Packed, engine,
    guest::{self, Guest, Image, Spec},
    hasty_engine, pack, settings, told,
};

/// Returns the outcome of loading, with everything granted that the manifest asks for.
async fn loaded(packed: &Packed) -> String {
    packed.load(engine()).await.map_or_else(|error| error, |_| "loaded".into())
}

fn text(component: &str) -> Vec<u8> {
    wat::parse_str(component).unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn ungranted_import_is_refused_by_name() {
    for (import, interface, wants) in [
        (guest::CLOCK, "shelly:plugin/clock@0.1.0", "clock = true"),
        (guest::RANDOM, "shelly:plugin/random@0.1.0", "random = true"),
        (guest::CHAT, "shelly:plugin/chat@0.1.0", "chat = true"),
        (guest::KV, "shelly:plugin/kv@0.1.0", "kv = true"),
        (guest::FILES, "wasi:filesystem/types@0.2.0", "files = \"read\""),
    ] {
        let named = interface.split('/').next().unwrap();
        // An import that no code uses is left out of the component.
        let component = Guest::tool().import(import).with(&uses(import)).component();
        let unasked = pack(&["tool"], "", &component);
        let error = told(unasked.package.as_ref().unwrap_err());
        assert!(error.contains(&format!("imports `{interface}`")) && error.contains(&format!("`{wants}`")), "{error}");

        let asked = pack(&["tool"], &format!("wants = {{ {wants} }}"), &component);
        let refused = Plugin::load(engine(), asked.package.as_ref().unwrap(), &settings(Grant::default())).await;
        let error = told(&refused.err().unwrap());
        for part in ["agent `helper`", named, "agents.helper.plugins.hostile", wants.split(' ').next().unwrap()] {
            assert!(error.contains(part), "{part}: {error}");
        }

        assert_eq!(loaded(&asked).await, "loaded", "{interface}");
    }
}

/// An export that keeps the first function of these imports in the component.
fn uses(imports: &str) -> String {
    let name = imports.split("(func ").nth(1).unwrap().split_whitespace().next().unwrap();
    format!("(table funcref (elem {name}))")
}

#[tokio::test]
async fn unknown_import_or_export_is_refused_by_name() {
    let import =
        |kinds: &'static [&'static str], import| Guest::of(kinds).import(import).with(&uses(import)).component();
    let exports = |name: &str| text(&format!("(component (instance $i) (export \"{name}\" (instance $i)))"));
    let imports = |name: &str| {
        text(&format!(
            "(component (import \"{name}\" (instance (export \"f\" (func)))) (instance $i) (export \"shelly:plugin/tool@0.1.0\" (instance $i)))"
        ))
    };
    let effect = "[effect]\nphases = [\"before-model\"]";
    for (kinds, manifest, component, says) in [
        (
            &["tool"][..],
            "",
            import(&["tool"], guest::PROCESS),
            "imports `shelly:plugin/process@0.1.0`, but its plugin.toml does not request it",
        ),
        (&["tool"], "", import(&["tool"], guest::SINK), "imports `shelly:plugin/sink@0.1.0`, which is only for"),
        (
            &["effect"],
            effect,
            import(&["effect"], guest::PROGRESS),
            "imports `shelly:plugin/progress@0.1.0`, which is only for",
        ),
        (&["tool"], "", imports("wasi:sockets/tcp@0.2.0"), "imports `wasi:sockets/tcp@0.2.0`, but its plugin.toml"),
        (&["tool"], "", imports("wasi:sockets/tcp@0.3.0"), "imports `wasi:sockets/tcp@0.3.0`, which this version"),
        (&["tool"], "", imports("wasi:nn/tensor@0.2.0"), "imports `wasi:nn/tensor@0.2.0`, which this version"),
        (&["tool"], "", imports("log"), "imports `log`, which this version"),
        (&["tool"], "", imports("other:plugin/log@0.1.0"), "imports `other:plugin/log@0.1.0`, which this version"),
        (
            &["tool"],
            "",
            imports("shelly:plugin/log@0.3.0"),
            "the component imports `shelly:plugin/log@0.3.0`, but this host supports versions 0.1.0 and 0.2.0 of the \
             contract\nupgrade shelly-host, or rebuild the plugin",
        ),
        (
            &["tool"],
            "",
            imports("shelly:plugin/log@0.2.0"),
            "the component uses two versions of the contract: `shelly:plugin/tool@0.1.0` and `shelly:plugin/log@0.2.0`\n\
             rebuild the plugin with one version",
        ),
        (
            &["tool"],
            "",
            exports("shelly:plugin/tool@1.0.0"),
            "the component exports `shelly:plugin/tool@1.0.0`, but this host supports versions 0.1.0 and 0.2.0 of the \
             contract\nupgrade shelly-host, or rebuild the plugin",
        ),
        (
            &["tool"],
            "",
            exports("shelly:plugin/tool"),
            "the component exports `shelly:plugin/tool`, but this host supports versions 0.1.0 and 0.2.0 of the \
             contract\nrebuild the plugin",
        ),
        (&["tool"], "", exports("shelly:plugin/log@0.1.0"), "the component exports no kind"),
        (
            &["coordinator"],
            "",
            import(&["coordinator"], guest::PROGRESS),
            "imports `shelly:plugin/progress@0.1.0`, which is only for",
        ),
        (
            &["run-middleware"],
            "",
            import(&["run-middleware"], guest::CHAT),
            "which is only for plugins of kind `effect` or `tool` or `coordinator`",
        ),
        (
            &["tool"],
            "",
            import(&["provider"], guest::LOG),
            "declares the kinds [\"tool\"], but the component exports [\"provider\"]",
        ),
        (
            &["tool", "provider"],
            "",
            import(&["tool"], guest::LOG),
            "declares the kinds [\"tool\", \"provider\"], but the component exports [\"tool\"]",
        ),
    ] {
        let refused = pack(kinds, manifest, &component).package.map(|_| ()).map_err(|error| told(&error));
        let error = refused.expect_err(says);
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn function_of_the_wrong_type_is_refused_at_load() {
    for (kind, functions) in [
        ("tool", &["specs", "call"][..]),
        ("tool", &["specs"]),
        ("tool", &[]),
        ("effect", &["eval"]),
        ("run-middleware", &["before", "after"]),
        ("provider", &["complete"]),
        ("provider", &["other"]),
        ("coordinator", &["next"]),
        ("coordinator", &[]),
    ] {
        let functions: String = functions.iter().map(|name| format!("(export \"{name}\" (func $f))")).collect();
        let component = text(&format!(
            "(component
               (core module $m (func (export \"f\") (result i32) (i32.const 0)))
               (core instance $i (instantiate $m))
               (func $f (result u32) (canon lift (core func $i \"f\")))
               (instance $kind {functions})
               (export \"shelly:plugin/{kind}@0.1.0\" (instance $kind)))"
        ));
        let manifest = if kind == "effect" { "[effect]\nphases = [\"before-model\"]" } else { "" };
        let error = loaded(&pack(&[kind], manifest, &component)).await;
        assert!(error.starts_with("plugin `hostile` cannot be prepared to run\n"), "{kind} {functions}: {error}");
    }
    let import = text(
        "(component
           (import \"shelly:plugin/log@0.1.0\" (instance (export \"write\" (func))))
           (instance $kind) (export \"shelly:plugin/tool@0.1.0\" (instance $kind)))",
    );
    let error = loaded(&pack(&["tool"], "", &import)).await;
    assert!(error.contains("shelly:plugin/log@0.1.0"), "{error}");
}

#[tokio::test]
async fn compatible_interface_version_is_accepted() {
    let component = Guest::tool().component();
    let renamed = replace(&component, b"@0.1.0", b"@0.1.7");
    assert_ne!(renamed, component);
    assert_eq!(loaded(&pack(&["tool"], "", &renamed)).await, "loaded");
}

pub fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
    bytes
}

#[tokio::test]
async fn plugin_that_fails_its_probe_is_not_loaded() {
    let start = |body: &str| Guest::tool().with(&format!("(func $start {body}) (start $start)"));
    const LOOP: &str = "(loop $for-ever (br $for-ever))";
    let log = Guest::tool().import(guest::CLOCK).on("specs", "(drop (call $now))");
    for (guest, says) in [
        (Guest::tool().on("specs", "unreachable"), "crashed: wasm trap: wasm `unreachable`"),
        (Guest::tool().on("specs", LOOP), "timed out after 0.4 seconds"),
        (Guest::tool().answer("specs", |image| image.failure(8, [0, 0])), "failed at load"),
        (start("unreachable"), "crashed: wasm trap: wasm `unreachable`"),
        (start(LOOP), "timed out after 0.4 seconds"),
        (start("(drop (memory.grow (i32.const 2100))) unreachable"), "needs more than 128 MiB of memory"),
        (log, "failed at load"),
    ] {
        let started = Instant::now();
        let packed = pack(&["tool"], "wants = { clock = true }", &guest.component());
        let error = packed.load(hasty_engine()).await.err().unwrap();
        assert!(error.contains("failed at load") && error.contains(says), "{error}");
        assert!(started.elapsed() < limits::PROBE_TIME);
    }
}

#[tokio::test]
async fn invalid_tool_specs_are_refused() {
    let named = |name: &str| Spec { name: name.into(), ..Spec::default() };
    let schema = |schema: &str| Spec { schema: schema.into(), ..Spec::default() };
    let described = |bytes| Spec { description: "x".repeat(bytes), ..Spec::default() };
    let many = |count, bytes| (0..count).map(|n| Spec { name: format!("t{n}"), ..described(bytes) }).collect();
    let padded = |bytes| schema(&format!("{{\"type\":\"object\",\"x\":\"{}\"}}", "x".repeat(bytes)));
    let longest = limits::TOOL_DESCRIPTION_BYTES;
    let said = |description: &str| Spec { description: description.into(), ..Spec::default() };
    let deep = |depth| format!("{{\"type\":\"object\",\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let cases: [(Vec<Spec>, &str); 22] = [
        (many(limits::TOOLS_PER_PLUGIN, 0), "loaded"),
        (many(limits::TOOLS_PER_PLUGIN + 1, 0), "the plugin has 129 tools, the maximum is 128"),
        (vec![described(longest)], "loaded"),
        (vec![described(longest + 1)], "the description of `t` has 8193 bytes, the maximum is 8192"),
        (vec![padded(limits::TOOL_SCHEMA_BYTES)], "the maximum is 65536"),
        (many(limits::SPECS_BYTES / longest, longest - 20), "loaded"),
        (many(limits::SPECS_BYTES / longest, longest), "the maximum is 524288"),
        (vec![named("read file")], "invalid tool name `read file`"),
        (vec![named("\x1b[2J")], "invalid tool name `\\u{1b}[2J`"),
        (vec![named(&"x".repeat(1 << 20))], "the maximum is 524288"),
        (vec![named("t"), named("t")], "two of its tools have the name `t`"),
        (vec![schema("[")], "the schema of `t` is not JSON"),
        (vec![schema("{\"type\":\"string\"}")], "set its `type` to \"object\""),
        (vec![schema(&deep(limits::TOOL_SCHEMA_DEPTH - 1))], "loaded"),
        (vec![schema(&deep(limits::TOOL_SCHEMA_DEPTH))], "the schema of `t` has more than 32 nested lists and objects"),
        (vec![schema(&deep(10_000))], "the schema of `t`"),
        (
            vec![said("Reads.\r\n\tÄpfel, \u{1f469}\u{200d}\u{1f680} \u{2764}\u{fe0f}, \u{6cc}\u{200c}\u{6a9}")],
            "loaded",
        ),
        (vec![said("Reads\x07")], "the description of `t` has the invisible character U+0007"),
        (vec![said("Reads \u{202e}sdaer")], "has the invisible character U+202E"),
        (vec![said("Reads\u{e0069}\u{e0067}")], "has the invisible character U+E0069"),
        (vec![schema(r#"{"type":"object","x":"\u200b"}"#)], "the schema of `t` has the invisible character U+200B"),
        (vec![schema(r#"{"type":"object","a\u2066":1}"#)], "the schema of `t` has the invisible character U+2066"),
    ];
    for (specs, says) in cases {
        let guest = Guest::tool().answer("specs", |image: &mut Image| image.specs(&specs));
        let error = loaded(&pack(&["tool"], "", &guest.component())).await;
        assert!(error.contains(says), "{says}: {}", &error[..error.len().min(500)]);
        assert!(error.len() < 1_000, "{says}");
    }
}

#[tokio::test]
async fn component_over_the_host_limits_is_refused() {
    let tool = |fields: &str| {
        text(&format!("(component {fields} (instance $i) (export \"shelly:plugin/tool@0.1.0\" (instance $i)))"))
    };
    let module = |fields: &str| tool(&format!("(core module $m {fields}) (core instance (instantiate $m))"));
    let instances = |count| tool(&format!("(core module $m) {}", "(core instance (instantiate $m))".repeat(count)));
    let pages = |bytes: usize| bytes >> 16;
    for (component, says) in [
        (module(&"(memory 0)".repeat(limits::PLUGIN_MEMORIES as usize + 1)), "memories"),
        (module(&"(table 0 funcref)".repeat(limits::PLUGIN_TABLES as usize + 1)), "tables"),
        (module(&format!("(memory {})", pages(limits::PLUGIN_MEMORY_CEILING) + 1)), "memory"),
        (module(&format!("(table {} funcref)", limits::PLUGIN_TABLE_ELEMENTS_CEILING + 1)), "table"),
    ] {
        let error = loaded(&pack(&["tool"], "", &component)).await;
        assert!(error.starts_with("plugin `hostile` cannot be prepared to run") && error.contains(says), "{error}");
    }
    // What would keep the compiler busy for long.
    let large = format!("(func {})", "(drop (i32.const 0))".repeat(limits::FUNCTION_BYTES / 3));
    let pages_of_code = format!("(func {})", "(drop (i32.const 0))".repeat(limits::FUNCTION_BYTES / 3 - 10));
    for (component, says) in [
        (instances(limits::PLUGIN_CORE_INSTANCES_CEILING + 1), "257 core instances"),
        (module(&"(func)".repeat(limits::COMPONENT_FUNCTIONS + 1)), "100001 functions"),
        (module(&large), "bytes in one function"),
        (module(&pages_of_code.repeat(limits::COMPONENT_CODE_BYTES / limits::FUNCTION_BYTES + 1)), "bytes of code"),
    ] {
        let error = told(pack(&["tool"], "", &component).package.as_ref().unwrap_err());
        assert!(error.contains("the component is too complex to compile") && error.contains(says), "{error}");
    }
    // What the pool would take and the limits do not.
    let most = pages(limits::PLUGIN_MEMORY_BYTES) as u32;
    let tables = format!("(table {0} funcref) (table {0} funcref)", limits::PLUGIN_TABLE_ELEMENTS / 2 + 1);
    for (guest, says) in [
        (Guest::tool().pages(most), "loaded"),
        (Guest::tool().pages(most + 1), "needs more than 128 MiB of memory"),
        (Guest::tool().with(&format!("(memory {})", most)), "needs more than 128 MiB of memory"),
        (Guest::tool().with(&tables), "needs tables of more than 100000 elements"),
    ] {
        let error = loaded(&pack(&["tool"], "", &guest.component())).await;
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn oversized_or_irregular_plugin_files_are_not_read() {
    let file = |name: &str, change: &dyn Fn(&std::path::Path)| {
        let packed = pack(&["tool"], "", &Guest::tool().component());
        let folder = packed.place.path().join("plugins/hostile");
        change(&folder.join(name));
        told(&shelly_host::plugin::PluginPackage::read(&folder).unwrap_err())
    };
    let grow =
        |size| move |path: &std::path::Path| fs::File::options().write(true).open(path).unwrap().set_len(size).unwrap();
    let link = |path: &std::path::Path| {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    };
    let folder = |path: &std::path::Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    for (error, says) in [
        (file("c.wasm", &grow(limits::COMPONENT_BYTES + 1)), "the maximum is 268435456"),
        (file("plugin.toml", &grow(limits::MANIFEST_BYTES + 1)), "the maximum is 65536"),
        (file("c.wasm", &link), "is a link that leads out of the plugin's folder"),
        (file("plugin.toml", &link), "is a link that leads out of the plugin's folder"),
        (file("c.wasm", &folder), "found a folder"),
        (file("plugin.toml", &folder), "found a folder"),
    ] {
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn directory_with_too_many_plugins_is_refused() {
    let place = crate::support::Place::new();
    for n in 0..=limits::PLUGINS_PER_DIRECTORY {
        place.file(&format!("plugins/p{n}/plugin.toml"), "");
    }
    let compiler = shelly_host::plugin::ComponentCompiler::in_process();
    let error = shelly_host::plugin::PluginCatalog::scan(&[place.path().join("plugins")], &compiler).unwrap_err();
    assert!(error.message.contains("has more than 1024 plugins"), "{error}");
}
