use crate::wire::{
    A2aArtifact, A2aMessage, A2aPart, A2aPartContent, A2aTask, A2aTaskState, A2aTaskStatus, TaskStreamItem,
};
use shelly_core::{json_values::count_json_values, limits};

/// A task at another host, as far as its updates have come.
#[derive(Debug, Default)]
pub(crate) struct RemoteTask {
    /// The id; `None` until the host has said it.
    pub id: Option<String>,
    /// The conversation; empty if the host has none.
    pub context: String,
    pub state: A2aTaskState,
    /// The words of its last state.
    pub words: Option<A2aMessage>,
    artifacts: Vec<A2aArtifact>,
    /// The bytes of all parts so far, also of those that later ones replace.
    received: usize,
    /// The whole answer of an agent that makes no task of it.
    pub message: Option<A2aMessage>,
}

impl RemoteTask {
    /// Takes an update.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be one of this task.
    pub fn take(&mut self, item: TaskStreamItem) -> Result<(), String> {
        match item {
            TaskStreamItem::Task(task) => return self.take_task(*task),
            TaskStreamItem::Message(message) if self.id.is_none() => {
                self.take_context(&message.context_id)?;
                self.count(&message.parts)?;
                self.message = Some(*message);
            }
            TaskStreamItem::Message(_) => return Err("a message came in place of an update of the task".into()),
            TaskStreamItem::StatusUpdate(update) => {
                self.take_ids(&update.task_id, &update.context_id)?;
                self.take_status(update.status)?;
            }
            TaskStreamItem::ArtifactUpdate(update) => {
                self.take_ids(&update.task_id, &update.context_id)?;
                self.count(&update.artifact.parts)?;
                let (is_more, artifact) = (update.append, kept_artifact(update.artifact)?);
                let there = self.artifacts.iter_mut().find(|one| one.artifact_id == artifact.artifact_id);
                match there {
                    Some(there) if is_more => append(&mut there.parts, artifact.parts),
                    Some(there) => *there = artifact,
                    None => self.artifacts.push(artifact),
                }
            }
        }
        self.check_parts()
    }

    /// Takes the task as it is now.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be this task.
    pub fn take_task(&mut self, task: A2aTask) -> Result<(), String> {
        self.take_ids(&task.id, &task.context_id)?;
        // Results that the task does not name stay, and so do their bytes.
        self.received = match task.artifacts {
            Some(_) => 0,
            None => self.artifacts.iter().flat_map(|artifact| &artifact.parts).map(size).fold(0, usize::saturating_add),
        };
        self.take_status(task.status)?;
        if let Some(artifacts) = task.artifacts {
            artifacts.iter().try_for_each(|artifact| self.count(&artifact.parts))?;
            self.artifacts = artifacts.into_iter().map(kept_artifact).collect::<Result<_, _>>()?;
        }
        self.check_parts()
    }

    /// Returns `true` if nothing more comes without a message of this host.
    pub fn is_settled(&self) -> bool {
        self.message.is_some() || self.state.is_terminal() || self.state.is_interrupted()
    }

    /// Returns `true` if there is a result.
    pub fn has_result(&self) -> bool {
        !self.artifacts.is_empty()
    }

    /// Returns the answer as text: the results, or the words of the agent if there are none.
    pub fn answer(&self) -> String {
        let words = self.message.as_ref().or(self.words.as_ref());
        let parts = match self.artifacts.is_empty() {
            true => words.map(|words| words.parts.as_slice()).unwrap_or_default().iter().collect::<Vec<_>>(),
            false => self.artifacts.iter().flat_map(|artifact| &artifact.parts).collect(),
        };
        text_of(&parts)
    }

    /// Returns the words of its last state.
    pub fn status_text(&self) -> String {
        self.words.as_ref().map(|words| text_of(&words.parts.iter().collect::<Vec<_>>())).unwrap_or_default()
    }

    fn take_ids(&mut self, id: &str, context: &str) -> Result<(), String> {
        match &self.id {
            Some(known) if known != id => return Err("an update is of another task".into()),
            Some(_) => {}
            None if id.is_empty() || id.len() > limits::A2A_REMOTE_ID_BYTES => {
                return Err("the task has no id, or one that is too long".into());
            }
            None => self.id = Some(id.to_owned()),
        }
        self.take_context(context)
    }

    fn take_context(&mut self, context: &str) -> Result<(), String> {
        match context.len() > limits::A2A_REMOTE_ID_BYTES {
            true => Err("the id of the context is too long".into()),
            false => {
                if !context.is_empty() {
                    context.clone_into(&mut self.context);
                }
                Ok(())
            }
        }
    }

