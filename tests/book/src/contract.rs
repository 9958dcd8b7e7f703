//! The contract between plugins and the host, from `wit/`: an overview, and a page for each interface.

use std::{collections::BTreeMap, path::Path};

use wit_parser::{
    Docs, Function, Interface, InterfaceId, Package, PackageId, Resolve, TypeDefKind, TypeId, World, WorldItem,
};

use crate::{
    contract_examples::{EXAMPLES, contract_examples},
    contract_links::{ContractLinks, LinkOrigin, origin, type_name},
    markdown::{code_block, first_sentence, table},
    page::{ReferencePage, source},
    wit_text::{declaration, function_name, functions_of, named_types, signature, types_of_function},
};

const INTRODUCTION: &str = "\
This is the WIT package `PACKAGE` of [`wit/`](../wit), laid out for reading: everything that a plugin can export and import, \
with each bound. [Writing plugins](plugins.md) says how to begin. The [SDK for Rust](../sdk/rust/README.md) has the same names.";

const KINDS: &str =
    "A plugin exports at least one of these interfaces. Each has a world with the imports that go with it.";

const IMPORTS: &str = "\
A plugin imports the interfaces that it uses. What an agent's config must grant is on the page of the interface, and in \
[grants](grants.md).";

const TYPES: &str = "The types that all kinds share are in the interface [`types`](contract/types.md).";

const WORLDS: &str = "A component targets one of these worlds, or a world of its own that includes them.";

/// The versions of the contract: what changed, how it may grow, and what a plugin of another version meets.
const VERSIONS: &str = include_str!("contract_versions.md.in");

/// The world in which every kind of plugin is exported.
const WORLD_OF_KINDS: &str = "host";

/// The world in which everything that can be granted is imported.
const WORLD_OF_IMPORTS: &str = "capabilities";

/// The parsed contract.
pub struct Contract {
    resolve: Resolve,
    package: PackageId,
    links: ContractLinks,
    /// An example for each interface, by its name.
    examples: BTreeMap<String, String>,
}

impl Contract {
    /// Parses the contract.
    ///
    /// # Panics
    ///
    /// If the folder is no WIT package.
    pub fn read(folder: &Path) -> Self {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(folder).unwrap_or_else(|error| panic!("{}: {error:#}", folder.display()));
        let interfaces = resolve.packages[package].interfaces.iter();
        let interfaces = interfaces.map(|(name, id)| (name.as_str(), &resolve.interfaces[*id]));
        let links = ContractLinks::of(&resolve, interfaces);
        Self { resolve, package, links, examples: contract_examples(&source(EXAMPLES)) }
    }

    /// Returns the overview and the page of each interface.
    pub fn pages(&self) -> Vec<ReferencePage> {
        let overview = ReferencePage::new("contract.md", "wit/", &self.overview());
        let interfaces = self.in_reading_order().into_iter().map(|id| {
            let interface = &self.resolve.interfaces[id];
            let path = format!("contract/{}.md", name_of(interface));
            ReferencePage::new(path, "wit/", &self.interface_page(id, interface))
        });
        [overview].into_iter().chain(interfaces).collect()
    }

    fn package(&self) -> &Package {
        &self.resolve.packages[self.package]
    }

    fn world(&self, name: &str) -> &World {
        let id = self.package().worlds.get(name).unwrap_or_else(|| panic!("wit/ has no world `{name}`"));
        &self.resolve.worlds[*id]
    }

    /// Returns the interfaces that plugins export: the kinds of plugins.
    fn kinds(&self) -> Vec<InterfaceId> {
        self.of_items(self.world(WORLD_OF_KINDS).exports.values())
    }

    /// Returns the interfaces that plugins import for their functions.
    fn imports(&self) -> Vec<InterfaceId> {
        self.of_items(self.world(WORLD_OF_IMPORTS).imports.values())
    }

