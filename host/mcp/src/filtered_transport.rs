//! A filter between a connection and `rmcp`, which starts a task for every message: messages are counted, answered or
//! dropped before they reach it.
#![expect(deprecated, reason = "servers of earlier revisions write to the log")]

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    RoleClient,
    model::{
        CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification, GetExtensions, GetMeta,
        LoggingMessageNotificationParam, ProgressNotificationParam, RequestId, ServerJsonRpcMessage,
        ServerNotification,
    },
    transport::Transport,
};
use tokio::sync::Notify;

use super::{
    call_context::{McpCallCx, McpCallExtension, McpCallProgress},
    connection_monitor::{ConnectionMonitor, DisconnectReason},
};
use shelly_core::{error::cut, limits};

/// The requests in progress over one connection, and its monitor.
#[derive(Debug)]
pub(super) struct ConnectionTraffic {
    server: Arc<str>,
    pub patience: Arc<ConnectionMonitor>,
    /// Notified when the server announces that its tools have changed.
    pub tools_changed: Notify,
    table: Mutex<TrafficTable>,
}

#[derive(Debug, Default)]
struct TrafficTable {
    /// Requests of the client that have no answer yet.
    waiting: HashMap<i64, PendingMcpRequest>,
    /// The requests by their progress tokens.
    progress: HashMap<i64, i64>,
    /// Requests of the server that have no answer yet.
    asked: HashSet<RequestId>,
}

/// A request of the client.
#[derive(Debug, Default)]
struct PendingMcpRequest {
    call: Option<Arc<McpCallCx>>,
    mark: Option<i64>,
}

impl ConnectionTraffic {
    pub fn new(server: Arc<str>) -> Arc<Self> {
        let (patience, tools_changed, table) = (Arc::default(), Notify::new(), Mutex::default());
        Arc::new(Self { server, patience, tools_changed, table })
    }

    /// Returns the call for which the client made this request.
    pub fn call_of(&self, id: &RequestId) -> Option<Arc<McpCallCx>> {
        self.table().waiting.get(&number(id)?)?.call.clone()
    }

    /// Returns the only call in progress, or one of them if all are of one agent and run.
    pub fn only_call(&self) -> Option<Arc<McpCallCx>> {
        let table = self.table();
        let mut calls = table.waiting.values().filter_map(|waiting| waiting.call.as_ref());
        let first = calls.next()?;
        calls.all(|call| call.is_of_run_of(first)).then(|| Arc::clone(first))
    }

    /// Forgets the requests that the server made during the handshake: they get no answer.
    pub fn begin(&self) {
        self.table().asked.clear();
    }

    fn table(&self) -> MutexGuard<'_, TrafficTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a message that is about to be sent.
    fn sending(&self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let Some(id) = number(&request.id) else { return };
                let call = request.request.extensions().get::<McpCallExtension>().map(|made| Arc::clone(&made.0));
                let mark = request.request.get_meta().get_progress_token().and_then(|mark| number(&mark.0));
                let (mark, mut table) = (mark.filter(|_| call.is_some()), self.table());
                if let Some(mark) = mark {
                    table.progress.insert(mark, id);
                }
                table.waiting.insert(id, PendingMcpRequest { call, mark });
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = cancelled.params.request_id.as_ref().and_then(number)
                {
                    self.table().take(id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {}
        }
    }

    /// Records that an answer to the server was sent, or could not be.
    fn answered(&self, id: &RequestId) {
        self.table().asked.remove(id);
    }

    /// Returns `true` if a received message goes on to `rmcp`.
    fn admit(&self, message: &ServerJsonRpcMessage) -> bool {
        let is_admitted = match message {
            ServerJsonRpcMessage::Response(response) => self.is_waited_for(Some(&response.id)),
            ServerJsonRpcMessage::Error(error) => self.is_waited_for(error.id.as_ref()),
            ServerJsonRpcMessage::Request(request) => {
                self.patience.unasked();
                let mut table = self.table();
                table.asked.len() < limits::MCP_SERVER_REQUESTS && table.asked.insert(request.id.clone())
            }
            ServerJsonRpcMessage::Notification(notification) => {
                self.patience.unasked();
                self.is_for_protocol(&notification.notification)
            }
        };
        is_admitted && self.patience.ended().is_none()
    }

    fn is_waited_for(&self, id: Option<&RequestId>) -> bool {
        let is_waited_for = id.and_then(number).is_some_and(|id| self.table().take(id));
        if !is_waited_for {
            self.patience.unasked();
        }
        is_waited_for
    }

    fn is_for_protocol(&self, notification: &ServerNotification) -> bool {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                self.report(&progress.params);
                false
            }
            ServerNotification::LoggingMessageNotification(entry) => {
                self.log(&entry.params);
                false
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.tools_changed.notify_one();
                true
            }
            ServerNotification::CancelledNotification(cancelled) => {
                let CancelledNotificationParam { request_id: Some(id), .. } = &cancelled.params else { return false };
                // The server has withdrawn this request; it gets no answer.
                self.answered(id);
                true
            }
            ServerNotification::SubscriptionsAcknowledgedNotification(_) => true,
            // No other notification, now or in a later revision, is of use here.
            _ => false,
        }
    }

    fn report(&self, progress: &ProgressNotificationParam) {
        let table = self.table();
        let Some(call) = number(&progress.progress_token.0)
            .and_then(|mark| table.waiting.get(table.progress.get(&mark)?)?.call.as_ref())
        else {
            return;
        };
        let finite = |number: f64| number.is_finite().then_some(number);
        let Some(done) = finite(progress.progress) else { return };
        let message = progress.message.as_ref().map(|message| cut(message, limits::LOG_ENTRY_BYTES / 4));
        call.progress.send_replace(Some(McpCallProgress { done, total: progress.total.and_then(finite), message }));
    }

    fn log(&self, entry: &LoggingMessageNotificationParam) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let text = cut(&entry.data.to_string(), limits::LOG_ENTRY_BYTES / 4);
            tracing::debug!(server = %self.server, "{}", text.escape_debug());
        }
    }
}

