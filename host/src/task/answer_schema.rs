use std::{fmt, path::Path, sync::Arc};

use serde_json::Value;

use super::{
    schema_fallback::{RefusingModels, SchemaFallbackModel},
    schema_references::without_references,
};
use crate::{
    agent::{OutputGuardrail, RunMiddleware},
    app::EntryRunner,
    chat::Message,
    error::{ErrorKind, Fault, Report, legible},
    files, limits,
    tool::{ENFORCED_KEYWORDS, InputSchema},
};

/// The name of the middleware that checks answers, for events and errors.
const NAME: &str = "answer-schema";

/// A JSON Schema that the answer of a run follows.
///
/// The task says the schema. A vendor that can is asked to enforce it, as long as the agent has no tools. In any case the
/// answer is checked against it; an agent whose answer does not follow is told why, and may correct it
/// [`limits::ANSWER_CORRECTIONS`] times.
#[derive(Clone)]
pub struct AnswerSchema {
    /// The schema on one line.
    text: Arc<str>,
    schema: Arc<InputSchema>,
    refusing: RefusingModels,
}

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerSchema").field(&self.text).finish()
    }
}

impl AnswerSchema {
    /// Parses a schema. References within it are resolved, and `$schema` and `$id` are left out.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the first keyword that the host cannot enforce.
    pub fn new(schema: &Value) -> Result<Self, Report> {
        let wrong =
            |cause: String| Report::new(ErrorKind::Usage, "the schema of the answer cannot be used").cause(cause);
        let text = schema.to_string();
        if text.len() > limits::ANSWER_SCHEMA_BYTES {
            return Err(wrong(format!("larger than {} bytes", limits::ANSWER_SCHEMA_BYTES))
                .hint("ask for fewer or simpler values"));
        }
        let enforced: Vec<_> = ENFORCED_KEYWORDS.iter().map(|keyword| format!("`{keyword}`")).collect();
        let hint = format!("keywords that are enforced: {}; and `$ref` within the schema", enforced.join(", "));
        let parsed = without_references(schema).and_then(|schema| InputSchema::new(&schema));
        let schema = parsed.map_err(|why| wrong(why).hint(hint))?;
        Ok(Self { text: text.into(), schema: Arc::new(schema), refusing: RefusingModels::default() })
    }

    /// Reads a schema from a JSON file.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the file cannot be read, or the schema cannot be used.
    pub fn read(path: &Path) -> Result<Self, Report> {
        let shown = legible(&path.display().to_string());
        let wrong = |cause: String| {
            let report = Report::new(ErrorKind::Usage, format!("cannot read the schema {shown}"));
            report.cause(cause).hint("name a file that contains a JSON Schema, for example {\"type\": \"object\"}")
        };
        // The person names the file, so a link may lead anywhere.
        let root = path.ancestors().last().filter(|root| !root.as_os_str().is_empty()).unwrap_or(Path::new("/"));
        let most = 4 * limits::ANSWER_SCHEMA_BYTES as u64;
        let text = files::read(path, root, most).map_err(|error| wrong(error.to_string()))?;
        let schema = serde_json::from_str(&text).map_err(|error| wrong(format!("the file is not JSON: {error}")))?;
        Self::new(&schema).map_err(|report| report.in_file(shown))
    }

    /// Returns the text that tells a model to follow the schema.
    pub fn instructions(&self) -> String {
        format!("Answer with JSON only, without any other text. The JSON must follow this JSON Schema:\n{}", self.text)
    }

    /// Returns the schema as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Returns the value of an answer that follows the schema. A fence of Markdown around the JSON is left out.
    ///
    /// # Errors
    ///
    /// The reason for which the answer does not follow, for its author.
    pub fn value_of(&self, answer: &str) -> Result<Value, String> {
        let json = without_fence(answer.trim());
        let value = serde_json::from_str(json).map_err(|error| format!("the answer is not JSON: {error}"))?;
        match self.schema.check(&value) {
            Ok(()) => Ok(value),
            Err(why) => Err(format!("the answer does not follow the JSON Schema: {why}")),
        }
    }

    /// Enforces the schema on the answers of an agent or team. Every run of it then ends with an answer that follows the schema, or fails with
    /// [`RunError::Rejected`](crate::agent::RunError::Rejected).
    pub fn enforce_on(&self, runner: EntryRunner) -> EntryRunner {
        // The outermost middleware sees the answer as the person gets it.
        match runner {
            EntryRunner::Agent(mut agent) => {
                agent.middleware.insert(0, self.middleware());
                agent.response_schema = Some(Arc::clone(&self.text));
                agent.completer =
                    Arc::new(SchemaFallbackModel::new(Arc::clone(&agent.completer), self.refusing.clone()));
                EntryRunner::Agent(agent)
            }
            EntryRunner::Team(mut team) => {
                team.middleware.insert(0, self.middleware());
                EntryRunner::Team(team)
            }
        }
    }

    fn middleware(&self) -> Arc<dyn RunMiddleware> {
        let schema = self.clone();
        let check = move |answer: &Message| match schema.value_of(&answer.text_content()) {
            Ok(_) => Ok(()),
            Err(why) => Err(Fault::invalid(why)),
        };
        Arc::new(OutputGuardrail::new(NAME, check).with_retries(limits::ANSWER_CORRECTIONS))
    }
}

