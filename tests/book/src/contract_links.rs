//! Links between the pages of the contract: from each type to its definition, and from each name in a comment.

use std::collections::BTreeMap;

use wit_parser::{Interface, Resolve, Type, TypeDefKind, TypeId, TypeOwner};

use crate::{
    markdown::{anchor, map_prose},
    wit_text::function_name,
};

/// Words after which a name is that of a power or a grant, and of nothing in the contract.
const NAMES_OF_OTHERS: [&str; 4] = ["power", "powers", "grant", "grants"];

/// Where each name of the contract is defined.
pub struct ContractLinks {
    /// The anchors of types and functions, by the name of the interface and their own. A case, field or method is
    /// `type.name`.
    anchors: BTreeMap<(String, String), String>,
    /// For each interface, the names that it takes from others, with the interface and the name there.
    used: BTreeMap<(String, String), (String, String)>,
}

/// The page on which a link stands.
#[derive(Clone, Copy, PartialEq)]
pub enum LinkOrigin<'a> {
    /// The overview.
    Overview,
    /// The page of this interface.
    Interface(&'a str),
}

impl ContractLinks {
    /// Collects the names of these interfaces.
    pub fn of<'a>(resolve: &Resolve, interfaces: impl Iterator<Item = (&'a str, &'a Interface)>) -> Self {
        let (mut anchors, mut used) = (BTreeMap::new(), BTreeMap::new());
        for (interface, definition) in interfaces {
            let mut add = |name: &str, heading: &str| {
                anchors.insert((interface.to_owned(), name.to_owned()), anchor(heading));
            };
            for (name, id) in &definition.types {
                let origin = origin(resolve, *id);
                if origin != *id {
                    let there = (interface_name(resolve, origin), type_name(resolve, origin).to_owned());
                    used.insert((interface.to_owned(), name.clone()), there);
                    continue;
                }
                add(name, name);
                for member in members(&resolve.types[*id].kind) {
                    add(&format!("{name}.{member}"), name);
                }
            }
            for function in definition.functions.values() {
                let name = function_name(function);
                match function.kind.resource() {
                    Some(resource) => {
                        let heading = format!("{}.{name}", type_name(resolve, resource));
                        add(&heading, &heading);
                    }
                    None => add(name, name),
                }
            }
        }
        Self { anchors, used }
    }

    /// Returns the link to a type, with its name as text.
    pub fn to_type(&self, resolve: &Resolve, id: TypeId, from: LinkOrigin) -> String {
        let id = origin(resolve, id);
        let (interface, name) = (interface_name(resolve, id), type_name(resolve, id));
        format!("[`{name}`]({})", self.address(&interface, name, from))
    }

    /// Returns the address of the page of an interface.
    pub fn page(interface: &str, from: LinkOrigin) -> String {
        match from {
            LinkOrigin::Overview => format!("contract/{interface}.md"),
            LinkOrigin::Interface(_) => format!("{interface}.md"),
        }
    }

    fn address(&self, interface: &str, name: &str, from: LinkOrigin) -> String {
        let key = (interface.to_owned(), name.to_owned());
        let anchor = self.anchors.get(&key).unwrap_or_else(|| panic!("{interface} has no `{name}`"));
        match from {
            LinkOrigin::Interface(here) if here == interface => format!("#{anchor}"),
            _ => format!("{}#{anchor}", Self::page(interface, from)),
        }
    }

    /// Returns a comment of the contract as Markdown, with links from the names in it. `about` is the name of the item that
    /// the comment is on: a link to it would lead nowhere.
    pub fn prose(&self, text: &str, from: LinkOrigin, about: &str) -> String {
        let mut before = String::new();
        map_prose(text.trim(), |piece, is_code| {
            if !is_code {
                piece.clone_into(&mut before);
                return piece.to_owned();
            }
            let last = before.split_whitespace().next_back().unwrap_or_default().to_lowercase();
            let is_of_others = NAMES_OF_OTHERS.contains(&last.as_str());
            match self.named(piece, from).filter(|_| !is_of_others && piece != about) {
                Some(address) => format!("[`{piece}`]({address})"),
                None => format!("`{piece}`"),
            }
        })
    }

    /// Returns the address of what a name in a comment means there, if it is a name of the contract.
    fn named(&self, name: &str, from: LinkOrigin) -> Option<String> {
        if let Some(file) = name.strip_suffix(".wit") {
            // The files of the package; the overview has a section for each.
            return (from == LinkOrigin::Overview).then(|| format!("#{file}"));
        }
        if let LinkOrigin::Interface(here) = from {
            let here = (here.to_owned(), name.to_owned());
            if self.anchors.contains_key(&here) {
                return Some(self.address(&here.0, name, from));
            }
            let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
            if let Some((interface, there)) = self.used.get(&(here.0, first.to_owned())) {
                let there = rest.map_or(there.clone(), |rest| format!("{there}.{rest}"));
                let is_known = self.anchors.contains_key(&(interface.clone(), there.clone()));
                return is_known.then(|| self.address(interface, &there, from));
            }
        }
        if let Some((interface, rest)) = name.split_once('.')
            && self.anchors.contains_key(&(interface.to_owned(), rest.to_owned()))
        {
            return Some(self.address(interface, rest, from));
        }
        let is_interface = self.anchors.keys().any(|(interface, _)| interface == name);
        if is_interface {
            return Some(Self::page(name, from));
        }
        // The types that all kinds share, such as `source.attachment`.
        let shared = self.anchors.contains_key(&("types".to_owned(), name.to_owned()));
        shared.then(|| self.address("types", name, from))
    }
}

/// Returns the type that a `use` refers to, or the type itself.
pub fn origin(resolve: &Resolve, id: TypeId) -> TypeId {
    match resolve.types[id].kind {
        TypeDefKind::Type(Type::Id(of)) if resolve.types[of].owner != resolve.types[id].owner => origin(resolve, of),
        _ => id,
    }
}

/// Returns the name of a type.
pub fn type_name(resolve: &Resolve, id: TypeId) -> &str {
    resolve.types[id].name.as_deref().expect("a type of an interface has a name")
}

fn interface_name(resolve: &Resolve, id: TypeId) -> String {
    let TypeOwner::Interface(interface) = resolve.types[id].owner else { panic!("a type outside of an interface") };
    resolve.interfaces[interface].name.clone().expect("an interface of a package has a name")
}

fn members(kind: &TypeDefKind) -> Vec<&str> {
    match kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| &*field.name).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().map(|case| &*case.name).collect(),
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| &*case.name).collect(),
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| &*flag.name).collect(),
        _ => Vec::new(),
    }
}
