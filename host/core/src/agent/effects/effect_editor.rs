use crate::{
    agent::effect::{Effect, EffectEdit},
    capability::Power,
    chat::{Chat, ChatEditError, Message, MessageReplacement, Role},
    error::Fault,
    limits,
};

/// Applies the edits of one step of an effect to a conversation, as far as the effect's powers allow.
pub struct EffectEditor<'a> {
    effect: &'a dyn Effect,
    chat: &'a Chat,
    /// Bytes of the notes of this step.
    noted: usize,
}

/// The outcome of an edit that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum EffectEditOutcome {
    /// The conversation has changed.
    Changed,
    /// These tools are hidden, and no others.
    Hidden(Vec<String>),
    /// The run ends.
    Stopped { code: String, message: String },
}

/// Checks that one step does not return too many edits.
///
/// # Errors
///
/// [`Fault::TooLarge`] beyond [`limits::EDITS_PER_STEP`].
pub fn check_edits(edits: &[EffectEdit]) -> Result<(), Fault> {
    match edits.len() <= limits::EDITS_PER_STEP {
        true => Ok(()),
        false => Err(Fault::TooLarge {
            message: format!(
                "the effect returned {} edits, the maximum for one step is {}",
                edits.len(),
                limits::EDITS_PER_STEP
            ),
        }),
    }
}

impl<'a> EffectEditor<'a> {
    /// Begins the edits of one step.
    pub fn new(effect: &'a dyn Effect, chat: &'a Chat) -> Self {
        Self { effect, chat, noted: 0 }
    }

    /// Applies one edit.
    ///
    /// # Errors
    ///
    /// The reason why the edit is refused, of at most [`limits::ERROR_BYTES`]; the conversation is unchanged then.
    pub fn apply(&mut self, edit: EffectEdit) -> Result<EffectEditOutcome, String> {
        self.make(edit).map_err(|mut reason| {
            // The reason may quote text of the effect.
            reason.truncate(reason.floor_char_boundary(limits::ERROR_BYTES));
            reason
        })
    }

    fn make(&mut self, edit: EffectEdit) -> Result<EffectEditOutcome, String> {
        let lacks = |power: &Power| {
            format!("power `{power}` is not granted; add it to `powers` of the plugin's entry in the config")
        };
        if let Some(power) = edit.needs().iter().find(|power| !self.effect.powers().contains(power)) {
            return Err(lacks(power));
        }
        let (chat, invalid) = (self.chat, |error: ChatEditError| error.to_string());
        match edit {
            EffectEdit::Note(text) if text.len() > limits::NOTE_BYTES => {
                return Err(format!("the note has {} bytes, the maximum is {}", text.len(), limits::NOTE_BYTES));
            }
            EffectEdit::Note(text) if self.noted + text.len() > limits::NOTES_PER_STEP_BYTES => {
                let most = limits::NOTES_PER_STEP_BYTES;
                return Err(format!("the notes of this step exceed {most} bytes in total; this note was left out"));
            }
            EffectEdit::Note(text) if text.trim().is_empty() => return Err("the note is empty".into()),
            EffectEdit::Note(text) => {
                self.noted += text.len();
                chat.append(Message::note(self.effect.name(), text)).map_err(invalid)?;
            }
            EffectEdit::ReplaceResult { call_id, content } => {
                chat.replace_result(&call_id, content).map_err(invalid)?;
            }
            EffectEdit::Replace(replacement) => {
                if self.touches_system_prompt(&replacement) {
                    return Err(lacks(&Power::SystemPrompt));
                }
                chat.replace(replacement).map_err(invalid)?;
            }
            EffectEdit::HideTools(names) => return Ok(EffectEditOutcome::Hidden(names)),
            EffectEdit::Stop { code, message } => return Ok(EffectEditOutcome::Stopped { code, message }),
            EffectEdit::Unknown(kind) => return Err(format!("this host does not support the edit `{kind}`")),
        }
        Ok(EffectEditOutcome::Changed)
    }

    fn touches_system_prompt(&self, replacement: &MessageReplacement) -> bool {
        let is_system = |message: &Message| message.role == Role::System;
        let snapshot = self.chat.snapshot();
        let first_goes = snapshot.find(replacement.first) == Some(0);
        let goes = first_goes && snapshot.iter().next().is_some_and(|entry| is_system(&entry.message));
        (goes || replacement.messages.iter().any(is_system)) && !self.effect.powers().contains(&Power::SystemPrompt)
    }
}
