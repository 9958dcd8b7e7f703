//! Inspection of components before any of their code runs: the functions that are offered, their descriptions, and the
//! errors for files that are no components.

use std::path::Path;

use serde_json::json;
use shelly_host::{
    event::RunCx,
    plugin::{Limits, PluginPackage},
};

use super::{ADD, call, component, packed, told, tools_of};
use crate::support::Place;

/// A function of no parameters that does nothing.
fn idle(name: &str) -> String {
    format!("(func (export \"{name}\") (canon lift (core func $i \"none\")))\n")
}

fn offered(package: &PluginPackage) -> Vec<&str> {
    package.offer.tools.iter().map(|tool| tool.spec.name.as_str()).collect()
}

#[tokio::test]
async fn component_runs_without_the_function_it_leaves_out() {
    let mapped = format!(
        "{ADD}(type $dictionary (map f32 u8))\n\
         (func (export \"look-up\") (param \"it\" $dictionary) (canon lift (core func $i \"two\") (memory (core memory $i \"memory\")) \
         (realloc (core func $i \"realloc\"))))"
    );
    let (_place, package) = packed("", &component(&mapped));
    let package = package.unwrap();
    assert_eq!(package.offer.left_out[0].0, "look-up");
    let tools = tools_of(package, Limits::default()).await;
    assert_eq!(call(&tools, &RunCx::new("helper"), "add", json!({"a": 2, "b": 40})).await, "42");
}

#[test]
fn async_abi_is_used_as_far_as_values_have_json() {
    let lifted = |name: &str, param: &str| {
        format!("(func (export \"{name}\") (param \"it\" {param}) (canon lift (core func $i \"one\")))\n")
    };
    let refused = |what: &str| format!("it: the engine passes {what} only as a number, `bool`, `char` or `string`");
    let (value, elements) = (refused("the value of a `future`"), refused("the elements of a `stream`"));
    let asynchronous = "(func (export \"later\") async (canon lift (core func $i \"none\")))";
    for (exports, tools, left_out) in [
        (lifted("it", "(future u8)") + ADD, &["it", "add"][..], &[][..]),
        (lifted("it", "(stream string)") + ADD, &["it", "add"], &[]),
        (lifted("it", "(future (list u8))") + ADD, &["add"], &[&*value]),
        (lifted("it", "(future)") + ADD, &["add"], &[&*value]),
        (lifted("it", "(stream (tuple u8 u8))") + ADD, &["add"], &[&*elements]),
        ("(type $bytes (stream u8))\n".to_owned() + &lifted("it", "(stream $bytes)") + ADD, &["add"], &[&*elements]),
        (asynchronous.to_owned() + ADD, &["later", "add"], &[]),
        // A runtime that is built for it.
        (ADD.to_owned() + "(core func $more (canon backpressure.inc))", &["add"], &[]),
    ] {
        let (_place, package) = packed("", &component(&exports));
        let package = package.unwrap_or_else(|error| panic!("{}", told(&error)));
        let reasons: Vec<_> = package.offer.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(offered(&package), tools, "{exports}");
        assert_eq!(reasons, left_out, "{exports}");
    }
    // Functions that block with a stack of their own, and error contexts.
    let blocking = "(func (export \"later\") async (canon lift (core func $i \"none\") async))";
    for exports in [blocking.to_owned() + ADD, ADD.to_owned() + "(type (list error-context))"] {
        let (_place, package) = packed("", &component(&exports));
        let said = told(&package.unwrap_err());
        let expected = "the component uses a WebAssembly feature that this version of shelly-host does not support: ";
        assert!(said.contains(expected) && said.contains("build it without that feature"), "{said}");
    }
}

