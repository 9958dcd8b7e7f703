use std::{sync::Arc, time::SystemTime};

use futures_util::stream::BoxStream;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    incoming_message,
    push_sender::{PushSender, no_push_notifications},
    served_task::ServedTask,
    task_table::{TaskTable, refusal},
    task_updates,
    task_view::{self, TaskParts},
};
use crate::{
    a2a::{
        A2aError, A2aErrorKind, A2aOperation,
        wire::{
            A2aTask, ListPushConfigsResult, ListTasksParams, ListTasksResult, PushConfigParams, SendMessageParams,
            SendMessageResult, TaskIdParams, TaskPushNotificationConfig, TaskQueryParams,
        },
    },
    capability::HttpGrant,
    event::PropagatedSpan,
    limits,
    serve::hosted_runs::{RunHost, RunHostError},
};

/// The operations of clients, with the tasks that they began.
pub(super) struct TaskOperations {
    host: RunHost,
    table: TaskTable,
    push: PushSender,
    /// Cancelled when the server ends, which ends streams and answers that wait.
    stop: CancellationToken,
}

/// The result of an operation.
pub(super) enum OperationResult {
    Value(Value),
    /// The items of a stream.
    Updates(BoxStream<'static, Value>),
}

impl TaskOperations {
    /// Returns the operations on these runs. `push` are the addresses to which clients may have updates sent.
    pub fn new(host: RunHost, push: HttpGrant, stop: CancellationToken) -> Self {
        let push = PushSender::new(push, stop.clone());
        Self { host, table: TaskTable::default(), push, stop }
    }

    /// Performs an operation at the address of an agent. A task that it begins is part of the span of the client.
    ///
    /// # Errors
    ///
    /// An [`A2aError`].
    pub async fn perform(
        &self,
        agent: &str,
        operation: A2aOperation,
        params: Value,
        outer_span: Option<PropagatedSpan>,
    ) -> Result<OperationResult, A2aError> {
        match operation {
            A2aOperation::SendMessage => {
                let params: SendMessageParams = parse(params)?;
                let (history, is_blocking) =
                    (params.configuration.history_length, !params.configuration.return_immediately);
                let task = self.send(agent, params, outer_span).await?;
                if is_blocking {
                    task_updates::settled(&self.host, &task, &self.stop).await;
                }
                let shown = task_view::task(&self.host, &task, TaskParts { history, artifacts: true });
                value(&SendMessageResult::Task(Box::new(shown)))
            }
            A2aOperation::SendStreamingMessage => {
                let params: SendMessageParams = parse(params)?;
                let history = params.configuration.history_length;
                let task = self.send(agent, params, outer_span).await?;
                self.updates(&task, history, true)
            }
            A2aOperation::GetTask => {
                let TaskQueryParams { tenant, id, history_length: history } = parse(params)?;
                check_tenant(agent, &tenant)?;
                let task = self.table.task(&self.host, agent, &id)?;
                value(&task_view::task(&self.host, &task, TaskParts { history, artifacts: true }))
            }
            A2aOperation::ListTasks => value(&self.list(agent, parse(params)?)?),
            A2aOperation::CancelTask => value(&self.cancel(agent, parse(params)?).await?),
            A2aOperation::SubscribeToTask => {
                let TaskIdParams { tenant, id } = parse(params)?;
                check_tenant(agent, &tenant)?;
                let task = self.table.task(&self.host, agent, &id)?;
                if task.run.state().has_ended() {
                    let error = "the task is over, and nothing of it changes any more; ask for it with `GetTask`";
                    let error = A2aError::new(A2aErrorKind::UnsupportedOperation, error);
                    return Err(error.with_fact("taskId", task.id()));
                }
                self.updates(&task, None, false)
            }
            A2aOperation::CreateTaskPushNotificationConfig => {
                let config: TaskPushNotificationConfig = parse(params)?;
                self.push.check(&config)?;
                check_tenant(agent, &config.tenant)?;
                let task = self.table.task(&self.host, agent, &config.task_id)?;
                value(&self.notify(&task, config)?.without_secrets())
            }
            A2aOperation::GetTaskPushNotificationConfig => {
                let (task, id) = self.notified_task(agent, params)?;
                let config = task.push.get(&id).ok_or_else(no_config)?;
                value(&config.without_secrets())
            }
            A2aOperation::ListTaskPushNotificationConfigs => {
                let (task, _) = self.notified_task(agent, params)?;
                let configs = task.push.all().iter().map(TaskPushNotificationConfig::without_secrets).collect();
                value(&ListPushConfigsResult { configs, ..ListPushConfigsResult::default() })
            }
            A2aOperation::DeleteTaskPushNotificationConfig => {
                let (task, id) = self.notified_task(agent, params)?;
                task.push.remove(&id);
                Ok(OperationResult::Value(Value::Object(Map::new())))
            }
            A2aOperation::GetExtendedAgentCard => {
                let error = "there is no other card for authenticated clients than the public one";
                Err(A2aError::new(A2aErrorKind::UnsupportedOperation, error))
            }
        }
    }

