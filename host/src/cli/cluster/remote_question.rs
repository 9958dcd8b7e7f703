//! Questions of a run on another host. They come from the bus, and may be anything.

use serde_json::{Value, json};

use crate::{
    cli::render::{DIM, PLAIN, YELLOW, escaped, one_line},
    error::{ErrorKind, Report, cut},
    limits,
};

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteQuestion {
    /// The id for the answer.
    pub id: String,
    /// The attempt of the run that asks, as the question names it.
    pub attempt: String,
    agent: String,
    /// `true` if it asks for a permission.
    is_permission: bool,
    text: String,
    /// The labels of the options.
    options: Vec<String>,
    takes_several: bool,
}

impl RemoteQuestion {
    /// Reads a question; `None` if it is none.
    pub fn read(question: &Value) -> Option<Self> {
        let text = |key: &str| question[key].as_str().unwrap_or_default().to_owned();
        let is_permission = question["kind"] == json!("permission");
        let options = question["options"].as_array().into_iter().flatten().take(limits::QUESTION_OPTIONS);
        Some(Self {
            id: question["id"].as_u64()?.to_string(),
            attempt: text("run"),
            agent: text("agent"),
            is_permission,
            // What a permission is for is shown whole, whoever says so.
            text: match is_permission {
                true => format!("{}\n{}", text("action"), text("detail")),
                false => cut(&text("text"), limits::QUESTION_BYTES),
            },
            options: options.filter_map(|option| option["label"].as_str()).map(str::to_owned).collect(),
            takes_several: question["multi_select"] == json!(true),
        })
    }

    /// Formats the question with the answers that it takes.
    pub fn shown(&self) -> String {
        let agent = one_line(&self.agent, limits::NAME_SHOWN_CHARS);
        let mut shown =
            format!("{YELLOW}{agent} asks{PLAIN} {DIM}(question {}){PLAIN}\n{}\n", self.id, escaped(self.text.trim()));
        for (at, option) in self.options.iter().enumerate() {
            shown.push_str(&format!("  {}. {}\n", at + 1, one_line(option, limits::NAME_SHOWN_CHARS)));
        }
        shown.push_str(match (self.is_permission, self.options.is_empty(), self.takes_several) {
            // Whoever has the bus could say that it is trusted from now on: the worker takes a yes for this once alone.
            (true, ..) => "y = yes, n = no, with what to do instead: ",
            (false, true, _) => "answer; an empty line declines: ",
            (false, false, false) => "number, or an answer in your own words; an empty line declines: ",
            (false, false, true) => {
                "numbers separated by commas, or an answer in your own words; an empty line declines: "
            }
        });
        shown
    }

    /// Returns the answer that a line of a person gives, as the run takes it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the line is no answer to this question.
    pub fn reply(&self, line: &str) -> Result<Value, Report> {
        let line = line.trim();
        if self.is_permission {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            return match (word, rest.trim()) {
                ("y" | "yes", "") => Ok(json!({"verdict": "yes"})),
                ("n" | "no", "") => Ok(json!({"verdict": "no"})),
                ("n" | "no", words) => Ok(json!({"verdict": "no", "message": words})),
                _ => Err(Report::new(ErrorKind::Usage, "the answer is not understood").hint("answer yes or no")),
            };
        }
        if line.is_empty() {
            return Ok(json!({"decline": true}));
        }
        let numbers = line.split(',').map(|part| part.trim().parse::<usize>().ok().and_then(|at| at.checked_sub(1)));
        let chosen: Option<Vec<&String>> = numbers.map(|at| self.options.get(at?)).collect();
        Ok(match chosen.or_else(|| self.options.iter().find(|option| *option == line).map(|option| vec![option])) {
            Some(labels) if labels.len() == 1 || self.takes_several => json!({ "chosen": labels }),
            _ => json!({ "text": line }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_person_become_answers() {
        let permission =
            json!({"id": 7, "kind": "permission", "agent": "ada", "action": "run git", "detail": "git push\u{1b}[2J"});
        let asked = RemoteQuestion::read(&permission).unwrap();
        assert!(asked.shown().contains("run git") && !asked.shown().contains("\u{1b}[2J"), "{}", asked.shown());
        let open = |options: Value, several: bool| {
            let question =
                json!({"id": 1, "kind": "open", "text": "which?", "options": options, "multi_select": several});
            RemoteQuestion::read(&question).unwrap()
        };
        let two = || json!([{"label": "a"}, {"label": "b"}]);
        for (question, line, expected) in [
            (&asked, "y\n", Some(json!({"verdict": "yes"}))),
            (&asked, "trust", None),
            (&asked, "n use a branch", Some(json!({"verdict": "no", "message": "use a branch"}))),
            (&asked, "perhaps", None),
            (&asked, "", None),
            (&open(json!([]), false), "so", Some(json!({"text": "so"}))),
            (&open(json!([]), false), "2", Some(json!({"text": "2"}))),
            (&open(two(), false), "2", Some(json!({"chosen": ["b"]}))),
            (&open(two(), false), "a", Some(json!({"chosen": ["a"]}))),
            (&open(two(), false), "1,2", Some(json!({"text": "1,2"}))),
            (&open(two(), true), "1, 2", Some(json!({"chosen": ["a", "b"]}))),
            (&open(two(), true), "3", Some(json!({"text": "3"}))),
            (&open(two(), true), " ", Some(json!({"decline": true}))),
        ] {
            assert_eq!(question.reply(line).ok(), expected, "{line}");
        }
        assert!(RemoteQuestion::read(&json!({"id": "x"})).is_none());
        let long = json!({"id": 1, "kind": "open", "text": "x".repeat(limits::QUESTION_BYTES * 2)});
        assert!(RemoteQuestion::read(&long).unwrap().shown().len() < limits::QUESTION_BYTES + 200);
    }
}
