//! The second step of an invocation: the person's consent to what the project and the session name.

use super::prepare::PreparedInvocation;
use crate::{
    app::{App, Recording},
    approval::ApprovalBroker,
    chat::Message,
    cli::{ask::TerminalPrompter, trust},
    config::ThemeChoice,
    error::Report,
    task::AnswerSchema,
};

/// An invocation whose project and session a person has consented to.
pub(super) struct AdmittedInvocation {
    pub app: App,
    /// The broker, with the subjects that are trusted without a question.
    pub broker: ApprovalBroker,
    pub person: Option<TerminalPrompter>,
    pub recording: Recording,
    pub agent: Option<String>,
    pub task: Option<Message>,
    pub schema: Option<AnswerSchema>,
    pub theme: ThemeChoice,
}

/// Asks the person, unless consent for this run is given by the command line.
///
/// # Errors
///
/// A [`Report`] if consent is missing, or cannot be looked up.
pub(super) async fn admit(prepared: PreparedInvocation, is_trusted: bool) -> Result<AdmittedInvocation, Report> {
    let PreparedInvocation { app, standing, broker, person, is_attended, mut recording, agent, task, schema, theme } =
        prepared;
    let trusted = trust::admitted(&standing, is_trusted, is_attended).await?;
    trust::admit_session(&app.sessions(), &mut recording, is_trusted, is_attended).await?;
    broker.trust(trusted);
    Ok(AdmittedInvocation { app, broker, person, recording, agent, task, schema, theme })
}
