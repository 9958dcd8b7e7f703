//! The client of one server. It outlives the server's connections.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::join4;
use rmcp::{
    Peer, RoleClient,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientNotification, RequestId, RootsListChangedNotification,
        SubscriptionFilter,
    },
};
use tokio::{
    sync::{Notify, Semaphore, mpsc, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    McpClientFeatures, McpError, McpToolListing, Pins, ServerConfig, connection::McpConnection,
    connection_monitor::DisconnectReason, filtered_transport::ConnectionTraffic, listing::list,
    request_broker::ServerRequestBroker,
};
use shelly_core::{error::Fault, limits};

/// A client of one server, shared by all callers. It reconnects when the connection breaks. Dropping it ends the
/// connection, and the server's program if the client started one.
///
/// ```no_run
/// use std::{env, sync::Arc};
/// use shelly_core::{agent::Agent, model::ScriptedCompleter};
/// use shelly_mcp::{McpClient, McpClientFeatures, McpStdioTarget, McpTarget, Pins, ServerConfig};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let arguments = ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"].map(str::to_owned);
/// let environment = [("PATH".to_owned(), env::var("PATH")?)];
/// let program = McpStdioTarget::new("npx", arguments.into(), environment, "/tmp".into());
/// let config = ServerConfig::new("files", McpTarget::Program(program));
/// let client = McpClient::connect(config, McpClientFeatures::default()).await?;
/// let mut agent = Agent::new("file-agent", "Manage files.", Arc::new(ScriptedCompleter::new([])));
/// // Approves the tools as the server describes them now; a tool that changes later is blocked.
/// for tool in client.offer(&Pins::of(&client.listing())).tools {
///     agent.tools.register(tool)?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct McpClient {
    pub(super) shared: Arc<McpClientInner>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// State shared by the calls and the task that keeps the server connected.
#[derive(Debug)]
pub(super) struct McpClientInner {
    pub config: ServerConfig,
    pub broker: Arc<ServerRequestBroker>,
    pub listing: watch::Sender<Arc<McpToolListing>>,
    pub permits: Semaphore,
    state: watch::Sender<McpConnectionState>,
    /// Notified when a call needs a server that reconnection was given up for.
    wanted: Notify,
    closing: CancellationToken,
}

#[derive(Debug, Clone)]
enum McpConnectionState {
    Up(McpConnectionHandle),
    /// Reconnecting.
    Down,
    /// Not reconnected until a call needs it.
    GivenUp(McpError),
    Closed,
}

/// The parts of a connection that a call needs.
#[derive(Debug, Clone)]
pub(super) struct McpConnectionHandle {
    pub peer: Peer<RoleClient>,
    pub traffic: Arc<ConnectionTraffic>,
    /// Takes requests whose answer no caller awaits any more; the server is notified of the cancellation.
    pub cancelled: mpsc::Sender<RequestId>,
}

impl McpClient {
    /// Connects to a server for the first time and lists its tools.
    ///
    /// # Errors
    ///
    /// [`McpError`] if the config is invalid, the program does not start, the connection fails or the tools cannot be
    /// listed.
    pub async fn connect(config: ServerConfig, asking: McpClientFeatures) -> Result<Arc<Self>, McpError> {
        config.check()?;
        let broker = Arc::new(ServerRequestBroker::new(Arc::clone(&config.name), asking));
        let (link, listing) = reach(&config, &broker).await?;
        let shared = Arc::new(McpClientInner {
            config,
            broker,
            listing: watch::Sender::new(Arc::new(listing)),
            permits: Semaphore::new(limits::MCP_CALLS),
            state: watch::Sender::new(McpConnectionState::Down),
            wanted: Notify::new(),
            closing: CancellationToken::new(),
        });
        let (session, cancelled) = McpConnectionHandle::on(&link);
        shared.state.send_replace(McpConnectionState::Up(session));
        let keeping = tokio::spawn(keep(Arc::clone(&shared), link, cancelled));
        Ok(Arc::new(Self { shared, task: Mutex::new(Some(AbortOnDropHandle::new(keeping))) }))
    }

    /// Returns the server's name.
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// Returns the server's current tools.
    pub fn listing(&self) -> Arc<McpToolListing> {
        Arc::clone(&self.shared.listing.borrow())
    }

    /// Returns a receiver that sees each change of the server's tools.
    pub fn changes(&self) -> watch::Receiver<Arc<McpToolListing>> {
        self.shared.listing.subscribe()
    }

    /// Closes the connection. The server may finish its work for some seconds.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // An error means that the task panicked: it has ended too.
            let _ = task.await;
        }
    }
}