#[test]
fn function_with_a_handle_nobody_returns_is_left_out() {
    let resource =
        |name: &str| format!("(type $of_{name} (resource (rep i32)))\n(export ${name} \"{name}\" (type $of_{name}))\n");
    let exports = |constructor: &str| {
        [
            ADD,
            &resource("counter"),
            &resource("report"),
            // Only this function returns a report, and it takes a counter.
            "(func (export \"[method]counter.report\") (param \"self\" (borrow $counter)) (param \"size\" u32) \
             (result (own $report)) (canon lift (core func $i \"add\")))\n",
            "(func (export \"[method]counter.copy\") (param \"self\" (borrow $counter)) (param \"size\" u32) \
             (result (own $counter)) (canon lift (core func $i \"add\")))\n",
            "(func (export \"print\") (param \"it\" (tuple (borrow $report))) (canon lift (core func $i \"one\")))\n",
            "(func (export \"reset\") (param \"it\" (option (borrow $counter))) (canon lift (core func $i \"two\")))\n",
            constructor,
        ]
        .concat()
    };
    let (_place, package) = packed("", &component(&exports("")));
    let package = package.unwrap();
    assert_eq!(offered(&package), ["add", "reset"], "an option may be left out");
    let left_out: Vec<_> = package.offer.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    assert_eq!(
        left_out,
        [
            "[method]counter.report: it takes a handle of `counter`, and no function that can be called returns one",
            "[method]counter.copy: it takes a handle of `counter`, and no function that can be called returns one",
            "print: it takes a handle of `report`, and no function that can be called returns one",
        ]
    );
    let constructor = "(func (export \"[constructor]counter\") (param \"a\" u32) (param \"b\" u32) (result (own $counter)) \
                       (canon lift (core func $i \"add\")))\n";
    let (_place, package) = packed("", &component(&exports(constructor)));
    let package = package.unwrap();
    let expected =
        ["add", "counter_report", "counter_copy", "print", "reset", "counter_new", "counter_drop", "report_drop"];
    assert_eq!(offered(&package), expected, "{:?}", package.offer.left_out);
}

#[test]
fn exports_of_runtimes_are_never_tools() {
    let interface = |name: &str, function: &str| {
        format!(
            "(component $of_{function} (import \"f\" (func $f)) (export \"{function}\" (func $f)))\n\
             (func $lifted_{function} (canon lift (core func $i \"none\")))\n\
             (instance $in_{function} (instantiate $of_{function} (with \"f\" (func $lifted_{function}))))\n\
             (export \"{name}\" (instance $in_{function}))\n"
        )
    };
    let quick_js = "(func (export \"init\") (param \"shim\" u32) (param \"script\" u32) (result u32) \
                    (canon lift (core func $i \"add\")))\n";
    for (runtime, left_out) in [
        (quick_js.to_owned(), "init"),
        (idle("wizer-initialize"), "wizer-initialize"),
        (idle("cabi-realloc"), "cabi-realloc"),
        (interface("wasi:cli/run@0.2.0", "run"), "wasi:cli/run@0.2.0#run"),
    ] {
        let (_place, package) = packed("", &component(&(ADD.to_owned() + &runtime)));
        let package = package.unwrap();
        assert_eq!(offered(&package), ["add"], "{left_out}");
        let (function, why) = &package.offer.left_out[0];
        assert!(function == left_out && why.starts_with("not a function of the program: "), "{function}: {why}");
        // What only starts a program has nothing to offer.
        let (_place, package) = packed("", &component(&runtime));
        assert!(told(&package.unwrap_err()).contains("has no function that can be a tool"), "{left_out}");
    }
    // An author may call functions so, too.
    let own = "(func (export \"init\") (param \"path\" u32) (param \"script\" u32) (result u32) (canon lift (core func $i \"add\")))\n";
    for (exports, name) in [(own.to_owned(), "init"), (interface("exports", "init"), "init"), (idle("run"), "run")] {
        let (_place, package) = packed("", &component(&exports));
        assert_eq!(offered(&package.unwrap()), [name]);
    }
}

/// The WIT of the guest `plain-types`, as its author could have documented it.
const DOCUMENTED: &str = "
    package plain:types@1.2.0;
    interface shapes {
      record point {
        /// Across, in millimetres.
        x: s32,
        y: s32,
        label: option<string>,
      }
      /// What to measure.
      variant figure {
        nothing,
        /// Of this radius.
        circle(f64),
        polygon(list<point>),
      }
      /// Measures a figure.
      area: func(of: figure) -> result<f64, string>;
    }
    world plain {
      export shapes;
      export other: interface {
        /// Measures a square.
        area: func(side: u32) -> u64;
      }
      /// Greets.
      export greet: func(name: string) -> string;
      /// Fills.
      export fill: func(bytes: u32) -> list<u8>;
    }";

fn plain_types(wit: &str) -> (Place, String) {
    let place = Place::new();
    let guest = Path::new(crate::GUEST_ROOT).join("plain-types");
    for file in ["plugin.toml", "plain_types.wasm"] {
        place.file(&format!("plugins/plain-types/{file}"), std::fs::read(guest.join(file)).unwrap());
    }
    place.file("plugins/plain-types/plain_types.wit", wit);
    let read = PluginPackage::read(&place.path().join("plugins/plain-types"));
    let description = |name: &str, package: &PluginPackage| {
        let tool = package.offer.tools.iter().find(|tool| tool.spec.name == name).unwrap();
        format!("## {name}\n{}\n", tool.spec.description)
    };
    let said = match read {
        Ok(package) => ["shapes_area", "other_area", "greet", "fill"].map(|name| description(name, &package)).concat(),
        Err(error) => told(&error),
    };
    (place, said)
}