/// Returns the content of a fenced block of Markdown, if the text is one block.
fn without_fence(text: &str) -> &str {
    let block = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    block.and_then(|block| block.split_once('\n')).map_or(text, |(_language, content)| content.trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        agent::{Agent, RunError},
        chat::Chat,
        event::RunCx,
        model::{CompletionRequest, ScriptedCompleter},
        tool,
    };

    fn city() -> AnswerSchema {
        let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        AnswerSchema::new(&city).unwrap()
    }

    #[test]
    fn answer_is_parsed_and_checked() {
        let schema = city();
        for (answer, value) in [
            ("{\"city\": \"Paris\"}", Ok(json!({"city": "Paris"}))),
            (" \n```json\n{\"city\": \"Paris\"}\n```\n", Ok(json!({"city": "Paris"}))),
            ("```\n{\"city\": \"```\"}\n```", Ok(json!({"city": "```"}))),
            (
                "{\"city\": 7}",
                Err("the answer does not follow the JSON Schema: `city`: got a number, expected a string"),
            ),
            ("Paris", Err("the answer is not JSON: ")),
            ("{\"city\": \"Paris\"} I hope this helps.", Err("the answer is not JSON: ")),
            ("```json\n```", Err("the answer is not JSON: ")),
            ("", Err("the answer is not JSON: ")),
        ] {
            match (schema.value_of(answer), value) {
                (Ok(read), Ok(value)) => assert_eq!(read, value, "{answer}"),
                (Err(why), Err(begins)) => assert!(why.starts_with(begins), "{answer}: {why}"),
                (read, _) => panic!("{answer}: {read:?}"),
            }
        }
    }

    #[test]
    fn unusable_schemas_are_refused_with_place_and_mend() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("s.json");
            std::fs::write(&path, text).unwrap();
            AnswerSchema::read(&path)
        };
        let schema = read(r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "boolean"}"#).unwrap();
        assert_eq!(schema.value_of("true"), Ok(json!(true)));
        assert!(schema.instructions().contains("\"type\":\"boolean\""));
        let long = format!("{{\"description\": \"{}\"}}", "x".repeat(limits::ANSWER_SCHEMA_BYTES));
        for (text, why) in [
            ("{", "s.json: the file is not JSON: EOF"),
            (r#"{"properties": {"a": {"pattern": "x"}}}"#, "`pattern`"),
            ("{\"items\": {\"$ref\": \"#\"}}", "s.json): `$ref` # refers to itself"),
            (&long, "s.json): larger than"),
        ] {
            let report = read(text).unwrap_err();
            assert!(report.to_string().contains(why) && report.hint.is_some(), "{report}");
        }
        let report = AnswerSchema::read(&folder.path().join("none.json")).unwrap_err();
        assert!(report.to_string().contains("none.json: no such file"), "{report}");
    }

    /// Runs an agent with these replies. Returns the outcome, and the requests to its model.
    async fn run(
        replies: &[&str],
        agent: impl FnOnce(Agent) -> Agent,
    ) -> (Result<String, RunError>, Vec<CompletionRequest>) {
        let model = Arc::new(ScriptedCompleter::new(replies.iter().map(|reply| ScriptedCompleter::text(reply))));
        let agent = agent(Agent::new("a", "", Arc::clone(&model) as _));
        let runner = city().enforce_on(EntryRunner::Agent(Box::new(agent)));
        let answer = runner.runner().run(&RunCx::new("a"), &Chat::new(), vec![Message::user("Where?")]).await;
        (answer.map(|answer| answer.message.text_content()), model.requests())
    }

    fn have_schemas(requests: &[CompletionRequest]) -> Vec<bool> {
        requests.iter().map(|request| request.response_schema.is_some()).collect()
    }

    #[tokio::test]
    async fn agent_corrects_an_answer_that_does_not_follow() {
        let (answer, requests) = run(&["Paris", "{\"city\": 7}", "{\"city\": \"Paris\"}"], |agent| agent).await;
        assert_eq!(answer.unwrap(), "{\"city\": \"Paris\"}");
        let last = requests.last().unwrap();
        let notes: Vec<_> = last.messages.iter().filter(|entry| entry.message.is_note()).collect();
        assert_eq!(notes.len(), 2);
        let told = notes[1].message.text_content();
        assert!(
            told.contains("`city`: got a number, expected a string") && told.contains("was not accepted"),
            "{told}"
        );
        assert_eq!(have_schemas(&requests), [true, true, true], "the vendor may enforce it");
    }

    #[tokio::test]
    async fn answer_fails_after_the_last_correction() {
        let (answer, requests) = run(&["Paris"; 5], |agent| agent).await;
        let error = answer.unwrap_err();
        assert!(matches!(&error, RunError::Rejected { by, .. } if by == NAME), "{error}");
        assert!(error.in_full().contains("the answer is not JSON"), "{}", error.in_full());
        assert_eq!(requests.len(), 1 + limits::ANSWER_CORRECTIONS as usize);
    }

    #[tokio::test]
    async fn agent_with_tools_is_not_forced_into_the_schema() {
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        struct NoArgs {}
        let look = tool::function("look", "", |_, NoArgs {}| async { Ok("nothing") });
        let (answer, requests) = run(&["{\"city\": \"Paris\"}"], |agent| agent.with_tool(look)).await;
        assert!(answer.is_ok());
        assert_eq!(have_schemas(&requests), [false], "it could call no tool");
    }
}
