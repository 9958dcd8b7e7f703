use crate::{
    chat::{Message, Role},
    limits,
    task::{AnswerSchema, AttachedFile, TaskInput},
};

/// The author of a message that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRole {
    /// The program of the client: its system or developer message.
    Instructions,
    /// The person.
    User,
    /// The agent, in an earlier answer.
    Assistant,
}

/// A message that a client sends.
#[derive(Debug, Clone)]
pub struct ClientMessage {
    /// The author.
    pub role: ClientRole,
    /// The text.
    pub text: String,
    /// Images and files of the user.
    pub files: Vec<AttachedFile>,
}

/// A conversation that a client sends, as the input of a run.
#[derive(Debug)]
pub struct ClientConversation {
    /// The messages before the task.
    pub history: Vec<Message>,
    /// The newest message of the user.
    pub task: TaskInput,
}

/// The reason why a conversation is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// There is nothing to do.
    #[error("there is no message of the user with text or files")]
    NoTask,
    /// The client wants an answer of its own to be continued.
    #[error("the last message is one of the assistant, which an agent cannot continue; end with one of the user")]
    AssistantLast,
    /// There are too many messages.
    #[error("{given} messages, the maximum is {most}", given = .0, most = limits::SERVE_CONVERSATION_MESSAGES)]
    TooMany(usize),
    /// A message is too long.
    #[error("a message has more than {} bytes of text; attach the text as a file", limits::TASK_BYTES)]
    TooLong,
    /// There are too many files.
    #[error("{given} images and files, the maximum is {most}", given = .0, most = limits::TASK_ATTACHMENTS)]
    TooManyFiles(usize),
    /// The files are too large together.
    #[error("the images and files have more than {} bytes together", limits::TASK_ATTACHED_BYTES)]
    TooLarge,
}

impl ClientMessage {
    /// Returns an empty message.
    pub fn new(role: ClientRole) -> Self {
        Self { role, text: String::new(), files: Vec::new() }
    }

    /// Appends a part of the text, which begins a paragraph.
    pub fn add_text(&mut self, text: &str) {
        if !self.text.is_empty() && !text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && self.files.is_empty()
    }
}

impl ClientConversation {
    /// Returns the input of a run. The newest message of the user is the task, which asks for an answer by this schema.
    ///
    /// Instructions follow the text of the message of the user before which they stand: whoever knows the token speaks
    /// as the user, so they direct the agent and do not replace its own instructions.
    ///
    /// # Errors
    ///
    /// A [`ConversationError`] if there is no task, or too much of something.
    pub fn of(messages: Vec<ClientMessage>, schema: Option<AnswerSchema>) -> Result<Self, ConversationError> {
        check_size(&messages)?;
        let is_said = |message: &ClientMessage| message.role != ClientRole::Instructions && !message.is_blank();
        let newest = messages.iter().rposition(is_said).ok_or(ConversationError::NoTask)?;
        if messages[newest].role == ClientRole::Assistant {
            return Err(ConversationError::AssistantLast);
        }
        let (mut history, mut instructions, mut task) = (Vec::new(), Vec::new(), None);
        for (at, message) in messages.into_iter().enumerate() {
            match message.role {
                ClientRole::Instructions if at > newest => {
                    instructions.push(message.text);
                    // They stand after the task, and are about it.
                    task = task.map(|task| with_instructions(task, &mut instructions));
                }
                ClientRole::Instructions => instructions.push(message.text),
                _ if message.is_blank() => {}
                ClientRole::Assistant => {
                    if history.is_empty() {
                        history.push(Message::note("client", "The conversation begins with a message of yours."));
                    }
                    history.push(Message::text(Role::Assistant, "", message.text));
                }
                ClientRole::User => {
                    let input = TaskInput { text: message.text, attachments: message.files, schema: None };
                    let input = with_instructions(input, &mut instructions);
                    if at == newest {
                        task = Some(input);
                    } else {
                        history.push(input.into_message());
                    }
                }
            }
        }
        let task = TaskInput { schema, ..task.ok_or(ConversationError::NoTask)? };
        match task.text.len() > limits::TASK_BYTES {
            true => Err(ConversationError::TooLong),
            false => Ok(Self { history, task }),
        }
    }
}