#[test]
fn wit_file_beside_a_component_documents_it() {
    let (place, said) = plain_types(DOCUMENTED);
    assert_eq!(
        said,
        "## shapes_area\nMeasures a figure.\n\n\
         WIT, interface plain:types/shapes@1.2.0:\narea: func(of: figure) -> result<f64, string>\n\
         /// What to measure.\nvariant figure {\n  nothing,\n  /// Of this radius.\n  circle(f64),\n  polygon(list<point>),\n}\n\
         record point {\n  /// Across, in millimetres.\n  x: s32,\n  y: s32,\n  label: option<string>,\n}\n\
         ## other_area\nMeasures a square.\n\nWIT, interface other:\narea: func(side: u32) -> u64\n\
         ## greet\nSays hello.\n\nWIT:\ngreet: func(name: string) -> string\n\
         ## fill\nFills.\n\nWIT:\nfill: func(bytes: u32) -> list<u8>\n",
        "plugin.toml says more of `greet`"
    );
    // It is told to people, too.
    let ran = place.run(&["plugin", "inspect", "plugins/plain-types"]);
    assert!(ran.stdout.contains("tool         shapes_area: Measures a figure."), "{}", ran.shown());
}

#[test]
fn wit_file_error_beside_a_component_is_reported() {
    let (_place, said) = plain_types("package plain:types;\nworld plain {\n  export greet: fun();\n}");
    assert!(said.contains("invalid WIT file ") && said.contains("plain_types.wit:3:"), "{said}");
    let (_place, said) = plain_types(&"// padding\n".repeat(30_000));
    assert!(
        said.contains("the maximum is 262144") && said.contains("remove what the component beside it does not export"),
        "{said}"
    );
    let (_place, said) = plain_types(&DOCUMENTED.replace("Fills.", "Fills.\u{202e}"));
    assert!(said.to_lowercase().contains("202e"), "what hides something is no description: {said}");
}

#[test]
fn doc_comments_of_types_in_the_binary_are_read() {
    let record = "(type $sum' (record (field \"value\" u32)))\n(export $sum \"sum\" (type $sum'))\n\
                  (func (export \"half\") (param \"of\" $sum) (canon lift (core func $i \"one\")))\n";
    let docs = json!({"worlds": {"w": {
        "func_exports": {"half": {"docs": "Halves."}},
        "types": {"sum": {"docs": "A sum.", "items": {"value": "Its value."}}},
    }}});
    let mut bytes = component(record);
    super::append_docs(&mut bytes, &docs.to_string());
    let (_place, package) = packed("", &bytes);
    let package = package.unwrap();
    assert_eq!(
        package.offer.tools[0].spec.description,
        "Halves.\n\nWIT:\nhalf: func(of: sum)\n/// A sum.\nrecord sum {\n  /// Its value.\n  value: u32,\n}"
    );
}

#[test]
fn non_component_files_are_identified_in_the_error() {
    let hollow = wat::parse_str("(component)").unwrap();
    let old = [&hollow[..4], &[10, 0, 1, 0]].concat();
    let wasi = wat::parse_str("(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func)))").unwrap();
    let scripted = wat::parse_str("(module (import \"wbg\" \"f\" (func)))").unwrap();
    let wit = wat::parse_str("(component (type $w (component)) (export \"w\" (type $w)))").unwrap();
    let whole = component(ADD);
    let wrong = wat::parse_str("(component (core module (func (result i32))))").unwrap();
    for (bytes, says, mend) in [
        (vec![], "found an empty file", "build or copy it again"),
        (b"\x7fELF\x02\x01".to_vec(), "found machine code (ELF)", "for a wasm32 target"),
        (b"PK\x03\x04....".to_vec(), "found a zip archive", "unpack it"),
        (b"<!DOCTYPE html>".to_vec(), "found a web page", "download the file itself"),
        (b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "a Git LFS pointer", "git lfs pull"),
        (b";; hello\n  (component)".to_vec(), "found WebAssembly in text format", "wasm-tools parse"),
        (b"// hello\npackage a:b;".to_vec(), "found WIT, not WebAssembly", "that was built from it"),
        (b"\x1b[31mplain text".to_vec(), "found data that begins with \"\\x1b[31mpla\"", "for a wasm32 target"),
        (b"\0asm\r\0".to_vec(), "the file is truncated", "copy, download or build it again"),
        (old, "the binary format is version 10 of layer 1", "build it with newer tools"),
        (wat::parse_str("(module)").unwrap(), "found a core module", "wasm-tools component embed"),
        (wasi, "found a core module", "--adapt wasi_snapshot_preview1.reactor.wasm"),
        (scripted, "found a core module", "build it without wasm-bindgen"),
        (wit, "found a WIT package", "that was built from it"),
        (hollow, "the component exports no kind of the contract and no functions", "export functions"),
        (whole[..whole.len() - 20].to_vec(), "the file is truncated: ", "copy, download or build it again"),
        (wrong, "invalid component: ", "wasm-tools validate"),
        (
            wat::parse_str("(component (core module (memory 1 1 shared)))").unwrap(),
            "the component uses a WebAssembly feature that this version of shelly-host does not support: threads",
            "build it without that feature",
        ),
    ] {
        let place = Place::new();
        place.file("plugins/lone.wasm", &bytes);
        let said = told(&PluginPackage::read_file(&place.path().join("plugins/lone.wasm")).unwrap_err());
        assert!(said.contains(says) && said.contains(mend), "{says}: {said}");
        assert!(!said.contains("plugin.toml"), "it has none: {said}");
    }
}

