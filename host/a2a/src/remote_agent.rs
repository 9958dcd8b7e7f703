use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::{
    sync::OnceCell,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;
use url::Url;

use crate::{
    BUDGET_EXTENSION, budget_metadata,
    remote_card::{CardApproval, RemoteCard},
    remote_client::{RemoteClient, fetch_card, shown},
    remote_task::RemoteTask,
    wire::{
        A2aMessage, A2aPart, A2aPartContent, A2aRole, A2aTaskState, SendMessageConfiguration, SendMessageParams,
        SendMessageResult, TaskStreamItem,
    },
};
use shelly_core::{
    agent::{budget_left, journal::RemoteTaskRecord, record_remote_task, remote_task},
    approval::{ApprovalBroker, OpenQuestion, OpenQuestionAnswer},
    capability::Budget,
    chat::{ChatSnapshot, MediaData, Part, Role, StopReason, Usage},
    error::{Fault, cut},
    event::RunCx,
    hex, limits,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
};
use shelly_net::egress::Egress;

/// An agent of another host in the place of a model: an agent on it gives the other one its task, and answers with its
/// answer.
///
/// So a run of it is like any other: it has a budget, middleware, a journal, and parents that delegate to it. The tokens
/// that the other host uses are not known here, and count as none.
pub struct RemoteAgentModel {
    options: RemoteAgentOptions,
    name: Arc<str>,
    info: ModelInfo,
    /// The card, once it was read and approved.
    card: OnceCell<RemoteCard>,
}

/// The options of a remote agent.
pub struct RemoteAgentOptions {
    /// The name of the agent in the config.
    pub name: String,
    /// The address of its card.
    pub card: Url,
    /// The network access to the origin of the card, and nothing else, with the credential for it.
    pub egress: Egress,
    /// Puts the questions of the agent to a person.
    pub broker: ApprovalBroker,
    /// Decides whether the agent is used as its card is now.
    pub approval: Arc<dyn CardApproval>,
    /// Runs the cancellations of tasks whose runs are gone. Each ends within [`limits::CANCEL_GRACE`].
    pub cancellations: TaskTracker,
}

/// The work on one task.
struct RemoteExchange<'a> {
    cx: &'a RunCx,
    model: &'a RemoteAgentModel,
    client: RemoteClient,
    is_streaming: bool,
    given: RemoteTaskRecord,
    task: RemoteTask,
    /// The id of the message with the question that was answered last; empty: none.
    answered: String,
    guard: RemoteTaskGuard,
}

/// Cancels a task at the other host when it is dropped before the task is over.
struct RemoteTaskGuard {
    client: RemoteClient,
    cancellations: TaskTracker,
    /// The id of the task; `None` before it is known, and once it is over.
    task: Option<String>,
}

impl RemoteAgentModel {
    /// Creates the model. Nothing is sent before its first request.
    pub fn new(options: RemoteAgentOptions) -> Self {
        let mut info = ModelInfo::named(options.name.as_str());
        info.model = format!("a2a:{}", options.name);
        // A task that was given is not given again: whether it was begun is not known.
        info.retries = Some(0);
        Self { name: options.name.as_str().into(), options, info, card: OnceCell::new() }
    }

    async fn fetch_card(&self, cx: &RunCx) -> Result<RemoteCard, Fault> {
        let RemoteAgentOptions { card: url, egress, approval, .. } = &self.options;
        let bytes = fetch_card(&self.name, egress, url).await?;
        let card = RemoteCard::parse(&bytes, url)?;
        approval.approve(cx, &card).await?;
        Ok(card)
    }

    /// The key of the metadata of a reply that has the id of the conversation at the other host.
    fn context_key(&self) -> String {
        format!("a2a.context.{}", self.name)
    }

    /// Returns the conversation at the other host that this one continues; empty: none.
    fn context(&self, messages: &ChatSnapshot) -> String {
        let key = self.context_key();
        let meta = messages.iter().rev().flat_map(|entry| &entry.message.meta);
        meta.into_iter().find(|(name, _)| *name == key).map(|(_, context)| context.clone()).unwrap_or_default()
    }

