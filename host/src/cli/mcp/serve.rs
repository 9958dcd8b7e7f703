//! Serves tools and agents to MCP clients.

use std::{io::IsTerminal, net::SocketAddr, path::PathBuf, sync::Arc};

use clap::Args;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    cli::{
        ask::{self, ApprovalModeArg},
        config_path::read_config,
        host_environment::{compiling, environment, plugin_dirs},
        http_access, launch,
        live::RunDisplay,
        render::{self, DIM, PLAIN, ProgressLevel, RunOutputFormat, name, tell, tell_prose, warn},
        secrets, signals, trust,
    },
    config::Config,
    error::{ErrorKind, Report},
    event::EventSink,
    limits,
    mcp::serve::{McpServer, PATH},
    net::{Secret, http_server::AccessPolicy},
    plugin::PluginCatalog,
    serve::{AppReloader, AppServer, ServeOptions},
};

/// The options of serving MCP clients.
#[derive(Args, Clone)]
pub struct McpServeArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// The agent whose tools are served (default: the entry agent of the config). Without a config, all plugins that need no
    /// grant are served.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model of all agents that are called as tools (default: the model of each agent).
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Answers requests for consent and questions of agents in this way, without asking. Without this option the client asks its
    /// user, if the client supports elicitation; otherwise only what you have trusted before is allowed.
    #[arg(long, value_name = "WHEN", value_enum)]
    approve: Option<ApprovalModeArg>,
    /// Trust the project's config and permissions for this run without asking; see shelly-host config trust. Also accept the
    /// current tools of MCP servers.
    #[arg(long)]
    trust: bool,
    /// Do not record the runs of called agents in sessions.
    #[arg(long)]
    no_session: bool,
    /// Also show log entries of plugins and the resource use of each plugin call, on standard error.
    #[arg(long, short)]
    verbose: bool,
    /// Serve over HTTP at this address: 127.0.0.1:8321, or :8321 for short; port 0 picks a free port. The path is /mcp. An
    /// address that other machines can reach needs a token.
    #[arg(long, value_name = "ADDR", value_parser = http_access::address::<8_321>)]
    http: Option<SocketAddr>,
    /// The environment variable that holds the bearer token that clients must send.
    #[arg(long, value_name = "NAME", requires = "http")]
    token_env: Option<String>,
    /// The file that holds the bearer token. If there is no such file, it is made with a new token, for you alone.
    #[arg(long, value_name = "FILE", requires = "http", conflicts_with = "token_env")]
    token_file: Option<PathBuf>,
    /// A host name under which clients may reach this server, in addition to localhost; repeatable.
    #[arg(long, value_name = "NAME", requires = "http")]
    allow_host: Vec<String>,
    /// The origin of web pages that may send requests, such as https://app.example.com, in addition to localhost; repeatable.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
}

/// The line for a person who starts the server by hand.
const WAITING: &str = "waiting for an MCP client, which starts this command itself and speaks JSON to it; end it with \
                       Ctrl-C, or serve over HTTP with --http :8321\n";