#[test]
fn every_cut_of_a_component_is_refused() {
    let whole = component(ADD);
    for end in 0..whole.len() {
        let place = Place::new();
        place.file("plugins/lone.wasm", &whole[..end]);
        // What is cut off at the end may be the names alone, which nobody needs: a section of the number 0.
        let read = PluginPackage::read_file(&place.path().join("plugins/lone.wasm"));
        assert!(read.is_err() || whole[end] == 0, "cut at {end}");
    }
}

#[test]
fn error_of_a_lone_component_does_not_mention_plugin_toml() {
    let importing = |import: &str| {
        let import = format!("(import \"{import}\" (instance (export \"f\" (func))))\n");
        wat::parse_str(format!(
            "(component {import}(core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
             (func (export \"go\") (canon lift (core func $i \"f\"))))"
        ))
        .unwrap()
    };
    for (bytes, says) in [
        (
            importing("wasi:http/types@0.2.0"),
            "put the component into its own folder, with a plugin.toml that has `http = true`",
        ),
        (importing("shelly:plugin/sink@0.1.0"), "remove the import, or export `provider`"),
        (
            component(&(0..129).map(|at| idle(&format!("f{at}x"))).collect::<String>()),
            "put the component into its own folder",
        ),
    ] {
        let place = Place::new();
        place.file("plugins/lone.wasm", &bytes);
        let said = told(&PluginPackage::read_file(&place.path().join("plugins/lone.wasm")).unwrap_err());
        assert!(said.contains(says) && !said.contains("its plugin.toml"), "{said}");
    }
}

#[test]
fn powerless_wasi_imports_are_not_shown_as_wanted() {
    let place = Place::new();
    let imports = ["cli/stdout", "filesystem/preopens", "clocks/wall-clock", "random/random"]
        .map(|import| format!("(import \"wasi:{import}@0.2.0\" (instance))"));
    let text = format!(
        "(component {}(core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
         (func (export \"go\") (canon lift (core func $i \"f\"))))",
        imports.concat()
    );
    place.file("plugins/lone.wasm", wat::parse_str(text).unwrap());
    let ran = place.run(&["plugin", "list", "--plugins", "plugins"]);
    assert!(ran.stdout.contains("  wasi (powerless)") && !ran.stdout.contains("files"), "{}", ran.shown());
    let ran = place.run(&["plugin", "inspect", "plugins/lone.wasm"]);
    assert!(
        ran.stdout.contains("wants        wasi: powerless (needs no grant)\ncan use      files:"),
        "{}",
        ran.shown()
    );
}

#[test]
fn folder_with_a_component_and_no_manifest_is_reported() {
    let place = Place::new();
    place.file("plugins/adder.wasm", component(ADD));
    place.file("plugins/forgotten/component.wasm", component(ADD));
    place.file("plugins/notes/readme.md", "nothing");
    let ran = place.run(&["plugin", "list", "--plugins", "plugins"]);
    assert!(ran.code == 3 && ran.stdout.contains("forgotten  unusable"), "{}", ran.shown());
    assert!(
        ran.stderr.contains("plugins/forgotten has no plugin.toml") && !ran.stdout.contains("notes"),
        "{}",
        ran.shown()
    );
    assert!(ran.stdout.contains("adder      functions"), "{}", ran.shown());
}