    /// Returns the message that gives the newest part of a conversation as a task.
    fn message(&self, cx: &RunCx, request: &CompletionRequest, id: &str) -> Result<A2aMessage, Fault> {
        let parts = given_parts(&request.messages);
        if !parts.iter().any(|part| matches!(&part.content, A2aPartContent::Text(text) if !text.trim().is_empty())) {
            return Err(Fault::invalid("there is no task for the remote agent"));
        }
        let metadata = budget_metadata(&shown_budget(budget_left(cx))?);
        let extensions = metadata.keys().map(|_| BUDGET_EXTENSION.to_owned()).collect();
        Ok(A2aMessage {
            message_id: id.to_owned(),
            context_id: self.context(&request.messages),
            role: A2aRole::User,
            parts,
            metadata,
            extensions,
            ..A2aMessage::default()
        })
    }

    async fn work(&self, cx: &RunCx, request: &CompletionRequest) -> Result<(String, String), Fault> {
        let card = self.card.get_or_try_init(|| self.fetch_card(cx)).await?;
        let address = (&card.endpoint, card.tenant.as_str());
        let client = RemoteClient::new(&self.name, &self.options.egress, address, cx.events.step_span());
        let entry = request.messages.last().map(|entry| entry.id).unwrap_or_default();
        let given = match remote_task(cx, entry) {
            Some(given) => given,
            None => {
                let given =
                    RemoteTaskRecord { entry, message: new_message_id()?, task: None, spent: None, passed_on: 0 };
                record_remote_task(cx, given.clone()).await?;
                given
            }
        };
        let cancellations = self.options.cancellations.clone();
        let guard = RemoteTaskGuard { client: client.clone(), cancellations, task: given.task.clone() };
        let is_streaming = card.is_streaming;
        let (task, answered) = (RemoteTask::default(), String::new());
        let mut exchange = RemoteExchange { cx, model: self, client, is_streaming, given, task, answered, guard };
        if let Some(task) = exchange.given.task.clone() {
            exchange.refresh(&task).await?;
            if exchange.task.state != A2aTaskState::Canceled {
                return exchange.follow().await;
            }
            // It was cancelled when the run was interrupted.
            exchange.begin_anew().await?;
        }
        let message = self.message(cx, request, &exchange.given.message)?;
        exchange.send(message).await?;
        exchange.follow().await
    }
}

#[async_trait]
impl Completer for RemoteAgentModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, _: &DeltaSink) -> Result<Completion, Fault> {
        let worked = timeout(limits::A2A_TASK_TIME, self.work(cx, request)).await;
        let (answer, context) = worked.map_err(|_| {
            let minutes = limits::A2A_TASK_TIME.as_secs() / 60;
            Fault::Timeout {
                message: format!("the remote agent `{}` has no answer after {minutes} minutes", self.name),
            }
        })??;
        Ok(Completion {
            parts: vec![Part::Text(answer)],
            stop: StopReason::EndTurn,
            // The other host does not say it.
            usage: Usage::default(),
            model: self.info.model.clone(),
            meta: if context.is_empty() { Vec::new() } else { vec![(self.context_key(), context)] },
        })
    }
}

