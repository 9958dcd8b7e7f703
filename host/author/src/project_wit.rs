//! The WIT of a project: its world, parsed with what it refers to.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};
use wit_component::WitPrinter;
use wit_parser::{
    Function, PackageId, PackageMetadata, Resolve, Type, TypeDefKind, World, WorldId, WorldItem, render_anyhow_error,
};

use crate::{author_error::AuthorError, contract::interface_of};

/// The world that a project is built for.
#[derive(Debug)]
pub struct ProjectWit {
    pub(crate) resolve: Resolve,
    pub(crate) world: WorldId,
    package: PackageId,
}

impl ProjectWit {
    /// Reads a folder of WIT, with the packages in its `deps`. Without a name it is the only world of the folder.
    ///
    /// # Errors
    ///
    /// [`AuthorError::Wit`] with the line of a mistake, or [`AuthorError::NoWorld`].
    pub fn read(folder: &Path, world: Option<&str>) -> Result<Self, AuthorError> {
        let mut resolve = Resolve::default();
        let pushed = resolve.push_path(folder);
        let (package, _) = pushed.map_err(|error| {
            let message = render_anyhow_error(&error, &resolve.source_map);
            AuthorError::Wit { path: folder.into(), message }
        })?;
        Self::select(resolve, package, world, folder)
    }

    /// Parses texts by their paths, as [`read`](Self::read) does files of a folder.
    ///
    /// # Errors
    ///
    /// The same as those of [`read`](Self::read).
    pub fn of_texts(texts: &[(String, String)], world: Option<&str>) -> Result<Self, AuthorError> {
        let mut resolve = Resolve::default();
        let mut packages: BTreeMap<&str, String> = BTreeMap::new();
        for (path, text) in texts {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let package = packages.entry(folder).or_default();
            package.push_str(text);
            package.push('\n');
        }
        let mut push = |folder: &str, text: &str| {
            let path = Path::new(if folder.is_empty() { "plugin.wit" } else { folder });
            let pushed = resolve.push_str(path, text);
            pushed.map_err(|error| {
                let message = render_anyhow_error(&error, &resolve.source_map);
                AuthorError::Wit { path: path.into(), message }
            })
        };
        // Packages of folders come before the one that refers to them.
        for (folder, text) in packages.iter().filter(|(folder, _)| !folder.is_empty()) {
            push(folder, text)?;
        }
        let package = push("", packages.get("").map_or("", String::as_str))?;
        Self::select(resolve, package, world, Path::new("plugin.wit"))
    }

    fn select(resolve: Resolve, package: PackageId, world: Option<&str>, path: &Path) -> Result<Self, AuthorError> {
        match resolve.select_world(&[package], world) {
            Ok(world) => Ok(Self { resolve, world, package }),
            Err(_) => Err(AuthorError::NoWorld {
                path: path.into(),
                world: world.map(str::to_owned),
                known: resolve.packages[package].worlds.keys().cloned().collect(),
            }),
        }
    }

    /// Returns the world.
    pub(crate) fn world(&self) -> &World {
        &self.resolve.worlds[self.world]
    }

    /// Returns the name of the world within its package.
    pub fn world_name(&self) -> &str {
        &self.world().name
    }

    /// Returns the names of the imported interfaces and functions, as the world has them.
    pub fn imports(&self) -> Vec<String> {
        let keys = self.world().imports.iter().filter(|(_, item)| !matches!(item, WorldItem::Type { .. }));
        keys.map(|(key, _)| self.resolve.name_world_key(key)).collect()
    }

    /// Returns the names of the exported interfaces and functions, as the world has them.
    pub fn exports(&self) -> Vec<String> {
        self.world().exports.keys().map(|key| self.resolve.name_world_key(key)).collect()
    }

    /// Returns the names of the functions that take or return integers of 64 bits, as the world and its interfaces have them.
    /// Those of the contract are left out: it counts nothing beyond 2^53.
    pub(crate) fn functions_of_wide_integers(&self) -> Vec<String> {
        let is_wide = |function: &Function| {
            let types = function.params.iter().map(|param| &param.ty).chain(&function.result);
            types.into_iter().any(|ty| has_wide_integer(&self.resolve, ty))
        };
        let mut names = Vec::new();
        for (key, item) in self.world().imports.iter().chain(self.world().exports.iter()) {
            let of_world = self.resolve.name_world_key(key);
            match item {
                WorldItem::Function(function) if is_wide(function) => names.push(of_world),
                WorldItem::Interface { id, .. } if interface_of(&of_world).is_none() => {
                    let functions =
                        self.resolve.interfaces[*id].functions.values().filter(|function| is_wide(function));
                    names.extend(functions.map(|function| format!("{of_world} {}", function.name)));
                }
                _ => {}
            }
        }
        names
    }

