//! The features that the project's cargo commands ask for. cargo builds a dependency anew for each set of features, so these
//! must be the same, or each command compiles wasmtime for itself.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};

/// Something that cargo would build, as its plan describes it.
struct Unit {
    /// `wasmtime@48.0.8`, and whether it is built, checked or documented.
    name: String,
    /// Equal for two units if cargo would build them once: package, target, profile, features, and the same of all that
    /// it depends on.
    identity: u64,
    is_dependency: bool,
}

/// Returns what cargo would build for a command; `None` if this cargo does not tell.
fn plan(command: &str) -> Option<Vec<Unit>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        // The plan is shown by development versions alone, or if this says that they are meant.
        .env("RUSTC_BOOTSTRAP", "1")
        .args(command.split(' '))
        .args(["--offline", "--locked", "--unit-graph", "-Z", "unstable-options"])
        .output()
        .unwrap();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("unit-graph") || said.contains("unknown `-Z` flag"), "cargo {command}: {said}");
        return None;
    }
    let graph: Value = serde_json::from_slice(&output.stdout).ok()?;
    let units = graph["units"].as_array()?;
    let mut identities = HashMap::new();
    let unit = |index: usize, identities: &mut HashMap<usize, u64>| Unit {
        name: format!("{} ({})", units[index]["pkg_id"].as_str().unwrap_or_default(), units[index]["mode"]),
        identity: identity(units, index, identities),
        is_dependency: units[index]["pkg_id"].as_str().is_some_and(|id| id.starts_with("registry+")),
    };
    Some((0..units.len()).map(|index| unit(index, &mut identities)).collect())
}

fn identity(units: &[Value], index: usize, known: &mut HashMap<usize, u64>) -> u64 {
    if let Some(identity) = known.get(&index) {
        return *identity;
    }
    let unit = &units[index];
    let mut profile = unit["profile"].clone();
    // `dev` and `test` differ in their names alone.
    profile.as_object_mut().map(|profile| profile.remove("name"));
    let dependencies: Vec<_> = unit["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|dependency| identity(units, usize::try_from(dependency["index"].as_u64().unwrap()).unwrap(), known))
        .collect();
    let whole = json!([
        unit["pkg_id"],
        unit["target"]["name"],
        unit["mode"],
        unit["platform"],
        unit["features"],
        profile,
        dependencies
    ]);
    let mut hasher = DefaultHasher::new();
    whole.to_string().hash(&mut hasher);
    let identity = hasher.finish();
    known.insert(index, identity);
    identity
}

#[test]
fn cargo_commands_share_one_build() {
    for (first, others) in [
        (
            "test --no-run",
            &[
                "build --bin shelly-host",
                "build --example highlighting_licences",
                "test --no-run -p shelly-core",
                "test --no-run -p shelly-net",
                "test --no-run -p shelly-provider",
                "test --no-run -p shelly-mcp",
                "test --no-run -p shelly-session",
                "test --no-run -p shelly-plugin-host",
                "test --no-run -p shelly-telemetry",
                "test --no-run -p shelly-terminal",
                "test --no-run -p shelly-host",
                "test --no-run -p shelly-tests",
                "test --no-run -p shelly-book",
                "test --no-run --test gate",
            ][..],
        ),
        ("check --workspace --all-targets", &["doc --no-deps --lib", "check --tests -p shelly-host"]),
    ] {
        let Some(plan_of_first) = plan(first) else {
            eprintln!("not tested: this cargo does not show what it would build");
            return;
        };
        let built: HashSet<_> = plan_of_first.iter().map(|unit| unit.identity).collect();
        assert!(plan_of_first.iter().any(|unit| unit.name.contains("wasmtime@")), "{first}");
        for other in others {
            let again: Vec<_> = plan(other)
                .unwrap()
                .into_iter()
                .filter(|unit| unit.is_dependency && !built.contains(&unit.identity))
                .collect();
            let names: Vec<_> = again.iter().map(|unit| unit.name.rsplit('#').next().unwrap_or_default()).collect();
            assert!(
                names.is_empty(),
                "after `cargo {first}`, `cargo {other}` builds again: {}\nadd the features that one of the two asks for to \
                 tests/features/Cargo.toml (`cargo tree -e features -i NAME` shows them)",
                names.join(", ")
            );
        }
    }
}

/// The libraries that a crate below `host/` must not bring to a program that embeds it.
#[test]
fn crates_build_without_libraries_of_others() {
    let http_client = ["reqwest", "hyper", "rustls"];
    let sandbox = ["wasmtime", "wasmparser", "cranelift-codegen"];
    for (krate, never) in [
        ("shelly-core", &[&http_client[..], &sandbox, &["rmcp", "clap", "rusqlite", "libsqlite3-sys"]][..]),
        ("shelly-session", &[&http_client, &sandbox, &["rmcp", "clap"]]),
        ("shelly-trace", &[&http_client, &sandbox, &["rmcp", "clap"]]),
        ("shelly-net", &[&sandbox, &["rmcp", "clap"]]),
        ("shelly-provider", &[&sandbox, &["rmcp", "clap"]]),
        ("shelly-mcp", &[&sandbox, &["clap"]]),
        ("shelly-plugin-host", &[&["rmcp", "clap"]]),
        // Its types come without gRPC, and without an exporter of their own.
        ("shelly-telemetry", &[&sandbox, &["rmcp", "clap", "tonic", "opentelemetry-otlp"]]),
        ("shelly-terminal", &[&http_client, &sandbox, &["shelly-core", "tokio", "rmcp", "clap", "crossterm", "onig"]]),
        ("shelly-example-embedded", &[&http_client, &sandbox, &["rmcp", "clap"]]),
    ] {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
            .args(["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none", "--package", krate])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tree = String::from_utf8(output.stdout).unwrap();
        let brought: Vec<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(brought.contains(&krate) && brought.len() > 20, "{krate}: {tree}");
        for library in never.iter().copied().flatten() {
            assert!(!brought.contains(library), "{krate} brings {library}: `cargo tree -p {krate} -i {library}`");
        }
    }
}
