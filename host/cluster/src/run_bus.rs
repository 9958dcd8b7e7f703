//! Commands to runs at work, and their live events: messages that no stream keeps.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_nats::{Client, Message, Request, RequestErrorKind, Subscriber};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream, stream::BoxStream};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use shelly_core::{digest::Sha256Digest, limits};
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{self, error::TrySendError},
    },
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    cluster_error::{ClusterError, SENDING_A_COMMAND},
    connection::{ClusterCallError, ClusterConnection, ClusterHandles},
    encryption::{ContentSeals, NO_TAG, SealKind, SealPlace, SealTag},
    run_spec::{RunSpec, not_an_id},
    shared_connection::SharedConnection,
};

/// A command to a run at work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum RunCommand {
    /// Stop the run.
    Cancel,
    /// Give a message to an agent.
    Message {
        /// The id of the message, by which a worker recognizes one that is sent again; `None`: it is sent once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The agent; `None`: the one that the run began with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// The text.
        text: String,
    },
    /// List the open questions.
    Questions,
    /// Answer a question.
    Answer {
        /// The id of the question, with the attempt that asks it as [`RunCommand::answer`] writes it.
        question: String,
        /// The answer, in the form that the question asks for.
        reply: Value,
    },
    /// Describe the run as it is now.
    Snapshot,
}

/// Stands between the id of a question and the attempt that asks it.
const OF_ATTEMPT: char = '@';

impl RunCommand {
    /// Creates the answer to a question with this id. `attempt` is the `run` that the question names; it may be empty.
    ///
    /// Each worker numbers its own questions. Without the attempt, a yes that comes after another worker has taken the run
    /// would be for the question that has this number there.
    pub fn answer(id: &str, attempt: &str, reply: Value) -> Self {
        let is_known = (1..=limits::CLUSTER_SPEC_NAME_BYTES).contains(&attempt.len());
        let question = if is_known { format!("{id}{OF_ATTEMPT}{attempt}") } else { id.to_owned() };
        Self::Answer { question, reply }
    }

    /// Returns the id of the question that an answer is for, and the attempt that asks it if the answer names one.
    pub fn answered_question(question: &str) -> (&str, Option<&str>) {
        question.split_once(OF_ATTEMPT).map_or((question, None), |(id, attempt)| (id, Some(attempt)))
    }
}

/// The reply of the worker that has the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum RunReply {
    /// The command was done.
    Done,
    /// The open questions.
    Questions {
        /// The questions, in a form that the program defines.
        questions: Vec<Value>,
    },
    /// The run as it is now.
    Snapshot {
        /// The description, in a form that the program defines.
        snapshot: Value,
    },
    /// The command was not done.
    Refused {
        /// The reason.
        reason: String,
    },
}

/// Commands to runs, and their live events. Who may publish in the namespace may send both: the worker checks each.
#[derive(Debug, Clone)]
pub struct RunBus {
    shared: SharedConnection,
}

/// The service of a worker that answers the commands to a run; dropping it ends the service.
pub struct CommandService {
    /// Ends the task that answers.
    _task: Option<AbortOnDropHandle<()>>,
    _connection: Arc<ClusterConnection>,
}

impl RunBus {
    pub(crate) fn new(shared: SharedConnection) -> Self {
        Self { shared }
    }

    /// Answers the commands to a run until the returned service is dropped. At most
    /// [`limits::CLUSTER_COMMANDS_AT_ONCE`] are answered at once.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn serve<F>(&self, run: &str, handler: F) -> Result<CommandService, ClusterError>
    where
        F: Fn(RunCommand) -> BoxFuture<'static, RunReply> + Send + Sync + 'static,
    {
        let subject = command_subject(&self.shared.options().namespace, checked(run)?);
        let connection = self.shared.get().await?;
        let (client, place) = (connection.handles().context.client(), format!("run {run}"));
        let commands = subscribed(&connection, subject, &place).await?;
        let receiver = Arc::new(CommandReceiver {
            run: run.to_owned(),
            seals: Arc::clone(&connection.handles().seals),
            seen: Mutex::default(),
        });
        let answer = move |message: Message| {
            let (receiver, client) = (Arc::clone(&receiver), client.clone());
            let tag = ContentSeals::tag_of(&message.payload);
            let reply = receiver.reply_to(&message, &handler);
            async move {
                if let Some(reply) = reply {
                    receiver.send_reply(&client, message, &tag, reply.await).await;
                }
            }
        };
        let task = connection.spawn(commands.for_each_concurrent(limits::CLUSTER_COMMANDS_AT_ONCE, answer));
        Ok(CommandService { _task: task, _connection: connection })
    }

