//! The doc comments of a component's WIT: from the custom section `package-docs`, which WIT tools write into binaries
//! of WIT packages, and from a WIT file beside the component. Compilers leave doc comments out of components.

use std::{collections::HashMap, path::Path, sync::Arc};

use serde_json::Value;
use wit_parser::{Interface, TypeDefKind, UnresolvedPackage, UnresolvedPackageGroup, WorldItem, WorldKey};

/// The name of the custom section.
pub const SECTION: &str = "package-docs";

/// Doc comments of functions and types. They inform readers and have no effect on behaviour.
#[derive(Debug, Default)]
pub struct WitDocs {
    functions: HashMap<WitItemName, String>,
    types: HashMap<WitItemName, Arc<TypeDocs>>,
}

/// The name of a function or type: its interface (the last part, without package and version; empty for the root) and
/// its own name.
type WitItemName = (String, String);

/// The doc comments of one type.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TypeDocs {
    /// The comment on the type itself; may be empty.
    pub about: String,
    /// Comments on its fields, cases or flags, by their names.
    pub items: HashMap<String, String>,
}

impl WitDocs {
    /// Reads the section: a version byte of 0 or 1, then JSON. Unknown parts are ignored.
    pub fn from_section(section: &[u8]) -> Self {
        let json = match section {
            [0 | 1, json @ ..] => serde_json::from_slice(json).unwrap_or_default(),
            _ => Value::Null,
        };
        let mut docs = Self::default();
        for (interface, of) in objects(&json["interfaces"]) {
            docs.add_json(interface, &of["funcs"], &of["types"]);
        }
        for (_, world) in objects(&json["worlds"]) {
            docs.add_json("", &world["funcs"], &world["types"]);
            docs.add_json("", &world["func_exports"], &Value::Null);
            for kind in ["interfaces", "interface_exports"] {
                for (interface, of) in objects(&world[kind]) {
                    docs.add_json(interface, &of["funcs"], &of["types"]);
                }
            }
        }
        docs
    }

    /// Parses a WIT file. The packages that it refers to need not exist.
    ///
    /// # Errors
    ///
    /// A message with the line of the error.
    pub fn from_wit(path: &Path, text: &str) -> Result<Self, String> {
        let group = UnresolvedPackageGroup::parse(path, text).map_err(|(sources, error)| error.render(&sources))?;
        let mut docs = Self::default();
        for package in group.nested.iter().chain([&group.main]) {
            docs.add_package(package);
        }
        Ok(docs)
    }

    /// Merges two sets of comments; those of `self` take precedence.
    pub fn or(mut self, others: Self) -> Self {
        for (item, text) in others.functions {
            self.functions.entry(item).or_insert(text);
        }
        for (item, docs) in others.types {
            self.types.entry(item).or_insert(docs);
        }
        self
    }

    /// Returns the comment on a function.
    pub fn of_function(&self, interface: Option<&str>, function: &str) -> Option<&str> {
        self.functions.get(&item(interface, function)).map(String::as_str)
    }

    /// Returns the comments on a type.
    pub fn of_type(&self, interface: Option<&str>, name: &str) -> Option<&Arc<TypeDocs>> {
        self.types.get(&item(interface, name))
    }

    fn add_json(&mut self, interface: &str, functions: &Value, types: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        for (function, docs) in objects(functions) {
            // The first version of the format had the text alone.
            self.add_function(interface, function, docs.as_str().or(docs["docs"].as_str()));
        }
        for (name, docs) in objects(types) {
            let items = objects(&docs["items"]).map(|(item, docs)| (item.clone(), text(docs))).collect();
            self.add_type(interface, name, TypeDocs { about: text(&docs["docs"]), items });
        }
    }

    fn add_package(&mut self, package: &UnresolvedPackage) {
        for (_, interface) in package.interfaces.iter() {
            if let Some(name) = &interface.name {
                self.add_interface(package, name, interface);
            }
        }
        for (_, world) in package.worlds.iter() {
            // An interface that is defined inline gets its name from the world.
            for (key, found) in world.imports.iter().chain(&world.exports) {
                match (key, found) {
                    (WorldKey::Name(name), WorldItem::Interface { id, .. }) => {
                        self.add_interface(package, name, &package.interfaces[*id]);
                    }
                    (_, WorldItem::Function(function)) => {
                        self.add_function("", &function.name, function.docs.contents.as_deref());
                    }
                    (WorldKey::Name(name), WorldItem::Type { id, .. }) => {
                        self.add_type("", name, type_docs(package, *id));
                    }
                    _ => {}
                }
            }
        }
    }

    fn add_interface(&mut self, package: &UnresolvedPackage, name: &str, interface: &Interface) {
        for (function, said) in &interface.functions {
            self.add_function(name, function, said.docs.contents.as_deref());
        }
        for (of, id) in &interface.types {
            self.add_type(name, of, type_docs(package, *id));
        }
    }

    fn add_function(&mut self, interface: &str, function: &str, text: Option<&str>) {
        if let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) {
            self.functions.insert((interface.to_owned(), function.to_owned()), text.to_owned());
        }
    }

    fn add_type(&mut self, interface: &str, name: &str, mut docs: TypeDocs) {
        docs.items.retain(|_, text| !text.is_empty());
        if !docs.about.is_empty() || !docs.items.is_empty() {
            self.types.insert((interface.to_owned(), name.to_owned()), docs.into());
        }
    }
}

fn type_docs(package: &UnresolvedPackage, id: wit_parser::TypeId) -> TypeDocs {
    let text = |docs: &wit_parser::Docs| docs.contents.as_deref().unwrap_or_default().trim().to_owned();
    let of = &package.types[id];
    let items = match &of.kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|it| (it.name.clone(), text(&it.docs))).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().map(|it| (it.name.clone(), text(&it.docs))).collect(),
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|it| (it.name.clone(), text(&it.docs))).collect(),
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|it| (it.name.clone(), text(&it.docs))).collect(),
        _ => HashMap::new(),
    };
    TypeDocs { about: text(&of.docs), items }
}