impl McpConnectionHandle {
    fn on(link: &McpConnection) -> (Self, mpsc::Receiver<RequestId>) {
        let (cancelled, receiver) = mpsc::channel(limits::MCP_CANCELLATIONS);
        (Self { peer: link.peer().clone(), traffic: Arc::clone(&link.traffic), cancelled }, receiver)
    }
}

impl McpClientInner {
    /// Returns the connection as [`session`](Self::session) does, but waits no longer than connecting may take.
    ///
    /// # Errors
    ///
    /// A message for a person that says why there is none.
    pub async fn session_in_time(&self) -> Result<McpConnectionHandle, String> {
        let most = self.config.connect_time;
        match timeout(most, self.session()).await {
            Ok(session) => session.map_err(|fault| fault.to_string()),
            Err(_) => Err(format!("no connection within {most:?}")),
        }
    }

    /// Returns the connection; waits while it is being made again.
    pub async fn session(&self) -> Result<McpConnectionHandle, Fault> {
        let mut state = self.state.subscribe();
        let mut asked = false;
        loop {
            // Cloned, so that the lock is not held across the await.
            let now = state.borrow_and_update().clone();
            match now {
                McpConnectionState::Up(session) if session.traffic.patience.ended().is_none() => return Ok(session),
                McpConnectionState::GivenUp(error) if asked => return Err(error.fault()),
                McpConnectionState::GivenUp(_) => {
                    asked = true;
                    self.wanted.notify_one();
                }
                McpConnectionState::Closed => {
                    let message = format!("the connection to the MCP server `{}` is closed", self.config.name);
                    return Err(Fault::Unavailable { message, after: None });
                }
                McpConnectionState::Up(_) | McpConnectionState::Down => {}
            }
            // Cannot fail: `self` owns the sender.
            let _ = state.changed().await;
        }
    }
}

/// Connects and lists the tools: a connection without a list is of no use.
async fn reach(
    config: &ServerConfig,
    broker: &Arc<ServerRequestBroker>,
) -> Result<(McpConnection, McpToolListing), McpError> {
    let link = McpConnection::open(config, broker).await?;
    let listed = tokio::select! {
        biased;
        listed = list(&config.name, link.peer()) => listed,
        ended = link.traffic.patience.until_lost() => return Err(link.finish(ended).await),
    };
    match listed {
        Ok(listing) => Ok((link, listing)),
        Err(why) => {
            let McpError::Connect { server, stderr, .. } = link.finish(DisconnectReason::Closed).await else {
                return Err(McpError::List { server: Arc::clone(&config.name), why, stderr: Vec::new() });
            };
            Err(McpError::List { server, why, stderr })
        }
    }
}

/// Keeps a server connected until the client is closed.
async fn keep(shared: Arc<McpClientInner>, mut link: McpConnection, mut cancelled: mpsc::Receiver<RequestId>) {
    let mut failures = 0;
    loop {
        let since = Instant::now();
        let ended = tokio::select! {
            ended = link.traffic.patience.until_lost() => ended,
            () = attend(&shared, &link, cancelled) => DisconnectReason::Closed,
            () = shared.closing.cancelled() => {
                shared.state.send_replace(McpConnectionState::Closed);
                return link.close().await;
            }
        };
        shared.state.send_replace(McpConnectionState::Down);
        let error = link.finish(ended).await;
        tracing::warn!("{error}");
        if since.elapsed() >= limits::MCP_STEADY_TIME {
            failures = 0;
        }
        tokio::select! {
            again = reach_again(&shared, error, &mut failures) => (link, cancelled) = again,
            () = shared.closing.cancelled() => {
                shared.state.send_replace(McpConnectionState::Closed);
                return;
            }
        }
    }
}

