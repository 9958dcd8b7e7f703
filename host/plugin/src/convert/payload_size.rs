//! The size of the values that cross between host and guest: bytes of strings and lists.

use super::from_guest::{content_bytes, message_bytes, part_bytes, tool_spec_bytes};
use crate::bindings::{
    exports::{coordinator, effect, model_middleware, run_middleware as middleware, tool_middleware},
    types::{self as wit, Error as WitError},
};

/// A value that crosses between host and guest. Numbers and case names count as nothing.
pub trait GuestPayload {
    /// Returns the bytes of its strings and lists.
    fn bytes(&self) -> usize;

    /// Returns the bytes of the state in it that is kept for the next call.
    fn state_bytes(&self) -> usize {
        0
    }
}

fn text(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

fn all<T: GuestPayload>(list: &[T]) -> usize {
    list.iter().map(GuestPayload::bytes).sum()
}

impl GuestPayload for wit::Content {
    fn bytes(&self) -> usize {
        content_bytes(self)
    }
}

impl GuestPayload for wit::Message {
    fn bytes(&self) -> usize {
        message_bytes(self)
    }
}

impl GuestPayload for wit::ToolSpec {
    fn bytes(&self) -> usize {
        tool_spec_bytes(self)
    }
}

impl GuestPayload for wit::ToolCall {
    fn bytes(&self) -> usize {
        let meta: usize = self.meta.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.id.len() + self.name.len() + self.arguments.len() + meta
    }
}

impl GuestPayload for wit::Ask {
    fn bytes(&self) -> usize {
        self.request.bytes() + text(&self.model)
    }
}

/// The answer to a step's query to a model.
impl GuestPayload for Result<wit::Completion, WitError> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or_else(GuestPayload::bytes, GuestPayload::bytes)
    }
}

impl<T: GuestPayload> GuestPayload for Vec<T> {
    fn bytes(&self) -> usize {
        all(self)
    }
}

/// A value that is missing because of a failure on the host's side counts as nothing.
impl<T: GuestPayload> GuestPayload for wasmtime::Result<T> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, GuestPayload::bytes)
    }
}

impl GuestPayload for WitError {
    fn bytes(&self) -> usize {
        match self {
            Self::Invalid(text)
            | Self::Denied(text)
            | Self::NotFound(text)
            | Self::TooLarge(text)
            | Self::Exhausted(text)
            | Self::Timeout(text)
            | Self::Other(text) => text.len(),
            Self::RateLimited(again) | Self::Unavailable(again) => again.message.len(),
        }
    }
}

impl GuestPayload for wit::Request {
    fn bytes(&self) -> usize {
        all(&self.messages) + all(&self.tools) + text(&self.response_schema)
    }
}

impl GuestPayload for wit::Completion {
    fn bytes(&self) -> usize {
        self.parts.iter().map(part_bytes).sum::<usize>() + self.model.len()
    }
}

impl GuestPayload for effect::EffectInput {
    fn bytes(&self) -> usize {
        self.reply.bytes()
    }
}

impl GuestPayload for effect::Edit {
    fn bytes(&self) -> usize {
        match self {
            Self::Note(text) => text.len(),
            Self::ReplaceResult(new) => new.call_id.len() + all(&new.content),
            Self::Replace(replacement) => all(&replacement.messages),
            Self::HideTools(names) => names.iter().map(String::len).sum(),
            Self::Stop(stop) => stop.code.len() + stop.message.len(),
            Self::Other(opaque) => opaque.kind.len() + opaque.json.len(),
        }
    }
}

impl GuestPayload for effect::Step {
    fn bytes(&self) -> usize {
        let action = match &self.action {
            effect::Action::Edits(edits) => all(edits),
            effect::Action::AskModel(ask) => ask.bytes(),
        };
        self.state.len() + action
    }

    fn state_bytes(&self) -> usize {
        self.state.len()
    }
}

impl GuestPayload for middleware::Outcome {
    fn bytes(&self) -> usize {
        match &self.reply {
            Ok(message) => message.bytes(),
            Err(error) => error.bytes(),
        }
    }
}