fn item(interface: Option<&str>, name: &str) -> WitItemName {
    let interface = interface.unwrap_or_default();
    let last = interface.rsplit_once('/').map_or(interface, |(_, last)| last);
    let last = last.split_once('@').map_or(last, |(last, _)| last);
    (last.to_owned(), name.to_owned())
}

fn objects(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_are_found_by_interface_and_function() {
        let json = br#"{
            "interfaces": {"calc": {"funcs": {"add": {"docs": "Adds.\n"}, "sub": "Takes away."}}},
            "worlds": {"w": {"func_exports": {"run": {"docs": "Runs."}}, "interface_exports": {"own": {"funcs": {"f": {"docs": "F."}}}}}}
        }"#;
        let docs = WitDocs::from_section(&[&[1], &json[..]].concat());
        for (interface, function, says) in [
            (Some("a:b/calc@1.0.0"), "add", Some("Adds.")),
            (Some("a:b/calc"), "sub", Some("Takes away.")),
            (Some("own"), "f", Some("F.")),
            (None, "run", Some("Runs.")),
            (None, "add", None),
            (Some("a:b/other"), "add", None),
        ] {
            assert_eq!(docs.of_function(interface, function), says, "{interface:?} {function}");
        }
    }

    #[test]
    fn unknown_docs_section_is_ignored() {
        for section in [&b""[..], b"\x02{}", b"\x01", b"\x01[1", b"\x01{\"interfaces\": [1], \"worlds\": {\"w\": 3}}"] {
            assert!(WitDocs::from_section(section).functions.is_empty(), "{section:?}");
        }
    }

    const WIT: &str = "
        package a:b@1.0.0;
        interface calc {
          use other:things/types@2.0.0.{elsewhere};
          /// A sum.
          record sum {
            /// Its value.
            value: u32,
            unsaid: bool,
          }
          /// Which way.
          enum way { /// Upwards.
            up, down }
          resource counter {
            /// Begins at zero.
            constructor();
            /// Counts on.
            next: func() -> u32;
          }
          /// Adds.
          add: func(it: elsewhere) -> sum;
        }
        world w {
          record pair {
            /// The first one.
            one: u8,
          }
          export calc;
          export inline: interface {
            /// Says so.
            say: func();
          }
          /// Runs.
          export run: func(it: pair);
        }";

    fn about(docs: &WitDocs, interface: Option<&str>, name: &str, item: &str) -> (String, String) {
        let docs = docs.of_type(interface, name).unwrap_or_else(|| panic!("{interface:?} {name}"));
        (docs.about.clone(), docs.items.get(item).cloned().unwrap_or_default())
    }

    #[test]
    fn wit_file_parses_without_its_dependencies() {
        let docs = WitDocs::from_wit(Path::new("w.wit"), WIT).unwrap();
        for (interface, function, says) in [
            (Some("a:b/calc@1.0.0"), "add", "Adds."),
            (Some("a:b/calc@1.0.0"), "[constructor]counter", "Begins at zero."),
            (Some("a:b/calc@1.0.0"), "[method]counter.next", "Counts on."),
            (Some("inline"), "say", "Says so."),
            (None, "run", "Runs."),
        ] {
            assert_eq!(docs.of_function(interface, function), Some(says), "{interface:?} {function}");
        }
        let calc = Some("a:b/calc@1.0.0");
        assert_eq!(about(&docs, calc, "sum", "value"), ("A sum.".into(), "Its value.".into()));
        assert_eq!(about(&docs, calc, "way", "up"), ("Which way.".into(), "Upwards.".into()));
        assert_eq!(about(&docs, None, "pair", "one"), (String::new(), "The first one.".into()));
        assert!(docs.of_type(calc, "elsewhere").is_none());
    }

    #[test]
    fn wit_file_and_docs_section_agree() {
        let wit = WIT.replace("use other:things/types@2.0.0.{elsewhere};", "type elsewhere = u8;");
        let mut resolve = wit_parser::Resolve::default();
        let package = resolve.push_str("w.wit", &wit).unwrap();
        let section = wit_parser::PackageMetadata::extract(&resolve, package).encode().unwrap();
        let (one, other) = (WitDocs::from_section(&section), WitDocs::from_wit(Path::new("w.wit"), &wit).unwrap());
        assert_eq!((&one.functions, &one.types), (&other.functions, &other.types));
    }

    #[test]
    fn wit_file_error_names_its_line() {
        let told =
            WitDocs::from_wit(Path::new("w.wit"), "package a:b;\nworld w {\n  export run: fun();\n}").unwrap_err();
        assert!(told.contains("w.wit:3:"), "{told}");
        let deep = format!(
            "package a:b; world w {{ export f: func(it: {}u8{}); }}",
            "list<".repeat(10_000),
            ">".repeat(10_000)
        );
        assert!(WitDocs::from_wit(Path::new("w.wit"), &deep).is_err());
    }

    #[test]
    fn wit_docs_merge_prefers_the_first() {
        let docs = |text: &str| WitDocs::from_wit(Path::new("w.wit"), text).unwrap();
        let one = docs("package a:b; world w { /// One.\n export f: func(); export g: func(); }");
        let other = docs("package a:b; world w { /// Other.\n export f: func(); /// G.\n export g: func(); }");
        let both = one.or(other);
        assert_eq!((both.of_function(None, "f"), both.of_function(None, "g")), (Some("One."), Some("G.")));
    }
}