    /// Takes a message, and waits until the run of its task has begun.
    async fn send(
        &self,
        agent: &str,
        params: SendMessageParams,
        outer_span: Option<PropagatedSpan>,
    ) -> Result<Arc<ServedTask>, A2aError> {
        let SendMessageParams { tenant, message, configuration, metadata } = params;
        check_tenant(agent, &tenant)?;
        // A message with a config that is refused has no effect.
        let config = configuration.task_push_notification_config;
        config.iter().try_for_each(|config| self.push.check(config))?;
        incoming_message::check(&message)?;
        let task = self.table.take(&self.host, agent, (&message, &metadata), outer_span)?;
        match task.run.begun().await {
            // A context that cannot be continued must be refused, and the server must not choose another one.
            Err(error @ (RunHostError::NotBegun(_) | RunHostError::SessionInUse { .. }))
                if message.task_id.is_empty() && !message.context_id.is_empty() =>
            {
                self.table.drop_task(task.id());
                Err(refusal(error))
            }
            // The state of the task says why it was rejected.
            Ok(()) | Err(_) => {
                if let Some(config) = config {
                    self.notify(&task, config)?;
                }
                Ok(task)
            }
        }
    }

    /// Sends the updates of a task to a further address. Returns its config.
    fn notify(
        &self,
        task: &Arc<ServedTask>,
        config: TaskPushNotificationConfig,
    ) -> Result<TaskPushNotificationConfig, A2aError> {
        let task_id = task.id().to_owned();
        let config = task.push.add(TaskPushNotificationConfig { task_id, tenant: String::new(), ..config })?;
        self.push.follow(&self.host, task);
        Ok(config)
    }

    /// Returns the task whose addresses a request is about, and the id of one of them.
    fn notified_task(&self, agent: &str, params: Value) -> Result<(Arc<ServedTask>, String), A2aError> {
        if !self.push.is_on() {
            return Err(no_push_notifications());
        }
        let PushConfigParams { tenant, task_id, id } = parse(params)?;
        check_tenant(agent, &tenant)?;
        Ok((self.table.task(&self.host, agent, &task_id)?, id))
    }

    /// Streams the updates of a task. After a message the stream ends also if the task asks for input already.
    fn updates(
        &self,
        task: &Arc<ServedTask>,
        history: Option<u32>,
        is_after_message: bool,
    ) -> Result<OperationResult, A2aError> {
        let updates = task_updates::updates(&self.host, task, history, is_after_message, &self.stop);
        let updates = updates.map_err(refusal)?;
        Ok(OperationResult::Updates(updates))
    }

    async fn cancel(&self, agent: &str, params: TaskIdParams) -> Result<A2aTask, A2aError> {
        let TaskIdParams { tenant, id } = params;
        check_tenant(agent, &tenant)?;
        let task = self.table.task(&self.host, agent, &id)?;
        if task.run.state().has_ended() {
            let error = A2aError::new(A2aErrorKind::TaskNotCancelable, "the task is over already");
            return Err(error.with_fact("taskId", task.id()));
        }
        task.run.cancel();
        // A step that does not end in time goes on, and the state says so.
        let _ = timeout(limits::CANCEL_GRACE, task.run.finished()).await;
        Ok(task_view::task(&self.host, &task, TaskParts { history: None, artifacts: true }))
    }