    /// Returns the content of the custom section `package-docs` with the comments of the world; `None` if there is none. A
    /// component calls its own world `root`.
    pub(crate) fn docs(&self) -> Option<Vec<u8>> {
        let encoded = PackageMetadata::extract(&self.resolve, self.package).encode().ok()?;
        let (version, json) = encoded.split_first()?;
        let mut json: Value = serde_json::from_slice(json).ok()?;
        let world = json.get_mut("worlds")?.get_mut(self.world_name())?.take();
        Some([&[*version], json!({ "worlds": { "root": world } }).to_string().as_bytes()].concat())
    }

    /// Returns `true` for a world that exports no kind of the contract.
    pub(crate) fn is_of_its_own(&self) -> bool {
        self.exports().iter().all(|export| interface_of(export).is_none())
    }

    /// Returns the project's own package as one text with its comments; `None` if it cannot be printed.
    pub(crate) fn text(&self) -> Option<String> {
        let mut printer = WitPrinter::default();
        printer.print(&self.resolve, self.package, &[]).ok()?;
        Some(printer.output.to_string())
    }
}

/// Returns `true` for a type that has an integer of 64 bits in it. A type of WIT does not contain itself.
fn has_wide_integer(resolve: &Resolve, ty: &Type) -> bool {
    let has = |ty: &Type| has_wide_integer(resolve, ty);
    let id = match ty {
        Type::U64 | Type::S64 => return true,
        Type::Id(id) => *id,
        _ => return false,
    };
    match &resolve.types[id].kind {
        TypeDefKind::Record(record) => record.fields.iter().any(|field| has(&field.ty)),
        TypeDefKind::Tuple(tuple) => tuple.types.iter().any(has),
        TypeDefKind::Variant(variant) => variant.cases.iter().filter_map(|case| case.ty.as_ref()).any(has),
        TypeDefKind::Result(result) => result.ok.iter().chain(&result.err).any(has),
        TypeDefKind::Option(of)
        | TypeDefKind::List(of)
        | TypeDefKind::FixedLengthList(of, _)
        | TypeDefKind::Type(of) => has(of),
        TypeDefKind::Map(key, value) => has(key) || has(value),
        TypeDefKind::Future(of) | TypeDefKind::Stream(of) => of.as_ref().is_some_and(has),
        TypeDefKind::Handle(_)
        | TypeDefKind::Resource
        | TypeDefKind::Flags(_)
        | TypeDefKind::Enum(_)
        | TypeDefKind::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(text: &str, world: Option<&str>) -> Result<ProjectWit, AuthorError> {
        ProjectWit::of_texts(&[("a.wit".into(), text.into())], world)
    }

    #[test]
    fn only_world_of_a_package_needs_no_name() {
        let one = "package a:b; world w { import f: func(); export g: func(); }";
        let wit = of(one, None).unwrap();
        assert_eq!((wit.world_name(), wit.imports(), wit.exports()), ("w", vec!["f".into()], vec!["g".into()]));
        let two = format!("{one} world x {{}}");
        for world in [None, Some("y")] {
            let error = of(&two, world).unwrap_err();
            let AuthorError::NoWorld { known, .. } = &error else { panic!("{error}") };
            assert_eq!(known, &["w", "x"]);
        }
        assert_eq!(of(&two, Some("x")).unwrap().world_name(), "x");
    }

    #[test]
    fn mistake_in_wit_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.wit"), "package a:b;\nworld w {\n  export f: fnc();\n}\n").unwrap();
        let error = ProjectWit::read(folder.path(), None).unwrap_err();
        let AuthorError::Wit { message, .. } = &error else { panic!("{error}") };
        assert!(message.contains("a.wit:3"), "{message}");
    }

    #[test]
    fn functions_of_wide_integers_are_named() {
        let wit = of(
            "package a:b;
             interface i { record r { at: option<list<u64>> } f: func(r: r); g: func() -> u32; }
             world w {
               import i; import h: func() -> result<string, s64>; import k: func(a: string) -> f64;
               export f: func(a: tuple<u8, s64>); export l: func() -> list<u32>;
             }",
            None,
        );
        assert_eq!(wit.unwrap().functions_of_wide_integers(), ["a:b/i f", "h", "f"]);
        let of_contract =
            "package shelly:plugin@0.1.0; interface clock { now: func() -> u64; } world w { import clock; }";
        assert!(of(of_contract, None).unwrap().functions_of_wide_integers().is_empty());
    }

    #[test]
    fn comments_of_a_world_are_kept_for_the_component() {
        assert!(of("package a:b; world w { export g: func(); }", None).unwrap().docs().is_none());
        let wit = of("package a:b; world w {\n/// Greets.\nexport g: func(); }", None).unwrap();
        let (docs, text) = (String::from_utf8(wit.docs().unwrap()).unwrap(), wit.text().unwrap());
        assert!(docs.contains("\"root\"") && docs.contains("Greets."), "{docs}");
        assert!(text.contains("package a:b;") && text.contains("/// Greets.\n"), "{text}");
        let of_contract = "package shelly:plugin@0.1.0; interface tool { f: func(); } world w { export tool; }";
        assert!(wit.is_of_its_own() && !of(of_contract, None).unwrap().is_of_its_own());
    }
}
