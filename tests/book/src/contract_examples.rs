//! Examples of the interfaces of the contract: the modules of one file that is built with the SDK for Rust.

use std::collections::BTreeMap;

/// The file with a module for each interface.
pub const EXAMPLES: &str = "sdk/rust/examples/contract.rs";

/// Returns each example in the text of that file by the name of its interface.
///
/// # Panics
///
/// If the file has no modules, or one that does not end.
pub fn contract_examples(text: &str) -> BTreeMap<String, String> {
    let modules: BTreeMap<_, _> = text.split("\nmod ").skip(1).map(example).collect();
    assert!(!modules.is_empty(), "{EXAMPLES} has no modules");
    modules
}

/// Returns the interface and the lines of a module, from its name on.
fn example(module: &str) -> (String, String) {
    let (name, rest) = module.split_once(" {\n").unwrap_or_else(|| panic!("{EXAMPLES}: a module has a name: {module}"));
    let (body, _) = rest.split_once("\n}\n").unwrap_or_else(|| panic!("{EXAMPLES}: module `{name}` has no end"));
    let lines: Vec<_> = body.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    (name.replace('_', "-"), lines.join("\n"))
}