impl McpServeArgs {
    pub fn execute(self) -> u8 {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let failed = |report: &Report| render::failed(report, RunOutputFormat::Text);
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return failed(&Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error)),
        };
        let ended = runtime.block_on(self.run());
        // A blocked read of standard input and a running guest are not waited for.
        runtime.shutdown_background();
        ended.unwrap_or_else(|report| failed(&report))
    }

    async fn run(self) -> Result<u8, Report> {
        // One listener covers the whole command: a signal between two of them would be lost.
        let interrupt = signals::ended();
        tokio::pin!(interrupt);
        let (policy, token) = self.access_policy()?;
        // A wrong address is reported before anything else is done.
        let listener = match self.http {
            Some(address) => Some(http_access::listen(address, &policy, "--http").await?),
            None => None,
        };
        let config = read_config(self.config.as_ref())?;
        let broker = ApprovalBroker::new(
            self.approve.map_or(HeadlessPolicy::Never, HeadlessPolicy::from),
            TrustedSubjects::default(),
        );
        let inbox = if self.approve.is_none() { broker.attend() } else { None };
        let app = self.app(&config, &broker, &self.plugins, token.as_ref())?;
        let standing = app.standing(&trust::store(), self.config.is_some())?;
        broker.trust(trust::admitted(&standing, self.trust, false).await?);

        let (events, stream) = EventSink::channel();
        let level = if self.verbose { ProgressLevel::Verbose } else { ProgressLevel::Normal };
        let shown = tokio::spawn(ask::show(RunDisplay::lines(RunOutputFormat::Text, level), stream, None));
        let stop = CancellationToken::new();
        let options = ServeOptions {
            agent: self.agent.clone(),
            model: self.model.clone(),
            record: !self.no_session,
            events: events.clone(),
            ends: stop.clone(),
        };
        let starting = AppServer::start(app, self.reloader(&config, &broker, token), inbox, options);
        let serving = tokio::select! {
            biased;
            code = &mut interrupt => {
                tell("cancelled\n");
                return Ok(code);
            }
            serving = starting => serving?,
        };
        secrets::hide(serving.secrets());
        if !self.no_session && config.sessions.is_recording() {
            launch::remember_session(&config.root, self.config.as_deref());
        }
        serving.notes.iter().for_each(|note| tell_prose(&format!("{DIM}{}{PLAIN}\n", name(note))));
        serving.warnings.iter().for_each(|warning| warn(warning));

        let server = McpServer::new(serving.served());
        let mut serve = Box::pin(async {
            match listener {
                Some((listener, address)) => {
                    tell(&format!("serving at http://{address}{PATH}\n"));
                    let served = server.http(listener, policy, stop.clone()).await;
                    served.map_err(|why| Report::new(ErrorKind::Usage, "cannot serve over HTTP").cause(why))
                }
                None => {
                    if std::io::stdin().is_terminal() {
                        tell_prose(WAITING);
                    }
                    server.pipes(tokio::io::stdin(), tokio::io::stdout(), stop.clone()).await;
                    Ok(())
                }
            }
        });
        let code = tokio::select! {
            biased;
            code = &mut interrupt => {
                stop.cancel();
                let _ = timeout(limits::CANCEL_GRACE, &mut serve).await;
                code
            }
            served = &mut serve => {
                served?;
                0
            }
        };
        let _ = timeout(limits::CANCEL_GRACE, serving.settled()).await;
        if let Some(warning) = serving.telemetry_flush().finish().await {
            warn(&warning);
        }
        // All events are shown, unless a client's call is still running.
        drop(serve);
        drop((serving, server, events, broker));
        let _ = timeout(limits::CANCEL_GRACE, shown).await;
        Ok(code)
    }

    fn app(
        &self,
        config: &Config,
        broker: &ApprovalBroker,
        plugins: &[PathBuf],
        token: Option<&Secret>,
    ) -> Result<App, Report> {
        let (mut dirs, compiling) = (plugin_dirs(plugins), compiling());
        // The flag counts even if all named directories are empty now.
        dirs.offers_standard = self.plugins.is_empty();
        let app = App::new(config.clone(), dirs, compiling, environment(), broker.clone())?;
        if let Some(token) = token {
            app.note_secret("mcp.token", token.clone());
        }
        Ok(app.with_own_key(trust::own_key()).with_approvals(trust::store(), self.trust).with_logins(trust::logins()))
    }

    /// Returns a function that rebuilds the app, and checks that the person has consented to what is new in it.
    fn reloader(&self, config: &Config, broker: &ApprovalBroker, token: Option<Secret>) -> AppReloader {
        let (this, config, broker) = (self.clone(), config.clone(), broker.clone());
        Arc::new(move || {
            // A directory whose plugins were all removed is not an error here.
            let plugins: Vec<_> =
                this.plugins.iter().filter(|folder| PluginCatalog::has_plugin_in(folder)).cloned().collect();
            let app = this.app(&config, &broker, &plugins, token.as_ref())?;
            trust::check(&app.standing(&trust::store(), this.config.is_some())?, this.trust)?;
            Ok(app)
        })
    }

    fn access_policy(&self) -> Result<(AccessPolicy, Option<Secret>), Report> {
        let token = match (&self.token_file, &self.token_env) {
            (Some(path), _) => Some(http_access::token_of_file(path)?),
            (None, Some(variable)) => Some(http_access::token_of_variable(variable)?),
            (None, None) => None,
        };
        let (token, secret) = token.unzip();
        Ok((AccessPolicy { token, hosts: self.allow_host.clone(), origins: self.allow_origin.clone() }, secret))
    }
}