    fn take_status(&mut self, status: A2aTaskStatus) -> Result<(), String> {
        self.count(status.message.as_ref().map(|words| words.parts.as_slice()).unwrap_or_default())?;
        (self.state, self.words) = (status.state, status.message);
        Ok(())
    }

    /// Counts the bytes of new parts.
    fn count(&mut self, parts: &[A2aPart]) -> Result<(), String> {
        self.received = parts.iter().map(size).fold(self.received, usize::saturating_add);
        match self.received > limits::A2A_REPLY_BYTES {
            true => Err(format!("the updates have more than {} bytes together", limits::A2A_REPLY_BYTES)),
            false => Ok(()),
        }
    }

    fn check_parts(&self) -> Result<(), String> {
        let most = limits::A2A_ANSWER_PARTS;
        let parts = self.artifacts.iter().map(|artifact| artifact.parts.len()).fold(0, usize::saturating_add);
        match self.artifacts.len() > most || parts > most {
            true => Err(format!("the answer has more than {most} parts")),
            false => Ok(()),
        }
    }
}

/// Appends the parts of a piece. Text goes on in the last part, as it was cut anywhere.
fn append(parts: &mut Vec<A2aPart>, more: Vec<A2aPart>) {
    for part in more {
        if let (Some(last), A2aPartContent::Text(more)) = (parts.last_mut(), &part.content)
            && let A2aPartContent::Text(text) = &mut last.content
        {
            text.push_str(more);
            continue;
        }
        parts.push(part);
    }
}

/// Returns an artifact as it is kept until the task is over: of its parts, that which becomes text.
fn kept_artifact(artifact: A2aArtifact) -> Result<A2aArtifact, String> {
    let A2aArtifact { artifact_id, parts, .. } = artifact;
    if artifact_id.len() > limits::A2A_REMOTE_ID_BYTES {
        return Err("the id of a result is too long".into());
    }
    let kept = |part: A2aPart| {
        let content = match part.content {
            A2aPartContent::Raw(_) => A2aPartContent::Raw(String::new()),
            A2aPartContent::Url(_) => A2aPartContent::Url(String::new()),
            content => content,
        };
        let A2aPart { media_type, filename, .. } = part;
        A2aPart { media_type, filename, ..A2aPart::of(content) }
    };
    Ok(A2aArtifact { artifact_id, parts: parts.into_iter().map(kept).collect(), ..A2aArtifact::default() })
}

/// Returns the bytes that a part adds to an answer.
fn size(part: &A2aPart) -> usize {
    match &part.content {
        A2aPartContent::Text(text) => text.len(),
        A2aPartContent::Data(value) => {
            let text = value.to_string();
            text.len() + count_json_values(text.as_bytes()) * limits::A2A_VALUE_BYTES
        }
        A2aPartContent::Raw(_) | A2aPartContent::Url(_) => part.filename.len() + part.media_type.len(),
    }
}

