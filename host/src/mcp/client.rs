//! A server as its clients see it: always there, though its connection comes and goes.

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
    McpClientFeatures, McpError, McpToolListing, McpToolOffer, Pins, ServerConfig, connection::McpConnection,
    connection_monitor::DisconnectReason, filtered_transport::ConnectionTraffic, listing::list,
    request_broker::ServerRequestBroker,
};
use crate::{error::Fault, limits};

/// One server, shared by all who may use it. Its connection is made anew when it breaks; when this is dropped it ends, and
/// with it the program, if it is one of ours.
///
/// ```no_run
/// use std::{env, sync::Arc};
/// use shelly_host::{
///     agent::Agent,
///     mcp::{Asking, McpClient, Pins, Program, ServerConfig, Target},
///     model::ScriptedCompleter,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let words = ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"].map(str::to_owned);
/// let environment = [("PATH".to_owned(), env::var("PATH")?)];
/// let program = Program::new("npx", words.into(), environment, "/tmp".into());
/// let client = McpClient::connect(ServerConfig::new("files", Target::Program(program)), Asking::default()).await?;
/// let mut agent = Agent::new("file-agent", "Manage files.", Arc::new(ScriptedCompleter::new([])));
/// // What its tools say of themselves now is what they may say from now on.
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

/// What calls and the connection's keeper have in common.
#[derive(Debug)]
pub(super) struct McpClientInner {
    pub config: ServerConfig,
    pub desk: Arc<ServerRequestBroker>,
    pub listing: watch::Sender<Arc<McpToolListing>>,
    pub places: Semaphore,
    state: watch::Sender<McpConnectionState>,
    /// Told when somebody wants a server that was given up.
    wanted: Notify,
    closing: CancellationToken,
}

#[derive(Debug, Clone)]
enum McpConnectionState {
    Up(McpConnectionHandle),
    /// It is being reached again.
    Down,
    /// It is not reached again before somebody wants it.
    GivenUp(McpError),
    Closed,
}

/// What a call needs of a connection.
#[derive(Debug, Clone)]
pub(super) struct McpConnectionHandle {
    pub peer: Peer<RoleClient>,
    pub traffic: Arc<ConnectionTraffic>,
    /// Takes requests whose answer nobody waits for any more.
    pub cancelled: mpsc::Sender<RequestId>,
}

impl McpClient {
    /// Reaches a server for the first time, and asks for its tools.
    ///
    /// # Errors
    ///
    /// [`McpError`]: what it says of itself cannot be, it does not start, is not reached, or does not list its tools.
    pub async fn connect(config: ServerConfig, asking: McpClientFeatures) -> Result<Arc<Self>, McpError> {
        config.check()?;
        let desk = Arc::new(ServerRequestBroker::new(Arc::clone(&config.name), asking));
        let (link, listing) = reach(&config, &desk).await?;
        let shared = Arc::new(McpClientInner {
            config,
            desk,
            listing: watch::Sender::new(Arc::new(listing)),
            places: Semaphore::new(limits::MCP_CALLS),
            state: watch::Sender::new(McpConnectionState::Down),
            wanted: Notify::new(),
            closing: CancellationToken::new(),
        });
        let (session, cancelled) = McpConnectionHandle::on(&link);
        shared.state.send_replace(McpConnectionState::Up(session));
        let keeping = tokio::spawn(keep(Arc::clone(&shared), link, cancelled));
        Ok(Arc::new(Self { shared, task: Mutex::new(Some(AbortOnDropHandle::new(keeping))) }))
    }

    /// The server's name.
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// What it offers now.
    pub fn listing(&self) -> Arc<McpToolListing> {
        Arc::clone(&self.shared.listing.borrow())
    }

    /// Tells when what it offers has changed.
    pub fn changes(&self) -> watch::Receiver<Arc<McpToolListing>> {
        self.shared.listing.subscribe()
    }

    /// The tools that may be called as `pins` has them, and those that may not before somebody approves them.
    pub fn offer(self: &Arc<Self>, pins: &Pins) -> McpToolOffer {
        McpToolOffer::of(self, pins)
    }

    /// Ends the connection in good manners: the server may finish what it does, for some seconds.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A task that panicked has ended too.
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
    /// The connection, waited for if it is being made again.
    pub async fn session(&self) -> Result<McpConnectionHandle, Fault> {
        let mut state = self.state.subscribe();
        let mut asked = false;
        loop {
            // Cloned, so that nothing is held while we wait.
            let now = state.borrow_and_update().clone();
            match now {
                McpConnectionState::Up(session) if session.traffic.patience.ended().is_none() => return Ok(session),
                McpConnectionState::GivenUp(error) if asked => return Err(error.fault()),
                McpConnectionState::GivenUp(_) => {
                    asked = true;
                    self.wanted.notify_one();
                }
                McpConnectionState::Closed => {
                    let message = format!("the MCP server `{}` has been closed", self.config.name);
                    return Err(Fault::Unavailable { message, after: None });
                }
                McpConnectionState::Up(_) | McpConnectionState::Down => {}
            }
            // The sender is ours.
            let _ = state.changed().await;
        }
    }
}

/// Connects, and asks for the tools: a server without a list is of no use.
async fn reach(
    config: &ServerConfig,
    desk: &Arc<ServerRequestBroker>,
) -> Result<(McpConnection, McpToolListing), McpError> {
    let link = McpConnection::open(config, desk).await?;
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

/// Keeps a server connected until it is closed.
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

/// Tries until it succeeds, with pauses that double; after too many failures in a row only when somebody wants it.
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
        match reach(&shared.config, &shared.desk).await {
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

/// What goes on beside the calls as long as a connection holds.
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

/// Asks for the list again whenever it has changed.
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

/// Tells the server which answers nobody waits for any more.
async fn tell_cancelled(peer: &Peer<RoleClient>, mut cancelled: mpsc::Receiver<RequestId>) {
    while let Some(id) = cancelled.recv().await {
        let params = CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".into()));
        let told =
            peer.send_notification(ClientNotification::CancelledNotification(CancelledNotification::new(params)));
        // One that cannot be told is about to be given up.
        let _ = timeout(limits::MCP_WRITE_TIME, told).await;
    }
}

/// Tells the server when its folders have changed.
async fn tell_roots(link: &McpConnection, peer: &Peer<RoleClient>) {
    let Some(mut roots) = link.roots.clone() else { return };
    while roots.changed().await.is_ok() {
        let changed = ClientNotification::RootsListChangedNotification(RootsListChangedNotification::default());
        let _ = timeout(limits::MCP_WRITE_TIME, peer.send_notification(changed)).await;
    }
}

/// Listens for changes where they are told only to those who do. What is heard the gate has heard before.
async fn listen(peer: &Peer<RoleClient>) {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    loop {
        if let Ok(mut subscription) = peer.listen(filter.clone()).await {
            while let Ok(Some(_)) = subscription.next().await {}
        }
        // Whatever ended it: not at once again.
        sleep(limits::RETRY_PAUSE).await;
    }
}
