//! The contract between host and plugins, and the parts of it that one world needs.

use std::{collections::BTreeSet, fmt::Write};

use crate::project_kind::ProjectKind;

/// The text of one version of the contract.
#[derive(Debug)]
pub(crate) struct ContractText {
    /// The files, by name, in the order in which they are read. The first declares the package.
    pub files: [(&'static str, &'static str); 4],
}

/// Returns the text of the version whose files are in this folder.
macro_rules! contract_text {
    ($folder:literal) => {
        ContractText {
            files: [
                ("types.wit", include_str!(concat!($folder, "/types.wit"))),
                ("imports.wit", include_str!(concat!($folder, "/imports.wit"))),
                ("kinds.wit", include_str!(concat!($folder, "/kinds.wit"))),
                ("worlds.wit", include_str!(concat!($folder, "/worlds.wit"))),
            ],
        }
    };
}

/// The newest version, for which new projects are built: that of all SDKs.
pub(crate) static NEWEST: ContractText = contract_text!("../../../wit");

/// The folder of a project that holds its WIT.
pub const WIT_FOLDER: &str = "wit";

/// The folder of the contract below [`WIT_FOLDER`].
pub const CONTRACT_FOLDER: &str = "deps/shelly-plugin";

/// The world of the host itself, which is not for plugins.
const WORLD_OF_HOST: &str = "host";

/// An interface or a world of the contract, as text with its comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContractItem {
    /// `interface` or `world`.
    keyword: &'static str,
    name: &'static str,
    /// The item from its first comment to its closing brace, without a line break at the end.
    text: &'static str,
}

/// Returns the interfaces and worlds in the files of the contract, in order.
fn items(contract: &ContractText) -> Vec<ContractItem> {
    let mut items = Vec::new();
    for (_, text) in contract.files {
        // Comments and items of the top level begin at the start of a line; everything within them is indented.
        let (mut at, mut start) = (0, None);
        let mut open: Option<(&str, &str)> = None;
        for line in text.split_inclusive('\n') {
            let end = at + line.len();
            if let Some((keyword, name)) = open {
                if line.trim_end() == "}" {
                    let begin: usize = start.take().unwrap_or(at);
                    items.push(ContractItem { keyword, name, text: text[begin..end].trim_end() });
                    open = None;
                }
            } else if line.starts_with("///") {
                start = start.or(Some(at));
            } else if let Some(found) = opened(line) {
                start = start.or(Some(at));
                open = Some(found);
            } else {
                start = None;
            }
            at = end;
        }
    }
    items
}

/// Returns the keyword and the name that a line of the top level opens.
fn opened(line: &'static str) -> Option<(&'static str, &'static str)> {
    let (head, _) = line.split_once('{')?;
    let mut words = head.split_whitespace();
    let keyword = words.next().filter(|word| matches!(*word, "interface" | "world"))?;
    Some((keyword, words.next()?))
}

impl ContractText {
    /// Returns the package declaration, with its comments.
    fn package(&self) -> &'static str {
        let (_, types) = self.files[0];
        let end = types.find("\n\ninterface ").or_else(|| types.find(";\n").map(|at| at + 1));
        types[..end.unwrap_or(types.len())].trim_end()
    }

    /// Returns the name and version of the package, such as `shelly:plugin` and `0.1.0`.
    fn package_id(&self) -> (&'static str, &'static str) {
        let line = self.package().lines().last().unwrap_or_default();
        let id = line.trim_start_matches("package ").trim_end_matches(';');
        id.split_once('@').unwrap_or((id, ""))
    }

    /// Returns the name of an interface as worlds of other packages write it.
    pub fn qualified(&self, interface: &str) -> String {
        let (package, version) = self.package_id();
        format!("{package}/{interface}@{version}")
    }

    /// Returns the whole contract as one WIT text.
    fn whole(&self) -> String {
        let parts = self.files.map(|(_, text)| text.trim_end());
        format!("{}\n", parts.join("\n\n"))
    }
}

/// Returns the interface of the contract that a qualified name names, such as `http` for `shelly:plugin/http@0.1.0`; `None`
/// for names of other packages.
pub(crate) fn interface_of(name: &str) -> Option<&str> {
    let interface = name.strip_prefix(NEWEST.package_id().0)?.strip_prefix('/')?;
    Some(interface.split_once('@').map_or(interface, |(interface, _)| interface))
}

/// Returns the line that an import of the contract needs under `[wants]`; `None` if it needs none.
pub(crate) fn want_of(interface: &str) -> Option<&'static str> {
    GRANTED_IMPORTS.iter().find(|(name, _)| *name == interface).map(|(_, want)| *want)
}

/// Returns the names of the worlds that plugins can have.
pub fn world_names() -> Vec<&'static str> {
    let worlds = items(&NEWEST).into_iter().filter(|item| item.keyword == "world");
    worlds.map(|world| world.name).filter(|name| *name != WORLD_OF_HOST).collect()
}

/// Returns the files of the newest contract, by name.
pub fn files() -> [(&'static str, &'static str); 4] {
    NEWEST.files
}

/// Returns the whole newest contract as one WIT text.
pub fn whole() -> String {
    NEWEST.whole()
}

