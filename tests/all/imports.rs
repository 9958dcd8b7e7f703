//! Files do not import each other in a circle of more than two: of such a circle nothing can be read, tested or moved by
//! itself. Two files may know each other, such as that of a message and that of the tool calls in it.
//!
//! A file imports another one if a path in it, followed through re-exports and across crates, ends at an item that the other
//! one defines.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt::Write,
};

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::{
    Attribute, ImplItem, Item, ItemUse, Macro, Meta, UseTree,
    visit::{self, Visit},
};

use crate::tidy::{files, module};

/// The number of files that may import each other.
const MAY_BE_MUTUAL: usize = 2;

/// The name of a crate, then those of modules in it.
type ModulePath = Vec<String>;

/// The segments of a path in the source, with the number of its line.
type SourcePath = (Vec<String>, usize);

/// A crate: its name as paths write it, and the folder of its sources.
struct Crate<'a> {
    name: &'a str,
    src: &'a str,
}

/// A module, in a file of its own or in that of its parent.
#[derive(Default)]
struct Module {
    /// The index of its file.
    file: usize,
    names: HashMap<String, Vec<Definition>>,
    /// The paths of `use …::*`, and `true` for those that are public.
    globs: Vec<(SourcePath, bool)>,
    /// The different paths that are written in it, each where it comes first.
    paths: Vec<SourcePath>,
    known: HashSet<Vec<String>>,
}

impl Module {
    fn add_path(&mut self, path: Vec<String>, first: &Ident) {
        if !self.known.contains(&path) {
            self.paths.push((path.clone(), first.span().start().line));
            self.known.insert(path);
        }
    }
}

/// The meaning of a name in a module.
enum Definition {
    Item,
    Module,
    Import(Vec<String>),
}

/// The end of a path.
#[derive(Clone, PartialEq)]
enum Target {
    Module(ModulePath),
    /// An item in the file of this index.
    Item(usize),
}

/// The files of all crates and what they import.
#[derive(Default)]
struct ImportGraph {
    /// The paths of the files.
    files: Vec<String>,
    modules: HashMap<ModulePath, Module>,
    /// For each two files the imported paths, with the line of the first.
    edges: BTreeMap<(usize, usize), BTreeMap<String, usize>>,
}

