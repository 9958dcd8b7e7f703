use std::path::Path;

use serde_json::Value;

use super::{
    Config,
    mask::{MASK, looks_like_credential, masked, masked_url, names_credential, variable_holds_credential},
    variables::variables,
};

/// A config file without credentials and without the texts of its author, as it may be handed to others. The file need not be
/// a valid config.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShareableConfig {
    /// The content of the file; `None` if it cannot be read as YAML.
    pub content: Option<Value>,
    /// Texts of the file that may be credentials. They must not be in anything else that is handed on.
    pub hidden: Vec<String>,
}

/// Keys below which every text is hidden: their names are chosen by others, so that nothing tells which is a credential.
const OTHERS: [&str; 4] = ["env", "headers", "params", "body"];
/// Keys of the words of a command; all but the first are hidden.
const COMMANDS: [&str; 3] = ["args", "command", "api_key_command"];
/// Keys of texts for models and people.
const TEXTS: [&str; 4] = ["instructions", "description", "prefix", "role"];

impl ShareableConfig {
    /// Reads a config file. What cannot be read is left out.
    pub fn read(path: &Path) -> Self {
        Config::text_of(path).map_or_else(|_| Self::default(), |(text, _)| Self::of_text(&text))
    }

    /// Returns `true` if a variable of the environment holds a credential, as far as its name and its value tell.
    pub fn is_credential(variable: &str, value: &str) -> bool {
        variable_holds_credential(variable, value)
    }

    fn of_text(text: &str) -> Self {
        let (mut shareable, yaml) = (Self::default(), serde_saphyr::from_str::<Value>(text));
        match yaml {
            Ok(value) => shareable.content = Some(shareable.without_credentials("", &value)),
            // Error messages may quote what nobody can parse.
            Err(_) => text.lines().for_each(|line| shareable.hide_in_line(line)),
        }
        shareable
    }

    /// Returns the value of `key` without credentials and texts.
    fn without_credentials(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => self.shown(key, text).into(),
            Value::Array(words) if COMMANDS.contains(&key) => {
                let has_program = key != "args";
                let shown = |(at, word): (usize, &Value)| match word {
                    Value::String(_) if has_program && at == 0 => self.without_credentials("", word),
                    Value::String(word) => self.shown_word(word).into(),
                    other => self.without_credentials("args", other),
                };
                words.iter().enumerate().map(shown).collect()
            }
            Value::Array(list) => list.iter().map(|value| self.without_credentials(key, value)).collect(),
            Value::Object(map) => {
                let shown = |(name, value): (&String, &Value)| {
                    // A key below a key of others is a name of others, too.
                    let key = if OTHERS.contains(&key) && !names_credential(name) { key } else { name };
                    (name.clone(), self.without_credentials(key, value))
                };
                map.iter().map(shown).collect()
            }
            other => other.clone(),
        }
    }

    /// Returns the text of a key.
    fn shown(&mut self, key: &str, text: &str) -> String {
        let is_credential = names_credential(key);
        if is_credential || OTHERS.contains(&key) {
            let shown = masked(text);
            if shown == MASK {
                self.hide(text, is_credential);
            }
            return shown.to_owned();
        }
        if TEXTS.contains(&key) || text.contains(char::is_whitespace) {
            return format!("({} characters)", text.chars().count());
        }
        match text.contains("://") {
            true => self.shown_url(text),
            false => text.to_owned(),
        }
    }

    fn shown_url(&mut self, url: &str) -> String {
        let shown = masked_url(url);
        if shown != url {
            // Parts of an address are credentials whatever their length.
            url.split(['/', '@', ':', '?', '&', '=', '#']).for_each(|part| self.hide(part, false));
        }
        shown
    }

    /// Returns a word of a command: the name of an option, or a mask.
    fn shown_word(&mut self, word: &str) -> String {
        let is_option = word.starts_with('-');
        match word.split_once('=').filter(|_| is_option) {
            Some((option, value)) => {
                self.hide(value, false);
                format!("{option}={MASK}")
            }
            None if is_option => word.to_owned(),
            None => {
                self.hide(word, false);
                masked(word).to_owned()
            }
        }
    }

    /// Hides the value of a line `key: value` whose key is that of a credential.
    fn hide_in_line(&mut self, line: &str) {
        for (key, value) in line.split([',', '{', '}']).filter_map(|part| part.split_once(':')) {
            let value = value.trim().trim_matches(['"', '\'']);
            if names_credential(key) {
                self.hide(value, true);
            }
        }
    }

    /// Remembers a text. One that is not known to be a credential must look like one, so that no folder, option or everyday word
    /// is hidden everywhere.
    fn hide(&mut self, text: &str, is_credential: bool) {
        if variables(text).next().is_some() {
            return;
        }
        // A scheme such as `Bearer` comes first.
        let last = text.split_whitespace().next_back().unwrap_or_default();
        if is_credential || looks_like_credential(last) {
            self.hidden.extend([text, last].map(str::to_owned));
            self.hidden.dedup();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shareable_config_has_no_credential_and_no_text() {
        let text = r#"
providers:
  - {name: gpt, kind: openai, model: gpt-5, api_key: sk-in-the-file, base_url: "https://me:pass-0123456789abcdef@h.example/v1"}
  - {name: env, kind: openai, model: m, api_key: "${MY_KEY}", headers: {X-Org: org-0123456789abcdef}}
  - {name: prog, kind: openai, model: m, api_key_command: [pass, show, work-0123456789abcdef]}
mcp_servers:
  - {name: files, command: npx, args: [-y, --token=arg-0123456789abcdef, arg2-0123456789abcdef, /srv/data], env: {DB: db-0123456789abcdef}}
agents:
  - name: ada
    instructions: Secret plans.
    plugins: {p: {params: {deep: {x: in-0123456789abcdef, n: 3}}}}
"#;
        let ShareableConfig { content, hidden } = ShareableConfig::of_text(text);
        let content = content.unwrap();
        let shown = content.to_string();
        for secret in ["sk-in", "pass-0", "org-0", "work-0", "arg-0", "arg2-0", "db-0", "in-0"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
            assert!(hidden.iter().any(|text| text.starts_with(secret)), "{secret}: {hidden:?}");
        }
        assert!(!shown.contains("plans") && !hidden.iter().any(|text| text.contains("/srv")), "{shown}: {hidden:?}");
        assert_eq!(content["providers"][1]["api_key"], "${MY_KEY}");
        assert_eq!(content["providers"][0]["base_url"], "https://h.example/v1");
        assert_eq!(content["mcp_servers"][0]["args"], json!(["-y", "--token=***", MASK, MASK]));
        assert_eq!(content["agents"][0]["instructions"], "(13 characters)");
        assert_eq!(content["agents"][0]["plugins"]["p"]["params"]["deep"]["n"], 3);
    }

    #[test]
    fn file_that_is_no_yaml_has_no_content() {
        let broken = "providers:\n  - {name: a, api_key: \"sk-short\", kind: [\n    client_secret: 'also'\n";
        let ShareableConfig { content, hidden } = ShareableConfig::of_text(broken);
        assert_eq!(content, None);
        assert!(["sk-short", "also"].iter().all(|secret| hidden.contains(&(*secret).to_owned())), "{hidden:?}");
        assert_eq!(ShareableConfig::read(Path::new("/no/such/file")), ShareableConfig::default());
    }
}
