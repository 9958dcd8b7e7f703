use super::{AnswerSchema, AttachedFile};
use crate::chat::{Message, Part};

/// A task with everything that belongs to it.
#[derive(Debug, Clone)]
pub struct TaskInput {
    /// The text of the task.
    pub text: String,
    /// The files that the task is about.
    pub attachments: Vec<AttachedFile>,
    /// The schema that the answer follows.
    pub schema: Option<AnswerSchema>,
}

impl TaskInput {
    /// Returns the message that gives an agent the task. Images and PDFs come first, as vendors advise; attached texts and the
    /// schema follow the task.
    pub fn into_message(self) -> Message {
        let (mut parts, mut text) = (Vec::new(), self.text);
        for attached in self.attachments {
            attached.add_to(&mut parts, &mut text);
        }
        if let Some(schema) = &self.schema {
            text.push_str("\n\n");
            text.push_str(&schema.instructions());
        }
        parts.push(Part::Text(text));
        Message { parts, ..Message::user("") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chat::{Media, MediaData};

    #[test]
    fn message_has_media_then_task_texts_and_schema() {
        let media =
            Media { media_type: "image/png".into(), name: None, source: MediaData::Bytes([0_u8; 2].as_slice().into()) };
        let texts = [("a", "first"), ("b", "second")];
        let texts = texts.map(|(name, text)| AttachedFile::Text { name: name.into(), text: text.into() });
        let [first, second] = texts;
        let input = TaskInput {
            text: "Compare them.".into(),
            attachments: vec![first, AttachedFile::Media(media.clone()), second],
            schema: Some(AnswerSchema::new(&json!({"type": "boolean"})).unwrap()),
        };
        let message = input.into_message();
        let [Part::Media(shown), Part::Text(text)] = message.parts.as_slice() else { panic!("{message:?}") };
        assert_eq!(*shown, media);
        let order = [
            "Compare them.",
            "content of the file `a`",
            "first",
            "content of the file `b`",
            "second",
            "{\"type\":\"boolean\"}",
        ];
        let places: Vec<_> =
            order.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"))).collect();
        assert!(places.is_sorted(), "{text}");
        assert!(!message.is_note(), "it is a person's task");
        let plain = TaskInput { text: "Hello".into(), attachments: Vec::new(), schema: None };
        assert_eq!(plain.into_message(), Message::user("Hello"));
    }
}