    /// Sends a command to the worker that has the run, and returns its reply. It is sent once: a command whose reply does
    /// not come may have been done.
    ///
    /// # Errors
    ///
    /// [`ClusterError::NotAtWork`] if no worker answers for the run, [`ClusterError::TooLarge`],
    /// [`ClusterError::Invalid`] if the reply is none, and if it does not come.
    pub async fn ask(&self, run: &str, command: &RunCommand) -> Result<RunReply, ClusterError> {
        let subject = command_subject(&self.shared.options().namespace, checked(run)?);
        let (place, run, command) = (format!("run {run}"), run.to_owned(), command.clone());
        let task = |handles: ClusterHandles| async move {
            let (command, tag) = seal_command(&handles.seals, &run, &command)?;
            let request = Request::new().payload(command).timeout(Some(limits::CLUSTER_CALL));
            let sent = handles.context.client().send_request(subject, request).await;
            let reply = sent.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => ClusterError::NotAtWork { run: run.clone() }.into(),
                _ => ClusterCallError::failed(error),
            })?;
            // A reply to another command does not open.
            let place = SealPlace { kind: SealKind::Reply, name: &run, position: &tag };
            let reply = handles.seals.open(place, &reply.payload)?;
            Ok(parsed("the reply of the worker", &reply, limits::CLUSTER_REPLY_BYTES)?)
        };
        self.shared.call(SENDING_A_COMMAND, &place, task).await
    }

    /// Publishes a live event of a run to whoever follows it now. What the server does not get in time is not sent again.
    ///
    /// # Errors
    ///
    /// [`ClusterError::TooLarge`] beyond [`limits::CLUSTER_EVENT_LINE_BYTES`], and if the connection has ended.
    pub async fn publish(&self, run: &str, line: Bytes) -> Result<(), ClusterError> {
        let subject = events_subject(&self.shared.options().namespace, checked(run)?);
        if line.len() > limits::CLUSTER_EVENT_LINE_BYTES {
            return Err(ClusterError::too_large("the event", line.len(), limits::CLUSTER_EVENT_LINE_BYTES));
        }
        let connection = self.shared.get().await?;
        let line = connection.handles().seals.seal(SealPlace::new(SealKind::Event, run), line)?;
        let client = connection.handles().context.client();
        client
            .publish(subject, line)
            .await
            .map_err(|error| ClusterCallError::failed(error).in_cluster("publish an event of", &format!("run {run}")))
    }

    /// Returns the live events of a run from now on. The stream does not end when the run does. Events are missed while the
    /// server is away, and beyond [`limits::CLUSTER_FOLLOWED_BYTES`] that are not read yet; the session has all of them. One
    /// that is longer than [`limits::CLUSTER_EVENT_LINE_BYTES`], or that does not open, is left out.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn follow(&self, run: &str) -> Result<BoxStream<'static, Bytes>, ClusterError> {
        let subject = events_subject(&self.shared.options().namespace, checked(run)?);
        let connection = self.shared.get().await?;
        let events = subscribed(&connection, subject, &format!("run {run}")).await?;
        let (sender, receiver) = mpsc::channel(limits::CLUSTER_FOLLOWED_EVENTS);
        let seals = Arc::clone(&connection.handles().seals);
        let task = connection.spawn(pass_on_events(events, seals, run.to_owned(), sender));
        // The task and the connection live as long as the stream.
        let state = (receiver, task, connection);
        let next = |mut state: (mpsc::Receiver<FollowedEvent>, Option<AbortOnDropHandle<()>>, Arc<_>)| async move {
            state.0.recv().await.map(|event| (event.line, state))
        };
        Ok(stream::unfold(state, next).boxed())
    }
}

