//! The JSON Schema of the config file, made of the types that the file is read into.

use schemars::{Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::Value;

use super::Config;

/// Returns the JSON Schema (2020-12) of the config file. A config that it refuses cannot be read; references between names
/// and what depends on several keys are checked by [`Config::read`] alone.
pub fn json_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(describe_for_readers));
    let mut schema = settings.into_generator().into_root_schema_for::<Config>();
    schema.insert("title".into(), "The config of shelly-host".into());
    schema.to_value()
}

/// Replaces what only readers of the code understand in a description: links to items, and `None` for a key that is left
/// out.
fn describe_for_readers(schema: &mut Schema) {
    let Some(Value::String(text)) = schema.get_mut("description") else { return };
    let mut plain = String::new();
    let mut rest = text.as_str();
    // A link is `[text](target)` or `[text]`; the config has no other brackets after a backtick.
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        let after = after.strip_prefix('(').and_then(|target| target.split_once(')')).map_or(after, |(_, after)| after);
        plain.push_str(&format!("{before}`{name}`"));
        rest = after;
    }
    plain.push_str(rest);
    *text = plain.replace("`None`", "left out").replace('\n', " ");
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::{Map, json};

    use super::{super::recover, *};
    use crate::tool::InputSchema;

    /// Returns the schema in the form that the host's own checker takes: without references.
    fn checker() -> InputSchema {
        let root = json_schema();
        let definitions = root["$defs"].as_object().unwrap().clone();
        InputSchema::new(&inlined(&root, &definitions)).unwrap_or_else(|why| panic!("{why}"))
    }

    fn inlined(schema: &Value, definitions: &Map<String, Value>) -> Value {
        match schema {
            Value::Array(list) => list.iter().map(|one| inlined(one, definitions)).collect(),
            Value::Object(map) => {
                let mut all = Map::new();
                if let Some(Value::String(target)) = map.get("$ref") {
                    let name = target.strip_prefix("#/$defs/").unwrap();
                    all.extend(inlined(&definitions[name], definitions).as_object().unwrap().clone());
                }
                let rest =
                    map.iter().filter(|(key, _)| !["$ref", "$defs", "$schema", "uniqueItems"].contains(&key.as_str()));
                all.extend(rest.map(|(key, value)| (key.clone(), inlined(value, definitions))));
                Value::Object(all)
            }
            other => other.clone(),
        }
    }

    fn parsed(text: &str) -> Value {
        let options = serde_saphyr::options! { strict_booleans: true };
        serde_saphyr::from_str_with_options(text, options).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn schema_accepts_every_config_of_examples_and_docs() {
        let checker = checker();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut configs = Vec::new();
        for example in fs::read_dir(repository.join("examples")).unwrap() {
            let path = example.unwrap().path().join("shelly.yaml");
            if let Ok(text) = fs::read_to_string(&path) {
                configs.push((path.display().to_string(), text));
            }
        }
        for page in fs::read_dir(repository.join("docs")).unwrap() {
            let path = page.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
            // Some blocks show a part of a config.
            let whole = blocks.filter(|block| Config::parse(block, "/project".into()).is_ok());
            configs.extend(whole.map(|block| (path.display().to_string(), block.to_owned())));
        }
        assert!(configs.len() > 20, "{}", configs.len());
        for (place, text) in configs {
            assert!(Config::parse(&text, "/project".into()).is_ok(), "{place}");
            checker.check(&parsed(&text)).unwrap_or_else(|why| panic!("{place}: {why}\n{text}"));
        }
    }

    #[test]
    fn schema_refuses_what_the_reader_refuses() {
        let checker = checker();
        for text in [
            "colour: red",
            "agents: [{name: a, colour: red}]",
            "agents: [{nmae: a}]",
            "agents: [{name: a, options: {max_iterations: many}}]",
            "agents: [{name: a, options: {max_iterations: 99999999}}]",
            "agents: [{name: a, plugins: {p: {powers: [fly]}}}]",
            "agents: [{name: a, effects: [{params: {}}]}]",
            "agents: [{name: a, effects: [{kind: p, chat: true}]}]",
            "agents: [{name: a, toolboxes: [{tools: [x]}]}]",
            "agents: [{name: a, use: {kv: [everywhere]}}]",
            "teams: [{name: t}]",
            "teams: [{name: t, members: [{agent: a, times: 3}]}]",
            "providers: [{name: m, kind: opnai}]",
            "providers: [{name: m, kind: openai, model: m, batch: {max_size: 0}}]",
            "mcp_servers: [{name: s, command: x, output_chars: 0}]",
            "programs: {x: {timeout: ''}}",
            "limits: {memory_bytes: 0}",
            "limits: {log_entries: 100001}",
            "runs: {agents: 0}",
        ] {
            assert!(Config::parse(text, "/project".into()).is_err(), "{text}");
            assert!(checker.check(&parsed(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn bounds_of_the_schema_are_those_of_the_reader() {
        let schema = json_schema();
        let mut bounds = 0;
        for (key, definition) in [("limits", "LimitsConfig"), ("runs", "RunsConfig")] {
            for (name, setting) in schema["$defs"][definition]["properties"].as_object().unwrap() {
                let (Some(least), Some(most)) = (setting["minimum"].as_u64(), setting["maximum"].as_u64()) else {
                    continue;
                };
                let parse = |number: u64| {
                    let text = format!("{key}: {{{name}: {number}}}");
                    recover::parse::<Config>(&text).1.into_iter().map(|report| report.to_string()).collect::<Vec<_>>()
                };
                assert_eq!((parse(least), parse(most)), (vec![], vec![]), "{key}.{name}");
                assert_eq!(parse(most + 1).len(), 1, "{key}.{name}");
                assert_eq!(least.checked_sub(1).map_or(1, |less| parse(less).len()), 1, "{key}.{name}");
                bounds += 1;
            }
        }
        assert!(bounds > 15, "{bounds}");
    }

    #[test]
    fn descriptions_are_for_readers_of_the_config() {
        let schema = json_schema();
        let agent = &schema["$defs"]["AgentConfig"]["properties"];
        assert_eq!(
            agent["provider"]["description"],
            "The name of its model; left out: the first provider of the config."
        );
        let text = schema.to_string();
        for jargon in ["`None`", "[`", "super::", "limits::"] {
            assert!(!text.contains(jargon), "{jargon}");
        }
        assert_eq!(schema["additionalProperties"], json!(false));
    }
}