    /// Returns a page of the tasks of an agent, the one with the newest state first.
    fn list(&self, agent: &str, params: ListTasksParams) -> Result<ListTasksResult, A2aError> {
        check_tenant(agent, &params.tenant)?;
        let size = params.page_size.unwrap_or(limits::A2A_PAGE_TASKS_DEFAULT);
        if !(1..=limits::A2A_PAGE_TASKS).contains(&size) {
            return Err(A2aError::invalid_params(format!("`pageSize` is not 1 to {}", limits::A2A_PAGE_TASKS)));
        }
        let after = match params.status_timestamp_after.as_str() {
            "" => SystemTime::UNIX_EPOCH,
            said => humantime::parse_rfc3339(said).map_err(|_| {
                A2aError::invalid_params("`statusTimestampAfter` is no time such as 2026-11-27T09:00:00Z")
            })?,
        };
        // Formatted times are in the order of the times.
        let after = task_view::timestamp(after);
        let parts = TaskParts { history: params.history_length, artifacts: params.include_artifacts };
        let bare = TaskParts { history: Some(0), artifacts: false };
        let mut tasks: Vec<_> = self
            .table
            .tasks(&self.host, agent)
            .into_iter()
            .filter(|task| params.context_id.is_empty() || task.context == params.context_id)
            .map(|task| (task_view::task(&self.host, &task, bare), task))
            .filter(|(shown, _)| params.status.is_none_or(|status| shown.status.state == status))
            .filter(|(shown, _)| shown.status.timestamp >= after)
            .collect();
        tasks.sort_by(|(one, _), (other, _)| page_key(other).cmp(&page_key(one)));
        let total_size = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
        let from = match params.page_token.as_str() {
            "" => 0,
            token => {
                let (timestamp, id) = token
                    .split_once('/')
                    .filter(|_| token.len() <= 2 * limits::A2A_ID_BYTES)
                    .ok_or_else(|| A2aError::invalid_params("`pageToken` is none of this server"))?;
                tasks.partition_point(|(shown, _)| page_key(shown) >= (timestamp, id))
            }
        };
        let (mut page, mut bytes, mut has_more) = (Vec::new(), 0, false);
        for (shown, task) in tasks.into_iter().skip(from) {
            has_more = page.len() == size as usize;
            if has_more {
                break;
            }
            let whole = task_view::with_parts(shown, &task, parts);
            bytes += serde_json::to_vec(&whole).map_or(0, |json| json.len());
            // A client gets at least one task.
            has_more = bytes > limits::A2A_PAGE_BYTES && !page.is_empty();
            if has_more {
                break;
            }
            page.push(whole);
        }
        let token = page.last().filter(|_| has_more).map(|last| format!("{}/{}", last.status.timestamp, last.id));
        Ok(ListTasksResult { tasks: page, next_page_token: token.unwrap_or_default(), page_size: size, total_size })
    }

    /// Returns the tasks.
    #[cfg(test)]
    pub fn table(&self) -> &TaskTable {
        &self.table
    }
}

/// Returns the place of a task in a list.
fn page_key(task: &A2aTask) -> (&str, &str) {
    (task.status.timestamp.as_str(), task.id.as_str())
}

fn parse<T: DeserializeOwned>(params: Value) -> Result<T, A2aError> {
    let params = if params.is_null() { Value::Object(Map::new()) } else { params };
    serde_json::from_value(params)
        .map_err(|error| A2aError::invalid_params(format!("the parameters cannot be used: {error}")))
}

fn value(result: &impl Serialize) -> Result<OperationResult, A2aError> {
    let value = serde_json::to_value(result);
    value.map(OperationResult::Value).map_err(|error| A2aError::new(A2aErrorKind::Internal, error.to_string()))
}

/// Checks that a request names no other agent than the one at whose address it came.
fn check_tenant(agent: &str, tenant: &str) -> Result<(), A2aError> {
    match tenant.is_empty() || tenant == agent {
        true => Ok(()),
        false => Err(A2aError::invalid_params("the `tenant` is not the agent at this address; leave it out")),
    }
}

fn no_config() -> A2aError {
    let error = "the task has no such address that is told of it; it was deleted, or it did not take the updates";
    A2aError::new(A2aErrorKind::TaskNotFound, error)
}
