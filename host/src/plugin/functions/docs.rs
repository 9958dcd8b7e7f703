//! What a component says of its functions, where its binary carries that: the custom section `package-docs`, which tools
//! for WIT write.

use std::collections::HashMap;

use serde_json::Value;

/// The section's name.
pub const SECTION: &str = "package-docs";

/// Texts about functions. The section is for readers and decides nothing: what of it is not understood is left out.
#[derive(Debug, Default)]
pub struct Docs {
    /// By interface (its last name, without package and version; empty for the root) and function.
    functions: HashMap<(String, String), String>,
}

impl Docs {
    /// Reads the section: a version of 0 or 1, and JSON.
    pub fn read(section: &[u8]) -> Self {
        let json = match section {
            [0 | 1, json @ ..] => serde_json::from_slice(json).unwrap_or_default(),
            _ => Value::Null,
        };
        let mut docs = Self::default();
        for (interface, of) in objects(&json["interfaces"]) {
            docs.add(interface, &of["funcs"]);
        }
        for (_, world) in objects(&json["worlds"]) {
            for kind in ["funcs", "func_exports"] {
                docs.add("", &world[kind]);
            }
            for kind in ["interfaces", "interface_exports"] {
                for (interface, of) in objects(&world[kind]) {
                    docs.add(interface, &of["funcs"]);
                }
            }
        }
        docs
    }

    fn add(&mut self, interface: &str, functions: &Value) {
        for (function, said) in objects(functions) {
            // Its first version had the text alone.
            if let Some(text) = said.as_str().or(said["docs"].as_str()) {
                self.functions.insert((interface.to_owned(), function.clone()), text.trim().to_owned());
            }
        }
    }

    /// What is said of a function.
    pub fn of(&self, interface: Option<&str>, function: &str) -> Option<&str> {
        let interface = interface.unwrap_or_default();
        let last = interface.rsplit_once('/').map_or(interface, |(_, last)| last);
        let last = last.split_once('@').map_or(last, |(last, _)| last);
        self.functions.get(&(last.to_owned(), function.to_owned())).map(String::as_str)
    }
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
        let docs = Docs::read(&[&[1], &json[..]].concat());
        for (interface, function, says) in [
            (Some("a:b/calc@1.0.0"), "add", Some("Adds.")),
            (Some("a:b/calc"), "sub", Some("Takes away.")),
            (Some("own"), "f", Some("F.")),
            (None, "run", Some("Runs.")),
            (None, "add", None),
            (Some("a:b/other"), "add", None),
        ] {
            assert_eq!(docs.of(interface, function), says, "{interface:?} {function}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        for section in [&b""[..], b"\x02{}", b"\x01", b"\x01[1", b"\x01{\"interfaces\": [1], \"worlds\": {\"w\": 3}}"] {
            assert!(Docs::read(section).functions.is_empty(), "{section:?}");
        }
    }
}