impl TrafficTable {
    /// Removes a request whose answer is no longer awaited; returns `true` if there was one.
    fn take(&mut self, id: i64) -> bool {
        let Some(taken) = self.waiting.remove(&id) else { return false };
        if let Some(mark) = taken.mark {
            self.progress.remove(&mark);
        }
        true
    }
}

/// Returns the number of a client request's id. Some servers return it as a text.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}

/// A transport that hands on only the messages that [`ConnectionTraffic`] admits.
pub(super) struct FilteredTransport<T> {
    inner: T,
    traffic: Arc<ConnectionTraffic>,
}

impl<T> FilteredTransport<T> {
    pub fn new(inner: T, traffic: Arc<ConnectionTraffic>) -> Self {
        Self { inner, traffic }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for FilteredTransport<T> {
    type Error = T::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.traffic.sending(&message);
        let answers = match &message {
            ClientJsonRpcMessage::Response(response) => Some(response.id.clone()),
            ClientJsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let (sending, traffic) = (self.inner.send(message), Arc::clone(&self.traffic));
        async move {
            let sent = sending.await;
            if let Some(id) = answers {
                traffic.answered(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let Self { inner, traffic } = self;
        loop {
            let message = tokio::select! {
                biased;
                _ = traffic.patience.until_lost() => return None,
                message = inner.receive() => message,
            };
            match message {
                Some(message) if traffic.admit(&message) => return Some(message),
                Some(_) => {}
                None => {
                    traffic.patience.give_up(DisconnectReason::Closed);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.traffic.patience.give_up(DisconnectReason::Closed);
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use shelly_core::event::RunCx;

    fn admitted(traffic: &ConnectionTraffic, message: Value) -> bool {
        traffic.admit(&serde_json::from_value(message).unwrap())
    }

    fn sending(traffic: &ConnectionTraffic, id: i64, made_for: Option<&Arc<McpCallCx>>) {
        let json = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "_meta": {"progressToken": id + 100}}});
        let mut message: ClientJsonRpcMessage = serde_json::from_value(json).unwrap();
        if let (ClientJsonRpcMessage::Request(request), Some(call)) = (&mut message, made_for) {
            request.request.extensions_mut().insert(McpCallExtension(Arc::clone(call)));
        }
        traffic.sending(&message);
    }

    #[test]
    fn only_what_is_waited_for_passes() {
        let traffic = ConnectionTraffic::new("s".into());
        sending(&traffic, 7, None);
        for (message, passes) in [
            (json!({"jsonrpc": "2.0", "id": 8, "result": {}}), false),
            (json!({"jsonrpc": "2.0", "id": 7, "result": {}}), true),
            (json!({"jsonrpc": "2.0", "id": 7, "result": {}}), false),
            (json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}), false),
            (json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), true),
            (json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}), false),
            (json!({"jsonrpc": "2.0", "method": "notifications/own", "params": {"a": 1}}), false),
        ] {
            assert_eq!(admitted(&traffic, message.clone()), passes, "{message}");
        }
    }

    #[test]
    fn questions_that_are_open_are_bounded() {
        let traffic = ConnectionTraffic::new("s".into());
        let ping = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        let passed = (0..200).filter(|id| admitted(&traffic, ping(*id))).count();
        assert_eq!(passed, limits::MCP_SERVER_REQUESTS);
        traffic.answered(&RequestId::Number(3));
        assert!(!admitted(&traffic, ping(4)), "it has no answer yet");
        assert!(admitted(&traffic, ping(300)));
        assert!(!admitted(&traffic, ping(301)));
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
        assert!(admitted(&traffic, cancelled) && admitted(&traffic, ping(301)));
        traffic.begin();
        assert!(admitted(&traffic, ping(4)));
    }

    #[test]
    fn progress_and_questions_find_their_call() {
        let traffic = ConnectionTraffic::new("s".into());
        let [one, two] = ["one", "two"].map(|agent| McpCallCx::new(RunCx::new(agent), "c".into()));
        sending(&traffic, 1, Some(&one));
        assert!(Arc::ptr_eq(&traffic.only_call().unwrap(), &one));
        sending(&traffic, 2, Some(&two));
        assert!(traffic.only_call().is_none(), "they are of two agents");
        assert!(Arc::ptr_eq(&traffic.call_of(&RequestId::Number(2)).unwrap(), &two));
        for (mark, progress) in [(102, 0.5), (103, 0.7)] {
            let params = json!({"progressToken": mark, "progress": progress, "message": "x".repeat(2_000)});
            let told = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            assert!(!admitted(&traffic, told));
        }
        let told = two.progress.borrow().clone().unwrap();
        assert!(told.done == 0.5 && told.message.unwrap().chars().count() == limits::LOG_ENTRY_BYTES / 4 + 1);
        assert_eq!(*one.progress.borrow(), None);
        assert!(admitted(&traffic, json!({"jsonrpc": "2.0", "id": 2, "result": {}})));
        assert!(traffic.call_of(&RequestId::Number(2)).is_none());
        assert!(Arc::ptr_eq(&traffic.only_call().unwrap(), &one));
    }
}