impl GuestPayload for middleware::BeforeDecision {
    fn bytes(&self) -> usize {
        match self {
            Self::Proceed(pass) => pass.state.len() + pass.input.as_ref().map_or(0, GuestPayload::bytes),
            Self::Answer(message) => message.bytes(),
            Self::Reject(error) => error.bytes(),
        }
    }

    fn state_bytes(&self) -> usize {
        if let Self::Proceed(pass) = self { pass.state.len() } else { 0 }
    }
}

impl GuestPayload for middleware::AfterDecision {
    fn bytes(&self) -> usize {
        match self {
            Self::Accept => 0,
            Self::Replace(message) => message.bytes(),
            Self::Reject(error) => error.bytes(),
            Self::Retry(again) => again.state.len() + text(&again.feedback),
        }
    }

    fn state_bytes(&self) -> usize {
        if let Self::Retry(again) = self { again.state.len() } else { 0 }
    }
}

impl GuestPayload for model_middleware::Sending {
    fn bytes(&self) -> usize {
        self.model.len() + self.digest.len()
    }
}

impl GuestPayload for model_middleware::BeforeDecision {
    fn bytes(&self) -> usize {
        match self {
            Self::Proceed(pass) => {
                pass.state.len() + text(&pass.model) + pass.request.as_ref().map_or(0, GuestPayload::bytes)
            }
            Self::Answer(completion) => completion.bytes(),
            Self::Reject(error) => error.bytes(),
        }
    }

    fn state_bytes(&self) -> usize {
        if let Self::Proceed(pass) = self { pass.state.len() } else { 0 }
    }
}

impl GuestPayload for model_middleware::AfterDecision {
    fn bytes(&self) -> usize {
        match self {
            Self::Accept => 0,
            Self::Replace(completion) => completion.bytes(),
            Self::Reject(error) => error.bytes(),
            Self::Retry(again) => again.state.len() + text(&again.model),
        }
    }

    fn state_bytes(&self) -> usize {
        if let Self::Retry(again) = self { again.state.len() } else { 0 }
    }
}

impl GuestPayload for tool_middleware::Decision {
    fn bytes(&self) -> usize {
        let verdict = match &self.verdict {
            tool_middleware::Verdict::Allow => 0,
            tool_middleware::Verdict::Ask(question) => question.text.len() + question.topic.len(),
            tool_middleware::Verdict::Answer(content) => all(content),
            tool_middleware::Verdict::Deny(why) => why.len(),
        };
        self.state.len() + text(&self.arguments) + verdict
    }

    fn state_bytes(&self) -> usize {
        self.state.len()
    }
}

impl GuestPayload for coordinator::CoordinatorInput {
    fn bytes(&self) -> usize {
        let profile = |member: &coordinator::Member| member.name.len() + member.role.len() + member.description.len();
        let report = |report: &coordinator::Report| report.member.len() + report.outcome.bytes();
        let members = self.members.iter().map(profile).sum::<usize>();
        members + self.reports.iter().map(report).sum::<usize>() + self.reply.bytes()
    }
}

impl GuestPayload for coordinator::MemberOutcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Replied => 0,
            Self::HandedOver(member) => member.len(),
            Self::Failed(error) => error.bytes(),
        }
    }
}

impl GuestPayload for coordinator::Step {
    fn bytes(&self) -> usize {
        let assignment = |one: &coordinator::Assignment| one.member.len() + text(&one.task);
        let action = match &self.action {
            coordinator::Action::Run(assignments) => assignments.iter().map(assignment).sum(),
            coordinator::Action::Done(coordinator::TeamAnswer::LastReply) => 0,
            coordinator::Action::Done(coordinator::TeamAnswer::Content(content)) => content.bytes(),
            coordinator::Action::AskModel(ask) => ask.bytes(),
        };
        self.state.len() + action
    }

    fn state_bytes(&self) -> usize {
        self.state.len()
    }
}

impl<T: GuestPayload> GuestPayload for Option<T> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, GuestPayload::bytes)
    }
}