impl ImportGraph {
    /// Reads all crates; `sources` holds the text of each file by its path.
    fn of(crates: &[Crate<'_>], sources: &BTreeMap<String, String>) -> Self {
        let mut graph = Self::default();
        for Crate { name, src } in crates {
            graph.read(sources, vec![(*name).to_owned()], format!("{src}/lib.rs"));
        }
        graph.connect();
        graph
    }

    /// Reads the file of a module, and the files of the modules in it.
    fn read(&mut self, sources: &BTreeMap<String, String>, module: ModulePath, path: String) {
        // Reading the tests, most of which come last, would take as long as reading the rest.
        let text = sources[&path].split("#[cfg(test)]\nmod tests {").next().unwrap();
        let source = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        // The files of its modules are beside `mod.rs` and `lib.rs`, and in a folder beside any other file.
        let folder = match path.strip_suffix("/mod.rs").or(path.strip_suffix("/lib.rs")) {
            Some(folder) => folder.to_owned(),
            None => path.trim_end_matches(".rs").to_owned(),
        };
        let file = self.files.len();
        self.files.push(path);
        for (child, folder) in self.add(module, file, &folder, &source.items) {
            let name = child.last().unwrap();
            let candidates = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            let path = candidates.iter().find(|path| sources.contains_key(*path));
            let path = path.unwrap_or_else(|| panic!("there is no file of the module {}", child.join("::")));
            self.read(sources, child, path.clone());
        }
    }

    /// Adds a module with these items. Returns the modules in it that have files of their own, with the folders of these.
    fn add(&mut self, path: ModulePath, file: usize, folder: &str, items: &[Item]) -> Vec<(ModulePath, String)> {
        let mut collector = PathCollector::default();
        items.iter().for_each(|item| collector.visit_item(item));
        let PathCollector { mut module, children } = collector;
        module.file = file;
        for name in items.iter().filter(|item| !is_for_tests(attributes(item))).filter_map(defined_name) {
            module.names.entry(plain(name)).or_default().push(Definition::Item);
        }
        let mut others = Vec::new();
        for (name, content) in children {
            module.names.entry(name.clone()).or_default().push(Definition::Module);
            let child = [path.as_slice(), std::slice::from_ref(&name)].concat();
            match content {
                Some(items) => others.extend(self.add(child, file, &format!("{folder}/{name}"), &items)),
                None => others.push((child, folder.to_owned())),
            }
        }
        self.modules.insert(path, module);
        others
    }

    /// Follows each path to the file in which it ends.
    fn connect(&mut self) {
        let mut edges: BTreeMap<(usize, usize), BTreeMap<String, usize>> = BTreeMap::new();
        for (path, module) in &self.modules {
            let mut add = |to: usize, name: &str, line: usize| {
                if to != module.file {
                    let lines = edges.entry((module.file, to)).or_default();
                    let first = lines.entry(name.to_owned()).or_insert(line);
                    *first = line.min(*first);
                }
            };
            // Without a `*`, a name alone is imported by a `use` or is of this module.
            let is_looked_up = |segments: &[String]| segments.len() > 1 || !module.globs.is_empty();
            for (segments, line) in module.paths.iter().filter(|(segments, _)| is_looked_up(segments)) {
                for target in self.resolve(path, segments, &mut Vec::new()) {
                    if let Target::Item(file) = target {
                        add(file, &segments.join("::"), *line);
                    }
                }
            }
            for ((segments, line), _) in module.globs.iter().filter(|(_, is_public)| *is_public) {
                for target in self.resolve(path, segments, &mut Vec::new()) {
                    match target {
                        Target::Module(module) => add(self.modules[&module].file, "*", *line),
                        Target::Item(file) => add(file, "*", *line),
                    }
                }
            }
        }
        self.edges = edges;
    }

    /// Returns what a path in a module leads to. `seen` holds the names that are being looked up: globs may lead in circles.
    fn resolve(&self, from: &[String], path: &[String], seen: &mut Vec<(ModulePath, String)>) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return vec![Target::Module(from.to_vec())] };
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(from[..1].to_vec())],
            "self" => vec![Target::Module(from.to_vec())],
            "super" => vec![Target::Module(from[..from.len() - 1].to_vec())],
            name => self.look_up(from, name, seen),
        };
        if targets.is_empty() && self.modules.contains_key(std::slice::from_ref(first)) {
            targets.push(Target::Module(vec![first.clone()]));
        }
        for segment in rest {
            let next = |target: Target| match target {
                Target::Module(module) if segment == "super" => {
                    vec![Target::Module(module[..module.len() - 1].to_vec())]
                }
                Target::Module(module) => self.look_up(&module, segment, seen),
                // The rest names a case or an associated item.
                item @ Target::Item(_) => vec![item],
            };
            targets = targets.into_iter().flat_map(next).collect();
        }
        targets
    }

    /// Returns what a name means in a module. Types, values and macros may have the same name.
    fn look_up(&self, module: &[String], name: &str, seen: &mut Vec<(ModulePath, String)>) -> Vec<Target> {
        let Some(found) = self.modules.get(module) else { return Vec::new() };
        if seen.iter().any(|(other, wanted)| other == module && wanted == name) {
            return Vec::new();
        }
        seen.push((module.to_vec(), name.to_owned()));
        let mut targets = Vec::new();
        for definition in found.names.get(name).into_iter().flatten() {
            match definition {
                Definition::Item => targets.push(Target::Item(found.file)),
                Definition::Module => targets.push(Target::Module([module, &[name.to_owned()]].concat())),
                Definition::Import(path) => targets.extend(self.resolve(module, path, seen)),
            }
        }
        if targets.is_empty() {
            for ((path, _), _) in &found.globs {
                for target in self.resolve(module, path, seen) {
                    if let Target::Module(module) = target {
                        targets.extend(self.look_up(&module, name, seen));
                    }
                }
            }
        }
        seen.pop();
        targets
    }

    /// Returns the circles of more than [`MAY_BE_MUTUAL`] files: any two files of one reach each other.
    fn circles(&self) -> Vec<BTreeSet<usize>> {
        let mut next = vec![Vec::new(); self.files.len()];
        let mut before = next.clone();
        for (from, to) in self.edges.keys() {
            next[*from].push(*to);
            before[*to].push(*from);
        }
        let reached = |from: usize, edges: &[Vec<usize>]| {
            let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
            while let Some(file) = left.pop() {
                left.extend(edges[file].iter().copied().filter(|to| reached.insert(*to)));
            }
            reached
        };
        let circle = |file| &reached(file, &next) & &reached(file, &before);
        let circles: BTreeSet<BTreeSet<usize>> = (0..self.files.len()).map(circle).collect();
        circles.into_iter().filter(|circle| circle.len() > MAY_BE_MUTUAL).collect()
    }

    /// Returns the rooms of these files: the modules of the map in `docs/architecture.md`.
    fn rooms_of(&self, files: &BTreeSet<usize>) -> Vec<&str> {
        let rooms: BTreeSet<_> = files.iter().map(|file| module(&self.files[*file])).collect();
        rooms.into_iter().collect()
    }

    /// Names the files of a circle, and the lines that close it.
    fn describe(&self, circle: &BTreeSet<usize>) -> String {
        let mut text = format!("{} files import each other:\n", circle.len());
        for ((from, to), names) in &self.edges {
            if circle.contains(from) && circle.contains(to) {
                let line = names.values().min().unwrap();
                let names: Vec<_> = names.keys().map(String::as_str).collect();
                let (from, to) = (&self.files[*from], &self.files[*to]);
                writeln!(text, "  {from}:{line} imports {to}: {}", names.join(", ")).unwrap();
            }
        }
        text
    }
}