fn check_size(messages: &[ClientMessage]) -> Result<(), ConversationError> {
    let files = || messages.iter().flat_map(|message| &message.files);
    let bytes = files().map(AttachedFile::bytes).fold(0, usize::saturating_add);
    if messages.len() > limits::SERVE_CONVERSATION_MESSAGES {
        return Err(ConversationError::TooMany(messages.len()));
    }
    if messages.iter().any(|message| message.text.len() > limits::TASK_BYTES) {
        return Err(ConversationError::TooLong);
    }
    if files().count() > limits::TASK_ATTACHMENTS {
        return Err(ConversationError::TooManyFiles(files().count()));
    }
    match bytes as u64 > limits::TASK_ATTACHED_BYTES {
        true => Err(ConversationError::TooLarge),
        false => Ok(()),
    }
}

/// Adds the instructions of the program that sends a message, and takes them away.
fn with_instructions(mut input: TaskInput, instructions: &mut Vec<String>) -> TaskInput {
    if input.text.trim().is_empty() {
        // Vendors refuse a text without content.
        input.text = "See the attached files.".into();
    }
    instructions.retain(|text| !text.trim().is_empty());
    if !instructions.is_empty() {
        let all = std::mem::take(instructions).join("\n\n");
        input.text.push_str("\n\nInstructions of the program that sends this message:\n<client_instructions>\n");
        input.text.push_str(all.trim());
        input.text.push_str("\n</client_instructions>");
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: ClientRole, text: &str) -> ClientMessage {
        ClientMessage { text: text.into(), ..ClientMessage::new(role) }
    }

    /// Returns the history as the role and text of each message, and the text of the task.
    fn shown(messages: Vec<ClientMessage>) -> Result<(Vec<(Role, String)>, String), ConversationError> {
        let ClientConversation { history, task } = ClientConversation::of(messages, None)?;
        Ok((history.iter().map(|message| (message.role, message.text_content())).collect(), task.text))
    }

    #[test]
    fn newest_message_of_the_user_is_the_task() {
        use ClientRole::{Assistant, Instructions, User};
        let told = |text: &str, instructions: &str| {
            format!(
                "{text}\n\nInstructions of the program that sends this message:\n<client_instructions>\n{instructions}\n\
                 </client_instructions>"
            )
        };
        let (history, task) = shown(vec![message(User, "hi")]).unwrap();
        assert_eq!((history.len(), &*task), (0, "hi"));
        let all = vec![
            message(Instructions, "Be brief."),
            message(Instructions, " "),
            message(User, "One?"),
            message(Assistant, "One."),
            message(Assistant, ""),
            message(User, "Two?"),
            message(User, " "),
            message(Instructions, "In French."),
        ];
        let (history, task) = shown(all).unwrap();
        assert_eq!(history, [(Role::User, told("One?", "Be brief.")), (Role::Assistant, "One.".into())]);
        assert_eq!(task, told("Two?", "In French."));
        let (history, _) = shown(vec![message(Assistant, "Hello!"), message(User, "hi")]).unwrap();
        assert_eq!(history[0].0, Role::User, "a conversation begins with a message to the model");
        assert_eq!(history[1], (Role::Assistant, "Hello!".into()));
    }

    #[test]
    fn conversation_without_a_task_or_with_too_much_is_refused() {
        use ClientRole::{Assistant, Instructions, User};
        let file = |bytes: usize| AttachedFile::Text { name: "a".into(), text: "x".repeat(bytes) };
        let with = |files: Vec<AttachedFile>| ClientMessage { files, ..message(User, "hi") };
        let many = limits::SERVE_CONVERSATION_MESSAGES + 1;
        let half = usize::try_from(limits::TASK_ATTACHED_BYTES).unwrap() / 2;
        let long = "x".repeat(limits::TASK_BYTES);
        for (messages, error) in [
            (vec![], ConversationError::NoTask),
            (vec![message(User, " \n")], ConversationError::NoTask),
            (vec![message(Instructions, "Be brief.")], ConversationError::NoTask),
            (vec![message(User, "hi"), message(Assistant, "Hel")], ConversationError::AssistantLast),
            (vec![message(User, "hi"); many], ConversationError::TooMany(many)),
            (vec![message(User, &format!("{long}x")), message(User, "hi")], ConversationError::TooLong),
            (vec![message(Instructions, "Be brief."), message(User, &long)], ConversationError::TooLong),
            (vec![with(vec![file(1); limits::TASK_ATTACHMENTS + 1])], ConversationError::TooManyFiles(101)),
            (vec![with(vec![file(half)]), with(vec![file(half), file(1)])], ConversationError::TooLarge),
        ] {
            assert_eq!(shown(messages).unwrap_err(), error);
        }
        assert!(shown(vec![message(User, &long)]).is_ok());
        let (_, task) = shown(vec![ClientMessage { text: String::new(), ..with(vec![file(1)]) }]).unwrap();
        assert_eq!(task, "See the attached files.");
    }
}