/// A live event that was received and not read yet, and the room that it takes until then.
struct FollowedEvent {
    line: Bytes,
    _room: OwnedSemaphorePermit,
}

/// Passes the events of a run on as they come, and leaves out those for which there is no room.
///
/// A subscription holds tens of thousands of messages of any size for a reader that is slower than whoever publishes, and
/// everybody in the namespace may publish. So it is always read here, and what waits for the reader is bounded.
async fn pass_on_events(
    mut events: Subscriber,
    seals: Arc<ContentSeals>,
    run: String,
    sender: mpsc::Sender<FollowedEvent>,
) {
    let room = Arc::new(Semaphore::new(limits::CLUSTER_FOLLOWED_BYTES));
    while let Some(message) = events.next().await {
        // One that does not open was not sent by a worker.
        let Ok(line) = seals.open(SealPlace::new(SealKind::Event, &run), &message.payload) else { continue };
        if line.len() > limits::CLUSTER_EVENT_LINE_BYTES {
            continue;
        }
        let bytes = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&room).try_acquire_many_owned(bytes) else { continue };
        // A part of what was received at once would hold all of it.
        let event = FollowedEvent { line: Bytes::copy_from_slice(&line), _room: room };
        if matches!(sender.try_send(event), Err(TrySendError::Closed(_))) {
            return;
        }
    }
}

/// Subscribes to a subject, and waits until the server knows it.
async fn subscribed(
    connection: &Arc<ClusterConnection>,
    subject: String,
    place: &str,
) -> Result<Subscriber, ClusterError> {
    let task = |handles: ClusterHandles| async move {
        let client = handles.context.client();
        let subscriber = client.subscribe(subject).await.map_err(ClusterCallError::failed)?;
        let silent = || ClusterCallError::Failed("the server does not answer".into());
        timeout(limits::CLUSTER_CALL, client.flush()).await.map_err(|_| silent())?.map_err(ClusterCallError::failed)?;
        Ok(subscriber)
    };
    connection.call(("listen to", place), task).await
}

/// The commands to one run, as its worker receives them.
struct CommandReceiver {
    run: String,
    seals: Arc<ContentSeals>,
    seen: Mutex<SeenCommands>,
}

/// The commands that were received and that do something: a server could send one again, and the way to the worker can
/// double one.
#[derive(Default)]
struct SeenCommands {
    /// The tags of those that were sealed.
    tags: HashSet<SealTag>,
    /// The digests of the subjects of their replies: each request has one of its own.
    replies: HashSet<Sha256Digest>,
    /// The messages to the run, by the digests of their ids.
    messages: HashMap<Sha256Digest, SeenMessage>,
}

/// A message to the run that has an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeenMessage {
    /// The run is about to take it.
    Pending,
    /// The run has it.
    Given,
}

/// The relation of a command to those that were received before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandArrival {
    /// The command is to be done.
    New,
    /// The same message came once more: whoever sent it waits for the reply to the first one.
    Doubled,
    /// Somebody else has sent it before, or no more commands can be remembered.
    Refused,
}

impl SeenCommands {
    /// Remembers a command, whose reply goes to this subject.
    fn arrival(&mut self, command: &RunCommand, tag: SealTag, reply: Option<&str>) -> CommandArrival {
        if matches!(command, RunCommand::Questions | RunCommand::Snapshot) {
            return CommandArrival::New;
        }
        let reply = reply.map(|subject| Sha256Digest::of(subject.as_bytes()));
        if reply.is_some_and(|reply| self.replies.contains(&reply)) {
            return CommandArrival::Doubled;
        }
        let remembered = self.tags.len().max(self.replies.len()).max(self.messages.len());
        let is_full = remembered >= limits::CLUSTER_COMMANDS_SEEN;
        if is_full || (tag != NO_TAG && !self.tags.insert(tag)) {
            return CommandArrival::Refused;
        }
        self.replies.extend(reply);
        CommandArrival::New
    }
}

