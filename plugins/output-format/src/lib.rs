//! A run middleware that formats the text of an answer.
//!
//! Params, of which at least one must be set; they are applied in this order:
//!
//! | key | effect |
//! |---|---|
//! | `strip_code_fence` | removes a Markdown code fence around the whole text |
//! | `trim` | removes whitespace at both ends |
//! | `json` | `pretty` or `compact`: sets the whitespace between the parts of JSON; other text stays unchanged |
//! | `max_length` | cuts to this many characters, of which the last is `…` if something was cut; not with `json` |
//! | `prefix`, `suffix` | texts added before and after it |
//!
//! The text parts of the answer are merged into one; other parts keep their order, and an answer without text stays
//! unchanged. The message of an agent that hands over, or whose task has failed, is not an answer and stays unchanged
//! too.

use guest_kit::{
    bad,
    json::{self, JsonLayout},
};
use serde::Deserialize;
use shelly_plugin::{
    Error, Message, Part, config, info,
    run_middleware::{AfterDecision, BeforeDecision, Outcome, Pass, RunMiddleware},
    text,
    types::RunContext,
};

shelly_plugin::export!(run_middleware: OutputFormat);

struct OutputFormat;

#[derive(Deserialize, Default, Clone, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct Params {
    trim: bool,
    strip_code_fence: bool,
    prefix: String,
    suffix: String,
    max_length: Option<usize>,
    json: Option<JsonLayout>,
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        if self == Params::default() {
            return Err(bad(
                "there is nothing to do; set `trim`, `strip_code_fence`, `json`, `max_length`, `prefix` or `suffix`",
            ));
        }
        if self.max_length == Some(0) {
            return Err(bad("`max_length` is 0, which leaves nothing; use at least 1"));
        }
        if self.max_length.is_some() && self.json.is_some() {
            return Err(bad(
                "`max_length` and `json` exclude each other, because cut JSON is invalid; remove one of them",
            ));
        }
        Ok(self)
    }

    fn apply(&self, answer: &str) -> String {
        let mut answer = answer;
        if self.strip_code_fence {
            answer = unfenced(answer);
        }
        if self.trim {
            answer = answer.trim();
        }
        let mut formed = match &self.json {
            Some(form) => json::format(answer, *form).unwrap_or_else(|| {
                info!("the answer is not JSON and stays as it is");
                answer.to_owned()
            }),
            None => answer.to_owned(),
        };
        if let Some(most) = self.max_length.filter(|most| formed.chars().count() > *most) {
            formed = format!("{}…", text::head(&formed, most - 1));
        }
        format!("{}{formed}{}", self.prefix, self.suffix)
    }
}

impl RunMiddleware for OutputFormat {
    fn before(_cx: RunContext, _input: Vec<Message>) -> Result<BeforeDecision, Error> {
        // Invalid params are reported before an answer costs anything.
        config::<Params>()?.check()?;
        Ok(BeforeDecision::Proceed(Pass { input: None, state: Vec::new() }))
    }

    fn after(_cx: RunContext, outcome: Outcome, _state: Vec<u8>) -> Result<AfterDecision, Error> {
        let Some(answer) = outcome.reply.ok().filter(Message::is_answer) else { return Ok(AfterDecision::Accept) };
        let params = config::<Params>()?.check()?;
        Ok(formed(&params, answer).map_or(AfterDecision::Accept, AfterDecision::Replace))
    }
}

/// Returns the formatted answer; none if formatting changes nothing.
fn formed(params: &Params, mut answer: Message) -> Option<Message> {
    let text = answer.text();
    let formed = params.apply(&text);
    let is_text = |part: &Part| matches!(part, Part::Text(_));
    let first = answer.parts.iter().position(is_text).filter(|_| formed != text)?;
    answer.parts.retain(|part| !is_text(part));
    answer.parts.insert(first, Part::Text(formed));
    Some(answer)
}

/// Returns the content of a Markdown code fence around the whole text; the text itself if there is none.
fn unfenced(text: &str) -> &str {
    let inner = || {
        let inner = text.trim().strip_prefix("```")?.strip_suffix("```")?;
        // The rest of the first line names the language.
        let (language, body) = inner.split_once('\n')?;
        (!language.contains('`') && !body.contains("\n```")).then(|| body.strip_suffix('\n').unwrap_or(body))
    };
    inner().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use shelly_plugin::types::{Opaque, Role};

    use super::*;

    fn params(json: &str) -> Result<Params, String> {
        let params: Params = serde_json::from_str(json).map_err(|error| error.to_string())?;
        params.check().map_err(|error| error.message().to_owned())
    }

    #[test]
    fn output_format_applies_each_option() {
        for (json, answer, expected) in [
            (r#"{"trim": true}"#, " \n a b \n", "a b"),
            (r#"{"strip_code_fence": true}"#, "```rust\n fn a() {}\n```\n", " fn a() {}"),
            (r#"{"strip_code_fence": true}"#, "see:\n```\na\n```", "see:\n```\na\n```"),
            (r#"{"strip_code_fence": true}"#, "```\na\n```\nand\n```\nb\n```", "```\na\n```\nand\n```\nb\n```"),
            (r#"{"prefix": "> ", "suffix": " <"}"#, "a", "> a <"),
            (r#"{"max_length": 3}"#, "äöü", "äöü"),
            (r#"{"max_length": 3}"#, "äöüß", "äö…"),
            (r#"{"max_length": 1, "prefix": "<"}"#, "ab", "<…"),
            (r#"{"json": "compact"}"#, "{ \"b\": 1.0,\n \"a\": [ ] }", "{\"b\":1.0,\"a\":[]}"),
            (r#"{"json": "compact"}"#, "prose { }", "prose { }"),
            (r#"{"json": "pretty", "strip_code_fence": true}"#, "```json\n[1]\n```", "[\n  1\n]"),
        ] {
            assert_eq!(params(json).unwrap().apply(answer), expected, "{json} {answer}");
        }
    }

    #[test]
    fn output_format_keeps_other_parts_and_skips_unchanged_answers() {
        let other = Part::Other(Opaque { kind: "x".into(), json: "1".into() });
        let answer = |parts: &[Part]| Message { parts: parts.to_vec(), ..Message::new(Role::Assistant, "") };
        let trim = params(r#"{"trim": true}"#).unwrap();
        let mixed = answer(&[other.clone(), " a".into(), other.clone(), "b ".into()]);
        assert_eq!(formed(&trim, mixed), Some(answer(&[other.clone(), "ab".into(), other.clone()])));
        assert_eq!(formed(&trim, answer(&["a".into()])), None);
        let prefix = params(r#"{"prefix": "x"}"#).unwrap();
        assert_eq!(formed(&prefix, answer(&[other])), None, "there is no text");
    }

    #[test]
    fn senseless_params_are_refused() {
        for (json, says) in [
            ("{}", "there is nothing to do"),
            (r#"{"trim": false}"#, "there is nothing to do"),
            (r#"{"max_length": 0}"#, "at least 1"),
            (r#"{"max_length": 9, "json": "pretty"}"#, "exclude each other"),
            (r#"{"json": "nice"}"#, "unknown variant `nice`"),
        ] {
            let error = params(json).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}