/// Returns one world of the newest contract with the interfaces that it needs, as one WIT text; `None` if there is no such world.
pub fn world(name: &str) -> Option<String> {
    if !world_names().contains(&name) {
        return None;
    }
    let items = items(&NEWEST);
    let find = |name: &str| items.iter().find(|item| item.name == name);
    let (mut needed, mut next) = (BTreeSet::new(), vec![name]);
    while let Some(name) = next.pop() {
        if let Some(item) = find(name).filter(|item| needed.insert(item.name)) {
            next.extend(named_in(item));
        }
    }
    let mut text = NEWEST.package().to_owned();
    for item in items.iter().filter(|item| needed.contains(item.name)) {
        text += "\n\n";
        text += item.text;
    }
    text.push('\n');
    Some(text)
}

/// Returns the interfaces and worlds that an item names: what it uses, imports, exports and includes.
fn named_in(item: &ContractItem) -> Vec<&'static str> {
    let lines = item.text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let named = lines.filter_map(|line| {
        let rest = ["use ", "import ", "export ", "include "].iter().find_map(|word| line.strip_prefix(word))?;
        Some(rest.split(['.', ';', '{']).next().unwrap_or_default().trim())
    });
    named.collect()
}

/// Returns the text of `wit/plugin.wit` of a new project: a world with the export of its kind and the imports that are
/// commonly needed, and a comment that says how to add more.
pub(crate) fn plugin_world(kind: ProjectKind) -> String {
    let mut text = String::from(
        "package local:plugin;\n\n\
         /// The exports and imports of this plugin. The contract with the host is in deps/shelly-plugin.\n\
         ///\n\
         /// To use more of the host, add an import: the comment at its end says what plugin.toml must ask for. Name only\n\
         /// what you use: each import of a component must be granted.\n\
         world plugin {\n",
    );
    for import in kind.imports() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  import {};", NEWEST.qualified(import));
    }
    for (import, wants) in further_imports(kind) {
        let line = format!("  // import {};", NEWEST.qualified(import));
        let _ = writeln!(text, "{line:42} // [wants] {wants}");
    }
    let _ = writeln!(text, "\n  export {};\n}}", NEWEST.qualified(kind.name()));
    text
}

/// The imports that must be granted, each with the line that plugin.toml needs under `[wants]`.
const GRANTED_IMPORTS: [(&str, &str); 6] = [
    ("kv", "kv = true"),
    ("clock", "clock = true"),
    ("random", "random = true"),
    ("http", "http = true"),
    ("chat", "chat = true"),
    ("process", "programs = true"),
];

/// Returns the imports that a kind can have beside those of a new project, each with the line that plugin.toml needs under
/// `[wants]`.
fn further_imports(kind: ProjectKind) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_for = move |import: &str| match import {
        "http" => matches!(kind, ProjectKind::Tool | ProjectKind::Provider),
        "chat" | "process" => kind == ProjectKind::Tool,
        _ => true,
    };
    GRANTED_IMPORTS.into_iter().filter(move |(import, _)| is_for(import))
}

#[cfg(test)]
mod tests {
    use wit_parser::Resolve;

    use super::*;

    /// Version 0.1, whose text the repository keeps.
    static VERSION_0_1: ContractText = contract_text!("../../../wit/0.1");

    /// The names of the worlds in a text that must be valid.
    fn worlds_of(text: &str) -> Vec<String> {
        let mut resolve = Resolve::default();
        resolve.push_str("contract.wit", text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        resolve.worlds.iter().map(|(_, world)| world.name.clone()).collect()
    }

    #[test]
    fn contract_is_cut_into_all_of_its_items() {
        for (contract, version) in [(&VERSION_0_1, "0.1.0"), (&NEWEST, "0.2.0")] {
            let (items, package) = (items(contract), contract.package());
            let count = |keyword: &str| items.iter().filter(|item| item.keyword == keyword).count();
            let mut resolve = Resolve::default();
            resolve.push_str("contract.wit", &contract.whole()).unwrap();
            assert_eq!((count("interface"), count("world")), (resolve.interfaces.len(), resolve.worlds.len()));
            for item in &items {
                assert!(item.text.starts_with("///"), "{} has a comment", item.name);
                assert!(item.text.ends_with("\n}"), "{} is whole", item.name);
            }
            assert_eq!(contract.package_id(), ("shelly:plugin", version));
            assert!(package.starts_with("/// The contract") && package.ends_with(";"));
        }
    }

    #[test]
    fn world_of_the_contract_has_only_what_it_needs() {
        for name in world_names() {
            let text = world(name).unwrap();
            assert_eq!(worlds_of(&text), [name], "{text}");
        }
        let tool = world("tool-plugin").unwrap();
        let interfaces: Vec<_> = tool.lines().filter(|line| line.starts_with("interface")).collect();
        assert_eq!(
            interfaces,
            ["interface types {", "interface log {", "interface config {", "interface progress {", "interface tool {"]
        );
        assert!(world("host").is_none() && world("tool").is_none(), "the first is not for plugins, the second none");
    }

    #[test]
    fn world_of_a_project_fits_the_contract() {
        let kinds = ProjectKind::ALL.into_iter().filter(|kind| *kind != ProjectKind::Plain);
        for kind in kinds {
            let text = plugin_world(kind);
            // With each further import used, too.
            let all = text.replace("  // import", "  import");
            for text in [&text, &all] {
                let mut resolve = Resolve::default();
                resolve.push_str("contract.wit", &whole()).unwrap();
                let package = resolve.push_str("plugin.wit", text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
                let world = resolve.select_world(&[package], None).unwrap();
                let world = &resolve.worlds[world];
                assert_eq!(world.exports.len(), 1, "{text}");
                assert!(world.imports.len() >= kind.imports().len(), "{text}");
            }
        }
    }
}