/// Returns parts as text for a model. Files are named, and neither kept nor fetched.
fn text_of(parts: &[&A2aPart]) -> String {
    let piece = |part: &&A2aPart| match &part.content {
        A2aPartContent::Text(text) => text.clone(),
        A2aPartContent::Data(value) => value.to_string(),
        A2aPartContent::Raw(_) | A2aPartContent::Url(_) => {
            format!("[the file `{}` ({}) was not taken over]", part.filename, part.media_type)
        }
    };
    parts.iter().map(piece).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(value: Value) -> TaskStreamItem {
        serde_json::from_value(value).unwrap()
    }

    fn artifact(id: &str, text: &str, append: bool) -> TaskStreamItem {
        item(json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": append,
            "artifact": {"artifactId": id, "parts": [{"text": text}]}}}))
    }

    #[test]
    fn updates_add_up_to_an_answer() {
        let mut task = RemoteTask::default();
        task.take(item(json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}})))
            .unwrap();
        assert!(!task.is_settled());
        for (id, text, append) in [("a", "one", false), ("a", "two", true), ("b", "bad", false), ("b", "three", false)]
        {
            task.take(artifact(id, text, append)).unwrap();
        }
        let done = json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}});
        task.take(item(done)).unwrap();
        assert!(task.is_settled() && task.has_result());
        assert_eq!((&*task.answer(), &*task.context), ("onetwo\nthree", "c"));
        let mut direct = RemoteTask::default();
        let parts = json!([{"text": "Hi."}, {"data": {"a": 1}}, {"raw": "aGk=", "filename": "f", "mediaType": "x/y"}]);
        direct.take(item(json!({"message": {"messageId": "m", "parts": parts}}))).unwrap();
        assert!(direct.is_settled());
        assert_eq!(direct.answer(), "Hi.\n{\"a\":1}\n[the file `f` (x/y) was not taken over]");
    }

    #[test]
    fn updates_of_other_tasks_and_large_answers_are_refused() {
        let long = "x".repeat(limits::A2A_REMOTE_ID_BYTES + 1);
        for wrong in [
            json!({"task": {"id": ""}}),
            json!({"task": {"id": long}}),
            json!({"task": {"id": "t", "contextId": long}}),
            json!({"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}),
        ] {
            assert!(RemoteTask::default().take(item(wrong.clone())).is_err(), "{wrong}");
        }
        let known = || RemoteTask { id: Some("t".into()), ..RemoteTask::default() };
        for wrong in [json!({"task": {"id": "u"}}), json!({"message": {"messageId": "m"}})] {
            assert!(known().take(item(wrong.clone())).is_err(), "{wrong}");
        }
        let large = "x".repeat(limits::A2A_REPLY_BYTES / 2 + 1);
        let mut task = known();
        task.take(artifact("a", &large, false)).unwrap();
        assert!(task.take(artifact("a", &large, false)).unwrap_err().contains("bytes"), "also what is replaced counts");
        let mut task = known();
        let data = || {
            let parts = json!([{"data": 1}]);
            item(
                json!({"artifactUpdate": {"taskId": "t", "append": true, "artifact": {"artifactId": "a", "parts": parts}}}),
            )
        };
        let refused = (0..=limits::A2A_ANSWER_PARTS).find_map(|_| task.take(data()).err());
        assert!(refused.unwrap().contains("parts"));
        let parts = json!(vec![json!({"data": 1}); limits::A2A_ANSWER_PARTS / 2 + 1]);
        let artifact = |id: &str| json!({"artifactId": id, "parts": parts});
        let whole = json!({"task": {"id": "t", "artifacts": [artifact("a"), artifact("b")]}});
        assert!(known().take(item(whole)).unwrap_err().contains("parts"), "those of all results count");
    }

    #[test]
    fn only_that_which_becomes_text_is_kept_of_a_result() {
        let mut task = RemoteTask { id: Some("t".into()), ..RemoteTask::default() };
        let more = json!({"a": "x".repeat(1 << 10)});
        let update = |id: &str, data: Value| {
            let parts = json!([
                {"raw": "aGk=", "filename": "f", "mediaType": "x/y", "metadata": more},
                {"url": "https://agents.example.com/f", "filename": "g"},
                {"data": data},
            ]);
            let artifact = json!({"artifactId": id, "name": "n", "description": "d", "metadata": more, "parts": parts});
            item(json!({"artifactUpdate": {"taskId": "t", "artifact": artifact}}))
        };
        task.take(update("a", json!(1))).unwrap();
        let parts =
            json!([{"raw": "", "filename": "f", "mediaType": "x/y"}, {"url": "", "filename": "g"}, {"data": 1}]);
        assert_eq!(json!(task.artifacts), json!([{"artifactId": "a", "parts": parts}]));
        let long = "x".repeat(limits::A2A_REMOTE_ID_BYTES + 1);
        assert!(task.take(update(&long, json!(1))).unwrap_err().contains("id of a result"));
        // Two bytes each, and more in memory.
        let many = json!(vec![0; limits::A2A_REPLY_BYTES / limits::A2A_VALUE_BYTES]);
        assert!(task.take(update("b", many)).unwrap_err().contains("bytes"));
    }

    #[test]
    fn results_count_while_the_task_comes_without_them() {
        let mut task = RemoteTask { id: Some("t".into()), ..RemoteTask::default() };
        let (part, working) = ("x".repeat(limits::A2A_REPLY_BYTES / 4), json!({"task": {"id": "t", "status": {}}}));
        let refused = (0..8).find_map(|_| {
            let taken = task.take(artifact("a", &part, true));
            taken.and_then(|()| task.take(item(working.clone()))).err()
        });
        assert!(refused.is_some_and(|why| why.contains("bytes")), "{} bytes", task.answer().len());
        // A task with its results replaces those that came before.
        let whole = json!({"task": {"id": "t", "artifacts": [{"artifactId": "a", "parts": [{"text": "all"}]}]}});
        task.take(item(whole)).unwrap();
        assert_eq!(task.answer(), "all");
    }
}