impl CommandReceiver {
    /// Returns the reply to a message that should be a command; `None` if it has one.
    fn reply_to<F>(self: &Arc<Self>, message: &Message, handler: &F) -> Option<BoxFuture<'static, RunReply>>
    where
        F: Fn(RunCommand) -> BoxFuture<'static, RunReply>,
    {
        let command = match self.command(message) {
            Ok(command) => command?,
            Err(error) => return Some(Box::pin(async move { RunReply::Refused { reason: error.to_string() } })),
        };
        let RunCommand::Message { id: Some(id), .. } = &command else { return Some(handler(command)) };
        let (receiver, id) = (Arc::clone(self), Sha256Digest::of(id.as_bytes()));
        match receiver.seen().messages.entry(id) {
            // The run has it: whoever sends it again has missed the reply.
            Entry::Occupied(seen) if *seen.get() == SeenMessage::Given => {
                return Some(Box::pin(async { RunReply::Done }));
            }
            // It is not safe yet. Without a reply it is sent once more.
            Entry::Occupied(_) => return None,
            Entry::Vacant(new) => new.insert(SeenMessage::Pending),
        };
        let reply = handler(command);
        Some(Box::pin(async move {
            let reply = reply.await;
            match &reply {
                RunReply::Done => receiver.seen().messages.insert(id, SeenMessage::Given),
                _ => receiver.seen().messages.remove(&id),
            };
            reply
        }))
    }

    fn seen(&self) -> MutexGuard<'_, SeenCommands> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a command; returns `None` if it was received before, by the same message.
    fn command(&self, message: &Message) -> Result<Option<RunCommand>, ClusterError> {
        let payload = &message.payload;
        let opened = self.seals.open(SealPlace::new(SealKind::Command, &self.run), payload)?;
        let command = parsed("the command", &opened, limits::CLUSTER_COMMAND_BYTES)?;
        match self.seen().arrival(&command, ContentSeals::tag_of(payload), message.reply.as_deref()) {
            CommandArrival::New => Ok(Some(command)),
            CommandArrival::Doubled => Ok(None),
            CommandArrival::Refused => {
                Err(ClusterError::invalid("the command", "it was received before, or too many others were"))
            }
        }
    }

    async fn send_reply(&self, client: &Client, message: Message, command: &SealTag, reply: RunReply) {
        let Some(to) = message.reply else { return };
        let mut bytes = serde_json::to_vec(&reply).unwrap_or_default();
        if bytes.len() > limits::CLUSTER_REPLY_BYTES {
            let reason = format!("the reply has more than {} bytes", limits::CLUSTER_REPLY_BYTES);
            bytes = serde_json::to_vec(&RunReply::Refused { reason }).unwrap_or_default();
        }
        let place = SealPlace { kind: SealKind::Reply, name: &self.run, position: command };
        if let Ok(sealed) = self.seals.seal(place, bytes.into()) {
            // Whoever asked stops waiting if it is lost.
            let _ = client.publish(to, sealed).await;
        }
    }
}

/// Returns the bytes of a command as they are sent, and their tag.
pub(crate) fn seal_command(
    seals: &ContentSeals,
    run: &str,
    command: &RunCommand,
) -> Result<(Bytes, SealTag), ClusterError> {
    let command = serde_json::to_vec(command).unwrap_or_default();
    if command.len() > limits::CLUSTER_COMMAND_BYTES {
        return Err(ClusterError::too_large("the command", command.len(), limits::CLUSTER_COMMAND_BYTES));
    }
    let sealed = seals.seal(SealPlace::new(SealKind::Command, run), command.into())?;
    let tag = ContentSeals::tag_of(&sealed);
    Ok((sealed, tag))
}

/// Parses JSON that another host sent.
fn parsed<T: DeserializeOwned>(what: &str, payload: &[u8], most: usize) -> Result<T, ClusterError> {
    match payload.len() > most {
        true => Err(ClusterError::too_large(what, payload.len(), most)),
        false => serde_json::from_slice(payload).map_err(|error| ClusterError::invalid(what, error.to_string())),
    }
}

/// Returns the subject of the commands to a run.
pub(crate) fn command_subject(namespace: &str, run: &str) -> String {
    format!("shelly.{namespace}.bus.run.{run}.command")
}

