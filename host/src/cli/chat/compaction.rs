//! Shortens the conversation of an agent: its model writes a summary, which takes the place of what it summarizes.
//!
//! The summary is the answer to a message of the person, so it is recorded, shown and paid for like any other answer. A
//! middleware around that one run edits the conversation once the answer is there: the edit is part of the run's last record. If
//! the run fails, it removes the request again; if the run is interrupted, the next one does.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    agent::{AfterRunDecision, RunMiddleware, RunOutcome},
    app::{EntryRunner, PreparedRun},
    chat::{Chat, ChatEditError, Message, MessageReplacement, Role},
    error::{ErrorKind, Fault, Report},
    event::RunCx,
};

/// The name by which the edit is recorded.
const NAME: &str = "compact";

/// The message that asks for a summary; words of the person about it may follow.
const REQUEST: &str = "Summarize this conversation so that you can continue from the summary alone: all messages before it \
                       are removed from your context. Call no tools. Keep names, paths, figures, identifiers, decisions \
                       and the words of errors exactly as they are. Say what was done with which result, what the present \
                       state is, and, in my words, what I asked for that is not done yet.";

/// The note in place of the messages that were removed.
const NOTE: &str = "The messages before this one were removed to make room in your context. Your summary of them follows; \
                    continue from it.";

/// Returns the message that asks an agent for a summary. `words` are the person's about it; they may be empty.
pub fn summary_request(words: &str) -> String {
    match words.is_empty() {
        true => REQUEST.to_owned(),
        false => format!("{REQUEST}\n\n{words}"),
    }
}

/// Returns `true` for a message that asks for a summary.
pub fn is_summary_request(message: &Message) -> bool {
    is_of_person(message) && message.text_content().starts_with(REQUEST)
}

/// Removes a request for a summary that has no answer, with what the agent did about it.
pub fn forget_request(chat: &Chat) {
    let snapshot = chat.snapshot();
    let newest = snapshot.iter().rev().find(|entry| is_of_person(&entry.message));
    let (Some(request), Some(last)) = (newest.filter(|newest| is_summary_request(&newest.message)), snapshot.last())
    else {
        return;
    };
    // A conversation in which calls are open stays as it is; the next run tries it again.
    let _ = chat.replace(MessageReplacement { first: request.id, last: last.id, messages: Vec::new() });
}

fn is_of_person(message: &Message) -> bool {
    message.role == Role::User && !message.is_note()
}

/// Returns `true` if a conversation has an answer that could be summarized.
pub fn can_be_compacted(chat: &Chat) -> bool {
    chat.snapshot().iter().any(|entry| entry.message.role == Role::Assistant)
}

/// Prepares a run whose answer takes the place of everything before it in the conversation `chat`.
///
/// # Errors
///
/// A [`Report`] for a team.
pub fn compact_with_answer(prepared: &mut PreparedRun, chat: &Chat) -> Result<(), Report> {
    let EntryRunner::Agent(agent) = &mut prepared.entrant else { return Err(no_team()) };
    // Outermost, so that it sees the answer that the person gets.
    agent.middleware.insert(0, Arc::new(CompactionMiddleware { chat: chat.clone() }));
    Ok(())
}

/// Reports that a team has no model that could summarize its conversation.
pub fn no_team() -> Report {
    Report::new(ErrorKind::Usage, "the conversation of a team cannot be replaced by a summary")
        .cause("its members share it, and none of them answers for all")
        .hint("begin a new session with /clear, or give its agents the effect `compact`")
}

/// Replaces the conversation once the answer is there.
struct CompactionMiddleware {
    chat: Chat,
}

#[async_trait]
impl RunMiddleware for CompactionMiddleware {
    fn name(&self) -> &str {
        NAME
    }

    fn may_replace(&self) -> bool {
        false
    }

    async fn after(&self, _: &RunCx, outcome: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        match outcome.reply {
            Ok(_) if outcome.is_handoff() => {}
            Ok(_) => keep_last_reply(&self.chat).map_err(|error| Fault::other(error.to_string()))?,
            Err(_) => forget_request(&self.chat),
        }
        Ok(AfterRunDecision::Accept)
    }
}

/// Replaces everything between the system prompt and the newest message, a reply, by a note.
fn keep_last_reply(chat: &Chat) -> Result<(), ChatEditError> {
    let snapshot = chat.snapshot();
    let mut removed = snapshot.iter().filter(|entry| entry.message.role != Role::System);
    let is_reply = |message: &Message| message.role == Role::Assistant && message.tool_calls().next().is_none();
    let (Some(first), Some(reply)) = (removed.next(), removed.next_back()) else { return Ok(()) };
    if !is_reply(&reply.message) {
        return Ok(());
    }
    let last = removed.next_back().unwrap_or(first);
    chat.replace(MessageReplacement { first: first.id, last: last.id, messages: vec![Message::note(NAME, NOTE)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_takes_the_place_of_what_came_before() {
        let chat = Chat::new();
        let reply = |text: &str| Message::text(Role::Assistant, "ada", text);
        keep_last_reply(&chat).unwrap();
        assert!(chat.snapshot().is_empty());
        chat.set_system_prompt("ada", "Be brief.".into());
        for message in [Message::user("One?"), reply("Two."), Message::user("Summarize."), reply("All of it.")] {
            chat.append(message).unwrap();
        }
        keep_last_reply(&chat).unwrap();
        let snapshot = chat.snapshot();
        let texts: Vec<_> = snapshot.iter().map(|entry| entry.message.text_content()).collect();
        assert_eq!(texts, ["Be brief.", NOTE, "All of it."]);
        assert!(snapshot.check().is_ok() && snapshot.iter().nth(1).unwrap().message.is_note());
        // Without a reply at its end the conversation stays.
        chat.append(Message::user("Go on.")).unwrap();
        keep_last_reply(&chat).unwrap();
        assert_eq!(chat.snapshot().len(), 4);
    }

    #[test]
    fn request_without_an_answer_is_forgotten() {
        let chat = Chat::new();
        let texts = |chat: &Chat| chat.snapshot().iter().map(|entry| entry.message.text_content()).collect::<Vec<_>>();
        let reply = |text: &str| Message::text(Role::Assistant, "ada", text);
        for message in [Message::user("One?"), reply("Two."), Message::user(summary_request("with words"))] {
            chat.append(message).unwrap();
        }
        chat.append(reply("I begin.")).unwrap();
        chat.append(Message::note("effect", "Go on.")).unwrap();
        forget_request(&chat);
        assert_eq!(texts(&chat), ["One?", "Two."]);
        forget_request(&chat);
        assert_eq!(texts(&chat), ["One?", "Two."], "messages of the person stay");
        forget_request(&Chat::new());
    }
}
