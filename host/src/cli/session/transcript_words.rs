//! Describes parts of a session in a few words.

use crate::{
    agent::journal::RecordedRunEnd,
    chat::{Media, MediaData, Message, Role},
    cli::render::{name, one_line, size},
    tool::CompletionStatus,
};

/// Describes the end of a run in a few words.
pub fn outcome(ended: &RecordedRunEnd) -> String {
    match ended {
        RecordedRunEnd::Answered { .. } => "ended with an answer".into(),
        RecordedRunEnd::Completed { completed, .. } => {
            format!("ended: {}", if completed.status == CompletionStatus::Completed { "completed" } else { "failed" })
        }
        RecordedRunEnd::HandedOver { to, .. } => {
            format!("handed over to {}: {}", name(&to.agent), one_line(&to.reason, 200))
        }
        RecordedRunEnd::Failed { error, cancelled, .. } => {
            format!("{}: {}", if *cancelled { "was cancelled" } else { "failed" }, one_line(error, 500))
        }
    }
}

/// Describes media without their bytes.
pub fn media(media: &Media) -> String {
    let about = match &media.source {
        MediaData::Bytes(bytes) => size(bytes.len() as u64),
        MediaData::Url(url) => url.clone(),
    };
    let parts = [media.media_type.as_str(), media.name.as_deref().unwrap_or_default(), &about];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the sender of a message, and its marks.
pub fn speaker(message: &Message, note: bool, edited: bool) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "agent",
        Role::Tool => "result",
    };
    let who = if message.sender.is_empty() { role.to_owned() } else { name(&message.sender) };
    let marks: Vec<_> = [(note, "note"), (edited, "edited")].iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
    if marks.is_empty() { who } else { format!("{who} ({})", marks.join(", ")) }
}