fn events_subject(namespace: &str, run: &str) -> String {
    format!("shelly.{namespace}.bus.run.{run}.events")
}

/// Checks the id of a run, which becomes a part of a subject.
fn checked(run: &str) -> Result<&str, ClusterError> {
    match RunSpec::is_id(run) {
        true => Ok(run),
        false => Err(not_an_id("run", run)),
    }
}

impl fmt::Debug for CommandService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandService").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_and_replies_have_these_forms() {
        let message = RunCommand::Message { id: None, agent: None, text: "hi".into() };
        let answer = RunCommand::Answer { question: "q".into(), reply: json!(true) };
        for (command, form) in [
            (RunCommand::Cancel, json!({ "command": "cancel" })),
            (message, json!({ "command": "message", "text": "hi" })),
            (answer, json!({ "command": "answer", "question": "q", "reply": true })),
        ] {
            assert_eq!(serde_json::to_value(&command).unwrap(), form);
            assert_eq!(serde_json::from_value::<RunCommand>(form).unwrap(), command);
        }
        let refused = RunReply::Refused { reason: "no".into() };
        assert_eq!(serde_json::to_value(refused).unwrap(), json!({ "reply": "refused", "reason": "no" }));
    }

    #[test]
    fn answer_names_the_attempt_that_asked() {
        let long = "x".repeat(limits::CLUSTER_SPEC_NAME_BYTES + 1);
        for (attempt, read) in [
            ("run-1", ("7", Some("run-1"))),
            ("a@b", ("7", Some("a@b"))),
            ("", ("7", None)),
            (long.as_str(), ("7", None)),
        ] {
            let RunCommand::Answer { question, .. } = RunCommand::answer("7", attempt, json!(true)) else {
                panic!("no answer")
            };
            assert_eq!(RunCommand::answered_question(&question), read);
        }
    }

    #[test]
    fn command_is_done_once() {
        use CommandArrival::{Doubled, New, Refused};
        let mut seen = SeenCommands::default();
        let tag = |n: usize| std::array::from_fn(|at| if at < 8 { n.to_le_bytes()[at] } else { 1 });
        for (command, tag, reply, arrival) in [
            (RunCommand::Cancel, tag(0), Some("_INBOX.a"), New),
            (RunCommand::Cancel, tag(0), Some("_INBOX.a"), Doubled),
            (RunCommand::Cancel, tag(0), Some("_INBOX.b"), Refused),
            (RunCommand::Cancel, tag(0), None, Refused),
            // A question that does nothing is answered each time.
            (RunCommand::Questions, tag(0), Some("_INBOX.a"), New),
            // Plain ones.
            (RunCommand::Cancel, NO_TAG, Some("_INBOX.c"), New),
            (RunCommand::Cancel, NO_TAG, Some("_INBOX.c"), Doubled),
            (RunCommand::Cancel, NO_TAG, None, New),
            (RunCommand::Cancel, NO_TAG, None, New),
        ] {
            assert_eq!(seen.arrival(&command, tag, reply), arrival, "{command:?} {reply:?}");
        }
        let mut seen = SeenCommands::default();
        for n in 0..limits::CLUSTER_COMMANDS_SEEN {
            assert_eq!(seen.arrival(&RunCommand::Cancel, tag(n), None), New);
        }
        let last = tag(limits::CLUSTER_COMMANDS_SEEN);
        assert_eq!(seen.arrival(&RunCommand::Cancel, last, None), Refused, "no more are remembered");
    }

    #[test]
    fn what_is_no_command_is_refused_by_name() {
        let long = vec![b' '; limits::CLUSTER_COMMAND_BYTES + 1];
        for (payload, why) in [
            (&b"{}"[..], "missing field"),
            (&b"{\"command\":\"format\"}"[..], "unknown variant"),
            (&long[..], "more than"),
        ] {
            let refused = parsed::<RunCommand>("the command", payload, limits::CLUSTER_COMMAND_BYTES);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.starts_with("the command") && refused.contains(why), "{refused}, not {why}");
        }
    }
}
