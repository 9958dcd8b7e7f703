//! Questions of a run on another worker, put to whoever answers those of its parent run.

use serde_json::{Value, json};
use shelly_core::{
    approval::{OpenQuestion, OpenQuestionAnswer, QuestionOption},
    error::cut,
    limits,
};

/// The answers to a question for a permission.
const YES: &str = "yes";
const NO: &str = "no";

/// A question of a run on another worker. It comes from the bus, and may be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChildQuestion {
    /// The id for the answer.
    pub id: String,
    /// The attempt of the run that asks, as the question names it.
    pub attempt: String,
    /// The question as the person is asked it. A permission is asked for as a choice of yes and no, since the person at this
    /// host cannot trust anything for the other one.
    pub question: OpenQuestion,
    is_permission: bool,
}

impl ChildQuestion {
    /// Reads a question of the agent `agent`; `None` if it is none.
    pub fn read(agent: &str, question: &Value) -> Option<Self> {
        let id = question["id"].as_u64()?.to_string();
        let text = |key: &str| question[key].as_str().unwrap_or_default();
        let is_permission = question["kind"] == json!("permission");
        let asked = match is_permission {
            true => format!("`{agent}` asks on another host for a permission: {}\n{}", text("action"), text("detail")),
            false => format!("`{agent}` asks on another host: {}", text("text")),
        };
        let of_question = || {
            let options = question["options"].as_array().into_iter().flatten().take(limits::QUESTION_OPTIONS);
            let option = |option: &Value| QuestionOption {
                label: option["label"].as_str().unwrap_or_default().to_owned(),
                description: option["description"].as_str().unwrap_or_default().to_owned(),
            };
            options.map(option).collect()
        };
        let answer = |label: &str| QuestionOption { label: label.into(), description: String::new() };
        let multi_select = question["multi_select"] == json!(true);
        let max_selections = question["max_selections"].as_u64().and_then(|most| usize::try_from(most).ok());
        let question = OpenQuestion {
            // A character has at most four bytes.
            text: cut(&asked, limits::QUESTION_BYTES / 4 - 1),
            header: if is_permission {
                "permission".into()
            } else {
                cut(text("header"), limits::QUESTION_LABEL_BYTES / 4 - 1)
            },
            options: if is_permission { vec![answer(YES), answer(NO)] } else { of_question() },
            multi_select,
            max_selections: max_selections.filter(|_| multi_select),
        };
        Some(Self { id, attempt: text("run").to_owned(), question, is_permission })
    }

    /// Returns the reply for the worker. Whoever did not answer has declined.
    pub fn reply(&self, answer: Option<OpenQuestionAnswer>) -> Value {
        match (self.is_permission, answer) {
            (true, Some(OpenQuestionAnswer::Chosen(labels))) if labels == [YES] => json!({"verdict": "yes"}),
            // Words instead of a choice say what to do instead.
            (true, Some(OpenQuestionAnswer::Text(text))) => match text.trim() {
                YES => json!({"verdict": "yes"}),
                text => json!({"verdict": "no", "message": text}),
            },
            (true, _) => json!({"verdict": "no"}),
            (false, Some(OpenQuestionAnswer::Chosen(labels))) => json!({ "chosen": labels }),
            (false, Some(OpenQuestionAnswer::Text(text))) => json!({ "text": text }),
            (false, None) => json!({"decline": true}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_of_another_worker_is_read_and_answered() {
        let chosen = |label: &str| Some(OpenQuestionAnswer::Chosen(vec![label.into()]));
        let text = |text: &str| Some(OpenQuestionAnswer::Text(text.into()));
        let permission = json!({"id": 7, "kind": "permission", "action": "run git", "detail": "git push"});
        let asked = ChildQuestion::read("gpu", &permission).unwrap();
        assert!(asked.question.text.contains("`gpu`") && asked.question.text.contains("git push"));
        for (answer, reply) in [
            (chosen("yes"), json!({"verdict": "yes"})),
            (text(" yes "), json!({"verdict": "yes"})),
            (chosen("no"), json!({"verdict": "no"})),
            (text("use a branch"), json!({"verdict": "no", "message": "use a branch"})),
            (None, json!({"verdict": "no"})),
        ] {
            assert_eq!(asked.reply(answer), reply);
        }
        let options = json!([{"label": "a", "description": "first"}, {"label": "b"}]);
        let open = json!({"id": 8, "kind": "open", "text": "which?", "options": options, "multi_select": true});
        let asked = ChildQuestion::read("gpu", &open).unwrap();
        assert_eq!((asked.id.as_str(), asked.question.options.len(), asked.question.multi_select), ("8", 2, true));
        assert_eq!(asked.reply(chosen("a")), json!({"chosen": ["a"]}));
        assert_eq!(asked.reply(text("both")), json!({"text": "both"}));
        assert_eq!(asked.reply(None), json!({"decline": true}));
        assert_eq!(ChildQuestion::read("gpu", &json!({"id": "x"})), None);
    }

    #[test]
    fn question_of_any_size_can_be_asked() {
        let long = "ä".repeat(limits::QUESTION_BYTES);
        let options: Vec<_> = (0..limits::QUESTION_OPTIONS * 2).map(|n| json!({"label": n.to_string()})).collect();
        let open = json!({"id": 8, "kind": "open", "text": long, "header": long, "options": options});
        let asked = ChildQuestion::read("gpu", &open).unwrap().question;
        assert!(asked.text.len() <= limits::QUESTION_BYTES && asked.header.len() <= limits::QUESTION_LABEL_BYTES);
        assert_eq!(asked.options.len(), limits::QUESTION_OPTIONS);
    }
}