/// Reconnects until it succeeds, with pauses that double. After too many failures in a row, or one that is not transient,
/// it waits until a call needs the server.
async fn reach_again(
    shared: &McpClientInner,
    mut error: McpError,
    failures: &mut u32,
) -> (McpConnection, mpsc::Receiver<RequestId>) {
    loop {
        *failures += 1;
        if *failures > limits::MCP_RECONNECTS || !error.is_transient() {
            shared.state.send_replace(McpConnectionState::GivenUp(error));
            shared.wanted.notified().await;
            shared.state.send_replace(McpConnectionState::Down);
            *failures = limits::MCP_RECONNECTS;
        } else {
            sleep(pause(*failures)).await;
        }
        match reach(&shared.config, &shared.broker).await {
            Ok((link, listing)) => {
                offer_anew(shared, listing);
                let (session, cancelled) = McpConnectionHandle::on(&link);
                shared.state.send_replace(McpConnectionState::Up(session));
                return (link, cancelled);
            }
            Err(failed) => {
                tracing::warn!("{failed}");
                error = failed;
            }
        }
    }
}

fn pause(failures: u32) -> Duration {
    let doubled = limits::FIRST_RETRY_PAUSE.saturating_mul(1 << (failures - 1).min(16));
    doubled.min(limits::RETRY_PAUSE)
}

/// Runs the background work of a connection as long as it holds. Never returns.
async fn attend(shared: &McpClientInner, link: &McpConnection, cancelled: mpsc::Receiver<RequestId>) {
    let (peer, traffic) = (link.peer(), &link.traffic);
    let listening = async {
        if link.must_listen() {
            listen(peer).await;
        }
    };
    join4(follow_tools(shared, peer, traffic), tell_cancelled(peer, cancelled), tell_roots(link, peer), listening)
        .await;
    std::future::pending().await
}

/// Lists the tools again after each change notification of the server.
async fn follow_tools(shared: &McpClientInner, peer: &Peer<RoleClient>, traffic: &ConnectionTraffic) {
    loop {
        traffic.tools_changed.notified().await;
        sleep(limits::MCP_RELIST_PAUSE).await;
        match list(&shared.config.name, peer).await {
            Ok(listing) => offer_anew(shared, listing),
            Err(why) => {
                let server = Arc::clone(&shared.config.name);
                tracing::warn!("{}", McpError::List { server, why, stderr: Vec::new() });
            }
        }
    }
}

fn offer_anew(shared: &McpClientInner, listing: McpToolListing) {
    let is_new = |old: &McpToolListing| Pins::of(old) != Pins::of(&listing) || old.refused != listing.refused;
    if is_new(&shared.listing.borrow()) {
        shared.listing.send_replace(Arc::new(listing));
    }
}

/// Notifies the server of cancelled requests: no caller awaits their answers.
async fn tell_cancelled(peer: &Peer<RoleClient>, mut cancelled: mpsc::Receiver<RequestId>) {
    while let Some(id) = cancelled.recv().await {
        let params = CancelledNotificationParam::new(Some(id), Some("the result is no longer needed".into()));
        let sending =
            peer.send_notification(ClientNotification::CancelledNotification(CancelledNotification::new(params)));
        // If it cannot be sent, the connection is about to be given up.
        let _ = timeout(limits::MCP_WRITE_TIME, sending).await;
    }
}

/// Notifies the server when its roots change.
async fn tell_roots(link: &McpConnection, peer: &Peer<RoleClient>) {
    let Some(mut roots) = link.roots.clone() else { return };
    while roots.changed().await.is_ok() {
        let changed = ClientNotification::RootsListChangedNotification(RootsListChangedNotification::default());
        let _ = timeout(limits::MCP_WRITE_TIME, peer.send_notification(changed)).await;
    }
}

/// Subscribes to tool list changes, for servers that send them only to subscribers. The events are dropped here: the
/// filtered transport has already seen them.
async fn listen(peer: &Peer<RoleClient>) {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    loop {
        if let Ok(mut subscription) = peer.listen(filter.clone()).await {
            while let Ok(Some(_)) = subscription.next().await {}
        }
        // Waits, whatever ended the subscription.
        sleep(limits::RETRY_PAUSE).await;
    }
}
