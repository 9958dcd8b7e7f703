//! Texts with the keys of a config, or written like a config, that stand elsewhere: in an argument of a command line, or in
//! a file of another kind.

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{PluginUse, explain::explain, recover};
use crate::error::Report;

/// Parses a text in YAML or JSON. Messages call it by the name `subject`, and `source` is where it stands.
///
/// # Errors
///
/// A [`Report`] that names the source, the position in it and the fix.
pub fn parse_yaml<T: DeserializeOwned>(text: &str, subject: &str, source: &str) -> Result<T, Report> {
    recover::read(text).map_err(|error| explain(&error, text, subject).in_file(source))
}

impl PluginUse {
    /// Parses fragments, each a mapping like the one of a plugin under `plugins` of an agent, and merges them in order: lists
    /// are joined, mappings are merged, and of other values the last one counts. `source` is where they stand.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the fragment, the position in it and the fix.
    pub fn from_fragments(fragments: &[String], source: &str) -> Result<Self, Report> {
        let mut merged = Value::Null;
        for (at, fragment) in fragments.iter().enumerate() {
            let place = match fragments.len() {
                1 => source.to_owned(),
                _ => format!("{source} number {}", at + 1),
            };
            // Every mistake is found in the text that the person has written.
            parse_yaml::<Self>(fragment, "the grant", &place)?;
            merge(&mut merged, parse_yaml(fragment, "the grant", &place)?);
        }
        match merged {
            Value::Null => Ok(Self::default()),
            // JSON is YAML.
            merged => parse_yaml(&merged.to_string(), "the grant", source),
        }
    }

    /// Adds params, which replace those of the same name. They are a mapping, which stands at `source`.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the position and the fix.
    pub fn add_params(&mut self, params: &str, source: &str) -> Result<(), Report> {
        self.params.extend(parse_yaml::<IndexMap<String, Value>>(params, "the params", source)?);
        Ok(())
    }
}

/// Adds a value to another one: see [`PluginUse::from_fragments`].
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (Value::Array(into), Value::Array(more)) => into.extend(more),
        (_, Value::Null) => {}
        (into, more) => *into = more,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capability::{FileAccess, KvScope, Power};

    fn of(fragments: &[&str]) -> Result<PluginUse, Report> {
        PluginUse::from_fragments(&fragments.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(), "--grant")
    }

    #[test]
    fn grant_fragments_are_merged_in_order() {
        let uses = of(&[
            "files: [{path: docs, as: .}]",
            r#"{"files": [{"path": "out", "mode": "write"}], "kv": "run", "params": {"a": 1, "b": {"c": [1]}}}"#,
            "{kv: agent, clock: true, powers: [note], params: {b: {c: [2]}, d: x}, limits: {time: 2s}}",
            "powers: [stop]\n",
            "",
        ]);
        let uses = uses.unwrap();
        let files: Vec<_> = uses.files.iter().map(|folder| (folder.shown(), folder.mode)).collect();
        assert_eq!(files, [(".".into(), FileAccess::Read), ("out".into(), FileAccess::Write)]);
        assert!(uses.clock && !uses.random && uses.kv == Some(KvScope::Agent), "{uses:?}");
        assert_eq!(uses.powers, [Power::Note, Power::Stop].into());
        assert_eq!(json!(uses.params), json!({"a": 1, "b": {"c": [1, 2]}, "d": "x"}));
        assert_eq!(uses.limits.time.map(|time| time.as_secs()), Some(2));
        assert_eq!(of(&[]).unwrap(), PluginUse::default());
    }

    #[test]
    fn params_of_their_own_replace_those_of_a_fragment() {
        let mut uses = of(&["params: {a: [1], b: 2}"]).unwrap();
        uses.add_params(r#"{"a": [3]}"#, "--params").unwrap();
        assert_eq!(json!(uses.params), json!({"a": [3], "b": 2}));
        let wrong = uses.add_params("[1]", "--params").unwrap_err();
        assert!(wrong.message.contains("--params, line 1"), "{wrong}");
    }

    #[test]
    fn wrong_grant_fragment_is_named_in_words_of_the_config() {
        for (fragments, says, hint) in [
            (&["cloc: true"][..], "there is no key `cloc` (--grant, line 1, column 1)", "did you mean `clock`?"),
            (
                &["clock: true", "clock: 3"],
                "`clock` is not a boolean (--grant number 2, line 1, column 8)",
                "write `true`",
            ),
            (&["{files: [docs]}"], "`files` is not a mapping (--grant, line 1", "name each folder with `path`"),
            (&["{clock: true"], "the grant is not valid YAML (--grant, line ", "check quotes"),
            (&["clock"], "expected a mapping here (--grant, line 1", "`key: value`"),
            (&["limits: {time: 9999h}"], "the value of `time` cannot be used (--grant", ""),
        ] {
            let report = of(fragments).unwrap_err();
            let told = report.hint.clone().unwrap_or_default();
            assert!(report.message.starts_with(says) && told.contains(hint), "{fragments:?}: {report} ({told})");
        }
    }
}