impl RemoteExchange<'_> {
    /// Sends a message, and takes the updates that come with its answer.
    async fn send(&mut self, message: A2aMessage) -> Result<(), Fault> {
        let configuration = SendMessageConfiguration {
            accepted_output_modes: vec!["text/plain".into(), "application/json".into()],
            history_length: Some(0),
            ..SendMessageConfiguration::default()
        };
        let params = SendMessageParams { message, configuration, ..SendMessageParams::default() };
        if !self.is_streaming {
            let item = match self.client.send(params).await? {
                SendMessageResult::Task(task) => TaskStreamItem::Task(task),
                SendMessageResult::Message(message) => TaskStreamItem::Message(message),
            };
            return self.take(item).await;
        }
        let mut stream = self.client.send_streaming(params).await?;
        loop {
            match stream.next().await {
                Ok(Some(item)) => self.take(item).await?,
                // A task that is known can be asked for.
                Ok(None) => return Ok(()),
                Err(fault) if self.task.id.is_some() && (fault.is_transient() || is_timeout(&fault)) => return Ok(()),
                Err(fault) => return Err(fault),
            }
            if self.is_settled() {
                return Ok(());
            }
        }
    }

    /// Returns `true` if nothing more comes without a message of this host. A server may still show the question that was
    /// answered just now.
    fn is_settled(&self) -> bool {
        self.task.is_settled() && !(self.task.state == A2aTaskState::InputRequired && self.is_answered())
    }

    /// Returns `true` if the question that the task shows was answered.
    fn is_answered(&self) -> bool {
        !self.answered.is_empty() && self.task.words.as_ref().is_some_and(|words| words.message_id == self.answered)
    }

    /// Forgets a task that was cancelled, so that it can be given again.
    async fn begin_anew(&mut self) -> Result<(), Fault> {
        self.given = RemoteTaskRecord { message: new_message_id()?, task: None, ..self.given.clone() };
        (self.task, self.guard.task) = (RemoteTask::default(), None);
        record_remote_task(self.cx, self.given.clone()).await
    }

    /// Takes an update. The id of the task is recorded as soon as it is known.
    async fn take(&mut self, item: TaskStreamItem) -> Result<(), Fault> {
        self.task.take(item).map_err(|why| self.client.invalid(&why))?;
        if self.given.task.is_none() && self.task.id.is_some() {
            self.given.task.clone_from(&self.task.id);
            self.guard.task.clone_from(&self.task.id);
            record_remote_task(self.cx, self.given.clone()).await?;
        }
        Ok(())
    }

    /// Asks for the task.
    async fn refresh(&mut self, id: &str) -> Result<(), Fault> {
        let task = self.client.task(id).await?;
        self.task.take_task(task).map_err(|why| self.client.invalid(&why))
    }

    /// Follows the task to its end. Returns the answer, and the id of the conversation.
    async fn follow(mut self) -> Result<(String, String), Fault> {
        let mut questions = 0;
        while self.task.message.is_none() && !self.task.state.is_terminal() {
            match self.task.state {
                A2aTaskState::InputRequired if self.is_answered() => self.wait().await?,
                A2aTaskState::InputRequired if questions == limits::A2A_QUESTIONS => {
                    let message = format!("{} has asked more than {questions} questions", self.client.place());
                    return Err(Fault::Exhausted { message });
                }
                A2aTaskState::InputRequired => {
                    questions += 1;
                    let answer = self.ask().await?;
                    self.answered = self.task.words.as_ref().map(|words| words.message_id.clone()).unwrap_or_default();
                    self.send(answer).await?;
                }
                A2aTaskState::AuthRequired => {
                    let said = shown(&self.task.status_text());
                    let message = format!("{} asks for a login at another place: {said}", self.client.place());
                    return Err(Fault::Denied { message });
                }
                _ => self.wait().await?,
            }
        }
        if self.task.state == A2aTaskState::Completed
            && !self.task.has_result()
            && let Some(id) = self.task.id.clone()
        {
            // Some servers send the results with the task alone.
            self.refresh(&id).await?;
        }
        self.guard.task = None;
        self.answer()
    }

    /// Waits until the task is over or asks for input.
    async fn wait(&mut self) -> Result<(), Fault> {
        let id = self.task.id.clone().ok_or_else(|| self.client.invalid("it has not said the id of the task"))?;
        let (mut pause, mut failures) = (limits::A2A_FIRST_POLL_PAUSE, 0);
        while !self.is_settled() {
            sleep(pause).await;
            pause = (pause * 2).min(limits::A2A_POLL_PAUSE);
            match self.refresh(&id).await {
                Ok(()) => failures = 0,
                Err(fault) if failures < limits::A2A_POLL_FAILURES && (fault.is_transient() || is_timeout(&fault)) => {
                    failures += 1;
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Asks a person what the agent asks. Returns the message with the answer.
    async fn ask(&self) -> Result<A2aMessage, Fault> {
        let place = self.client.place();
        let text = format!("{place} asks: {}", self.task.status_text());
        // A character has at most four bytes.
        let text = cut(&text, limits::QUESTION_BYTES / 4);
        let question = OpenQuestion { text: text.clone(), header: "remote agent".into(), ..OpenQuestion::default() };
        let asked = self.model.options.broker.ask(self.cx, question);
        let answer = match self.cx.wait_for_others(asked).await? {
            Some(OpenQuestionAnswer::Text(text)) => text,
            Some(OpenQuestionAnswer::Chosen(labels)) => labels.join(", "),
            None => {
                let message = format!("{}; nobody is there to answer: say more in the task", shown(&text));
                return Err(Fault::Denied { message });
            }
        };
        Ok(A2aMessage {
            message_id: new_message_id()?,
            context_id: self.task.context.clone(),
            task_id: self.task.id.clone().unwrap_or_default(),
            role: A2aRole::User,
            parts: vec![A2aPart::text(answer)],
            metadata: self.task.words.as_ref().map(|words| words.metadata.clone()).unwrap_or_default(),
            ..A2aMessage::default()
        })
    }

    /// Returns the answer of a task that is over, and the id of the conversation.
    fn answer(&self) -> Result<(String, String), Fault> {
        let place = self.client.place();
        let said = || match shown(&self.task.status_text()) {
            said if said.is_empty() => "it has given no reason".to_owned(),
            said => said,
        };
        match self.task.state {
            A2aTaskState::Rejected => {
                return Err(Fault::Denied { message: format!("{place} has rejected the task: {}", said()) });
            }
            A2aTaskState::Failed => return Err(Fault::other(format!("{place} has failed: {}", said()))),
            A2aTaskState::Canceled => return Err(Fault::other(format!("{place} has cancelled the task: {}", said()))),
            _ => {}
        }
        let answer = self.task.answer();
        if answer.len() > limits::A2A_ANSWER_BYTES {
            let most = limits::A2A_ANSWER_BYTES;
            return Err(Fault::TooLarge { message: format!("the answer of {place} has more than {most} bytes") });
        }
        match answer.trim().is_empty() {
            true => Err(Fault::other(format!("{place} has ended without an answer"))),
            false => Ok((answer, self.task.context.clone())),
        }
    }
}

impl Drop for RemoteTaskGuard {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        let client = self.client.clone();
        // Without a runtime nothing can be sent.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cancelling = async move {
                let _ = timeout(limits::CANCEL_GRACE, client.cancel(&task)).await;
            };
            self.cancellations.spawn_on(cancelling, &runtime);
        }
    }
}