/// The imports and paths of a module, and the modules in it: those in this file with their items.
#[derive(Default)]
struct PathCollector {
    module: Module,
    children: Vec<(String, Option<Vec<Item>>)>,
}

impl PathCollector {
    fn add_use(&mut self, tree: &UseTree, before: &[String], is_public: bool) {
        let with = |name: &Ident| [before, &[plain(name)]].concat();
        let mut import = |path: Vec<String>, name: &Ident| {
            // `use a::{self}` names `a`.
            let path =
                if path.len() > 1 && path.last().unwrap() == "self" { path[..path.len() - 1].to_vec() } else { path };
            let own = if name == "self" { path.last().unwrap().clone() } else { plain(name) };
            self.module.names.entry(own).or_default().push(Definition::Import(path.clone()));
            self.module.add_path(path, name);
        };
        match tree {
            UseTree::Path(path) => self.add_use(&path.tree, &with(&path.ident), is_public),
            UseTree::Name(name) => import(with(&name.ident), &name.ident),
            UseTree::Rename(name) => import(with(&name.ident), &name.rename),
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.module.globs.push(((before.to_vec(), line), is_public));
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(tree, before, is_public)),
        }
    }

    /// Adds the paths in the arguments of a macro or an attribute.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut first, mut colons) = (Vec::new(), None, 0);
        for token in tokens.into_iter().map(Some).chain([None]) {
            match token {
                Some(TokenTree::Ident(name)) if !path.is_empty() && colons == 2 => {
                    path.push(plain(&name));
                    colons = 0;
                    continue;
                }
                Some(TokenTree::Punct(mark)) if mark.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    continue;
                }
                _ => {}
            }
            if let Some(first) = first.take().filter(|_| path.len() > 1) {
                self.module.add_path(std::mem::take(&mut path), &first);
            }
            path.clear();
            colons = 0;
            match token {
                Some(TokenTree::Ident(name)) => {
                    path.push(plain(&name));
                    first = Some(name);
                }
                Some(TokenTree::Group(group)) => self.add_tokens(group.stream()),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for PathCollector {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(module) => {
                let items = module.content.as_ref().map(|(_, items)| items.clone());
                self.children.push((plain(&module.ident), items));
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => return visit::visit_impl_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.add_use(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        // A path that begins with `::` leads to another package.
        if let (None, Some(first)) = (path.leading_colon, path.segments.first()) {
            let segments = path.segments.iter().map(|segment| plain(&segment.ident)).collect();
            self.module.add_path(segments, &first.ident);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.add_tokens(list.tokens.clone());
        }
    }
}

/// Returns `true` for `#[cfg(test)]` and for conditions that include it, such as `#[cfg(all(test, unix))]`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    fn names_test(tokens: TokenStream) -> bool {
        let mut is_negated = false;
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(name) => {
                is_negated = name == "not";
                name == "test"
            }
            TokenTree::Group(group) => !is_negated && names_test(group.stream()),
            _ => false,
        })
    }
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && names_test(list.tokens.clone()),
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the name that an item defines in its module, except that of a module.
fn defined_name(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

fn plain(name: &Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

/// Reads the crates below `host/`.
fn graph_of_the_host() -> ImportGraph {
    let manifests: Vec<_> = files(&["host"], &["Cargo.toml"])
        .into_iter()
        .map(|(path, text)| {
            let name = text.split("\nname = \"").nth(1).and_then(|rest| rest.split('"').next());
            let name = name.unwrap_or_else(|| panic!("{path} names no package"));
            (name.replace('-', "_"), path.replace("Cargo.toml", "src"))
        })
        .collect();
    let sources: BTreeMap<_, _> = files(&["host"], &[".rs"]).into_iter().collect();
    let crates: Vec<_> = manifests
        .iter()
        .map(|(name, src)| Crate { name, src })
        .filter(|found| sources.contains_key(&format!("{}/lib.rs", found.src)))
        .collect();
    ImportGraph::of(&crates, &sources)
}

#[test]
fn files_of_a_room_import_each_other_in_no_circle() {
    let graph = graph_of_the_host();
    let count = graph.edges.values().map(BTreeMap::len).sum::<usize>();
    assert!(graph.files.len() > 300 && count > 2_000, "they are looked at: {} files, {count}", graph.files.len());
    let mut wrong = String::new();
    for circle in &graph.circles() {
        writeln!(wrong, "in {}: {}", graph.rooms_of(circle).join(" and "), graph.describe(circle)).unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}\nmove what they share into a file of its own, or pass values");
}

/// Returns the graph of two crates: `lower`, and `upper`, which uses it.
fn graph(sources: &[(&str, &str)]) -> ImportGraph {
    let sources = sources.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    ImportGraph::of(
        &[Crate { name: "lower", src: "host/lower/src" }, Crate { name: "upper", src: "host/upper/src" }],
        &sources,
    )
}

/// Returns the files of each circle, without their folders.
fn circles(graph: &ImportGraph) -> Vec<Vec<&str>> {
    let name = |file: &usize| graph.files[*file].rsplit('/').next().unwrap();
    graph.circles().iter().map(|circle| circle.iter().map(name).collect()).collect()
}

#[test]
fn circle_is_found_through_reexports_and_crates() {
    let graph = graph(&[
        ("host/lower/src/lib.rs", "pub mod chat;"),
        (
            "host/lower/src/chat/mod.rs",
            "mod log;\nmod entry;\nmod edit;\npub use self::{log::*, edit::Edit};\npub(crate) use entry::Entry;",
        ),
        ("host/lower/src/chat/log.rs", "use super::Entry;\npub struct Log(Entry);"),
        ("host/lower/src/chat/entry.rs", "use crate::chat as room;\n\npub struct Entry(room::Edit);"),
        ("host/lower/src/chat/edit.rs", "pub struct Edit;\nfn f() { println!(\"{}\", super::Log::LEN); }"),
        ("host/upper/src/lib.rs", "use lower::chat;\npub mod run;"),
        ("host/upper/src/run/mod.rs", "mod a;\nmod b;\nmod c;\npub struct Run(a::A);"),
        ("host/upper/src/run/a.rs", "use super::b::B;\nuse crate::chat::Log;\npub struct A(B, Log);"),
        ("host/upper/src/run/b.rs", "pub struct B;\nimpl B { fn of(_: super::c::C) {} }"),
        ("host/upper/src/run/c.rs", "pub struct C;\nfn f(run: &super::Run) {}"),
    ]);
    // What `mod.rs` defines and a child uses closes a circle too.
    assert_eq!(circles(&graph), [&["log.rs", "entry.rs", "edit.rs"][..], &["mod.rs", "a.rs", "b.rs", "c.rs"]]);
    let text = graph.describe(&graph.circles()[0]);
    for line in [
        "3 files import each other:",
        "host/lower/src/chat/log.rs:1 imports host/lower/src/chat/entry.rs: super::Entry",
        "host/lower/src/chat/entry.rs:3 imports host/lower/src/chat/edit.rs: room::Edit",
        "host/lower/src/chat/edit.rs:2 imports host/lower/src/chat/log.rs: super::Log::LEN",
    ] {
        assert!(text.lines().any(|found| found.trim() == line), "{line}\n{text}");
    }
    let room = |file: &usize| module(&graph.files[*file]);
    let crossing = graph.edges.keys().filter(|(from, to)| room(from) != room(to)).count();
    assert_eq!(crossing, 1, "`a.rs` uses the log");
}

#[test]
fn layers_and_pairs_of_files_are_no_circle() {
    let graph = graph(&[
        ("host/lower/src/lib.rs", "pub mod chat;"),
        (
            "host/lower/src/chat/mod.rs",
            "mod log;\nmod entry;\nmod edit;\n#[cfg(test)]\nmod tests;\npub use {log::Log, entry::Entry, edit::Edit};",
        ),
        ("host/lower/src/chat/log.rs", "use super::{Entry, edit};\npub struct Log(Entry, edit::Edit);"),
        // A module alone is no import of what it defines.
        ("host/lower/src/chat/entry.rs", "use super::Log;\npub struct Entry(Box<Log>);\nuse crate::chat;"),
        // Nor is what only tests see.
        (
            "host/lower/src/chat/edit.rs",
            "pub struct Edit;\n#[cfg(all(test, unix))]\nmod tests {\n    use super::super::Log;\n}",
        ),
        ("host/upper/src/lib.rs", ""),
    ]);
    assert_eq!(circles(&graph), [[""; 0]; 0]);
    assert_eq!(graph.edges.len(), 6, "three of `mod.rs`, two of the log, one of an entry");
}