    /// Returns the interfaces among these items that have functions: one that has types alone comes along with its users.
    fn of_items<'a>(&self, items: impl Iterator<Item = &'a WorldItem>) -> Vec<InterfaceId> {
        let interfaces = items.filter_map(|item| match item {
            WorldItem::Interface { id, .. } => Some(*id),
            WorldItem::Function(_) | WorldItem::Type { .. } => None,
        });
        interfaces.filter(|id| !self.resolve.interfaces[*id].functions.is_empty()).collect()
    }

    /// Returns the kinds, the imports, and the shared types.
    fn in_reading_order(&self) -> Vec<InterfaceId> {
        let mut order: Vec<_> = self.kinds().into_iter().chain(self.imports()).collect();
        let rest: Vec<_> = self.package().interfaces.values().filter(|id| !order.contains(id)).copied().collect();
        order.extend(rest);
        order
    }

    fn overview(&self) -> String {
        let from = LinkOrigin::Overview;
        let introduction = INTRODUCTION.replace("PACKAGE", &self.package().name.to_string());
        let about = self.links.prose(text_of(&self.package().docs), from, "");
        let interfaces = |ids: Vec<InterfaceId>| {
            let rows: Vec<_> = ids.into_iter().map(|id| self.summary(id)).collect();
            table(&["interface", "purpose", "functions"], &rows)
        };
        let worlds: Vec<_> =
            self.package().worlds.values().map(|id| self.world_section(&self.resolve.worlds[*id])).collect();
        format!(
            "# The contract\n\n{introduction}\n\n{about}\n\n## Kinds\n\n{KINDS}\n\n{}\n## Imports\n\n{IMPORTS}\n\n{}\n\
             ## Types\n\n{TYPES}\n\n{}\n## Worlds\n\n{WORLDS}\n\n{}\n## Versions\n\n{VERSIONS}",
            interfaces(self.kinds()),
            interfaces(self.imports()),
            self.types_table(),
            worlds.join("\n"),
        )
    }

    /// Returns the row of an interface in the overview.
    fn summary(&self, id: InterfaceId) -> Vec<String> {
        let interface = &self.resolve.interfaces[id];
        let (name, from) = (name_of(interface), LinkOrigin::Overview);
        let page = ContractLinks::page(name, from);
        let free = interface.functions.values().filter(|function| function.kind.resource().is_none());
        let functions: Vec<_> = free.map(|function| format!("[`{0}`]({page}#{0})", function_name(function))).collect();
        let purpose = self.links.prose(&first_sentence(text_of(&interface.docs)), from, name);
        vec![format!("[`{name}`]({page})"), purpose, functions.join(", ")]
    }

    fn types_table(&self) -> String {
        let (from, mut rows) = (LinkOrigin::Overview, Vec::new());
        let known: Vec<_> = self.kinds().into_iter().chain(self.imports()).collect();
        for id in self.in_reading_order().into_iter().filter(|id| !known.contains(id)) {
            for id in self.resolve.interfaces[id].types.values().filter(|id| origin(&self.resolve, **id) == **id) {
                let docs = first_sentence(text_of(&self.resolve.types[*id].docs));
                let purpose = self.links.prose(&docs, from, type_name(&self.resolve, *id));
                rows.push(vec![self.links.to_type(&self.resolve, *id, from), purpose]);
            }
        }
        table(&["type", "meaning"], &rows)
    }

    fn world_section(&self, world: &World) -> String {
        let from = LinkOrigin::Overview;
        let links = |ids: Vec<InterfaceId>| {
            let names = ids.into_iter().map(|id| name_of(&self.resolve.interfaces[id]));
            names.map(|name| format!("[`{name}`]({})", ContractLinks::page(name, from))).collect::<Vec<_>>().join(", ")
        };
        let mut lists = String::new();
        for (word, items) in [("Exports", &world.exports), ("Imports", &world.imports)] {
            let ids = self.of_items(items.values());
            if !ids.is_empty() {
                lists.push_str(&format!("- {word}: {}\n", links(ids)));
            }
        }
        let about = self.links.prose(text_of(&world.docs), from, &world.name);
        format!("### `{}`\n\n{about}\n\n{lists}", world.name)
    }

    fn interface_page(&self, id: InterfaceId, interface: &Interface) -> String {
        let name = name_of(interface);
        let from = LinkOrigin::Interface(name);
        let mut page = format!("# `{name}`\n\n{}\n\n", self.links.prose(text_of(&interface.docs), from, name));
        if let Some(role) = self.role(id) {
            page.push_str(&format!("{role}\n\n"));
        }
        if let Some(example) = self.examples.get(name) {
            page.push_str(&format!(
                "## Example\n\nWith the [SDK for Rust](../../sdk/rust/README.md):\n\n{}\n",
                code_block("rust", example)
            ));
        }
        let functions: Vec<_> =
            interface.functions.values().filter(|function| function.kind.resource().is_none()).collect();
        let types: Vec<_> = interface.types.values().copied().filter(|id| origin(&self.resolve, *id) == *id).collect();
        if !functions.is_empty() {
            page.push_str("## Functions\n\n");
            for function in functions {
                page.push_str(&self.function_section(function, function_name(function), "###", from));
            }
        }
        if !types.is_empty() {
            page.push_str("## Types\n\n");
            for id in types {
                page.push_str(&self.type_section(interface, id, from));
            }
        }
        page
    }

    /// Returns the sentence that says on which side of a plugin an interface is.
    fn role(&self, id: InterfaceId) -> Option<String> {
        let name = name_of(&self.resolve.interfaces[id]);
        if self.kinds().contains(&id) {
            let worlds = self.package().worlds.values().map(|id| &self.resolve.worlds[*id]);
            let own = worlds.filter(|world| world.name != WORLD_OF_KINDS);
            let own = own.into_iter().find(|world| self.of_items(world.exports.values()).contains(&id));
            return own.map(|world| {
                let anchor = &world.name;
                format!("A plugin of this kind exports it: world [`{}`](../contract.md#{anchor}).", world.name)
            });
        }
        let version = self.package().name.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
        let package = format!("{}:{}", self.package().name.namespace, self.package().name.name);
        self.imports().contains(&id).then(|| format!("A plugin imports it: `import {package}/{name}{version};`"))
    }

    fn function_section(&self, function: &Function, heading: &str, level: &str, from: LinkOrigin) -> String {
        let code = code_block("wit", &signature(&self.resolve, function));
        let about = self.links.prose(text_of(&function.docs), from, heading);
        let types = self.types_line(types_of_function(&self.resolve, function), None, from);
        format!("{level} `{heading}`\n\n{code}\n{about}\n\n{types}")
    }

    fn type_section(&self, interface: &Interface, id: TypeId, from: LinkOrigin) -> String {
        let definition = &self.resolve.types[id];
        let name = type_name(&self.resolve, id);
        let code = code_block("wit", &declaration(&self.resolve, interface, id));
        let about = self.links.prose(text_of(&definition.docs), from, name);
        let mut section = format!("### `{name}`\n\n{code}\n{about}\n\n");
        let prose = |docs: &Docs| self.links.prose(text_of(docs), from, name);
        let (head, rows): (&str, Vec<(&str, String)>) = match &definition.kind {
            TypeDefKind::Record(it) => ("field", it.fields.iter().map(|it| (&*it.name, prose(&it.docs))).collect()),
            TypeDefKind::Variant(it) => ("case", it.cases.iter().map(|it| (&*it.name, prose(&it.docs))).collect()),
            TypeDefKind::Enum(it) => ("case", it.cases.iter().map(|it| (&*it.name, prose(&it.docs))).collect()),
            TypeDefKind::Flags(it) => ("flag", it.flags.iter().map(|it| (&*it.name, prose(&it.docs))).collect()),
            _ => ("", Vec::new()),
        };
        if rows.iter().any(|(_, about)| !about.is_empty()) {
            let rows: Vec<_> = rows.into_iter().map(|(name, about)| vec![format!("`{name}`"), about]).collect();
            section.push_str(&format!("{}\n", table(&[head, "meaning"], &rows)));
        }
        section.push_str(&self.types_line(self.types_of(&definition.kind), Some(id), from));
        for function in functions_of(interface, id) {
            let heading = format!("{name}.{}", function_name(function));
            section.push_str(&self.function_section(function, &heading, "####", from));
        }
        section
    }

    /// Returns the types with names in a definition, in order.
    fn types_of(&self, kind: &TypeDefKind) -> Vec<TypeId> {
        match kind {
            TypeDefKind::Record(it) => it.fields.iter().flat_map(|it| named_types(&self.resolve, &it.ty)).collect(),
            TypeDefKind::Variant(it) => {
                it.cases.iter().filter_map(|it| it.ty.as_ref()).flat_map(|ty| named_types(&self.resolve, ty)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns a line with a link to each of these types, but for the one that the line is in.
    fn types_line(&self, ids: Vec<TypeId>, about: Option<TypeId>, from: LinkOrigin) -> String {
        let mut links = Vec::new();
        for id in ids.into_iter().map(|id| origin(&self.resolve, id)).filter(|id| Some(*id) != about) {
            let link = self.links.to_type(&self.resolve, id, from);
            if !links.contains(&link) {
                links.push(link);
            }
        }
        if links.is_empty() { String::new() } else { format!("Types: {}.\n\n", links.join(", ")) }
    }
}

fn name_of(interface: &Interface) -> &str {
    interface.name.as_deref().expect("an interface of a package has a name")
}

fn text_of(docs: &Docs) -> &str {
    docs.contents.as_deref().unwrap_or_default().trim()
}