/// Returns the messages that this agent was given since its last reply, as parts.
fn given_parts(messages: &ChatSnapshot) -> Vec<A2aPart> {
    let mut newest: Vec<_> = messages.iter().rev().take_while(|entry| entry.message.role != Role::Assistant).collect();
    newest.reverse();
    let given = newest.into_iter().filter(|entry| entry.message.role == Role::User);
    let parts = given.flat_map(|entry| &entry.message.parts);
    parts
        .filter_map(|part| match part {
            Part::Text(text) => Some(A2aPart::text(text.clone())),
            Part::Media(media) => {
                let content = match &media.source {
                    MediaData::Bytes(bytes) => A2aPartContent::Raw(STANDARD.encode(bytes)),
                    MediaData::Url(url) => A2aPartContent::Url(url.clone()),
                };
                let filename = media.name.clone().unwrap_or_default();
                Some(A2aPart { media_type: media.media_type.clone(), filename, ..A2aPart::of(content) })
            }
            _ => None,
        })
        .collect()
}

/// Returns a budget as another host is told: whole milliseconds, and no amount of 0, which a budget cannot have.
fn shown_budget(left: Budget) -> Result<Budget, Fault> {
    let time = left.time.map(|time| Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
    if time.is_some_and(|time| time.is_zero()) {
        return Err(Fault::Exhausted { message: "the time for the remote agent is used up".into() });
    }
    let time = time.map(|time| time.min(limits::BUDGET_TIME));
    Ok(Budget {
        tokens: left.tokens.filter(|tokens| *tokens > 0),
        usd: left.usd.filter(|usd| *usd > shelly_core::capability::Usd::ZERO),
        tool_calls: left.tool_calls.filter(|calls| *calls > 0),
        time,
    })
}

fn is_timeout(fault: &Fault) -> bool {
    matches!(fault, Fault::Timeout { .. })
}

/// Returns the id of a new message.
fn new_message_id() -> Result<String, Fault> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| Fault::other(format!("there are no random bytes: {error}")))?;
    Ok(hex::encode(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_told_without_what_it_cannot_say() {
        let left = Budget {
            tokens: Some(0),
            tool_calls: Some(3),
            time: Some(Duration::from_micros(90_000_500)),
            ..Budget::default()
        };
        let told = shown_budget(left).unwrap();
        let expected = Budget { tool_calls: Some(3), time: Some(Duration::from_secs(90)), ..Budget::default() };
        assert_eq!(told, expected);
        assert!(shown_budget(Budget { time: Some(Duration::from_micros(1)), ..Budget::default() }).is_err());
        assert_eq!(shown_budget(Budget::default()), Ok(Budget::default()));
    }

    #[test]
    fn message_id_is_new_each_time() {
        let (one, other) = (new_message_id().unwrap(), new_message_id().unwrap());
        assert!(one.len() == 32 && one != other && one.len() <= limits::A2A_ID_BYTES);
    }
}
