//! Serves runs of agents over HTTP.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use clap::Args;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    ask::{self, ApprovalModeArg},
    file_limit, http_access, launch,
    render::{self, DIM, PLAIN, RunOutputFormat, path_name, tell, tell_prose, warn},
    runner_args::{self, RunnerArgs},
    secrets, signals, trust,
};
use crate::{
    a2a::CARD_PATH,
    app::App,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    capability::{Budget, HttpGrant, Usd},
    config::Config,
    error::{ErrorKind, Report},
    event::{Event, EventSink},
    limits,
    mcp::serve::{McpServer, PATH},
    net::{
        Secret,
        http_server::{AccessPolicy, BearerToken, HttpServer, ServerTls},
        is_loopback,
    },
    plugin::PluginCatalog,
    serve::{
        AppReloader, AppServer, ServeOptions,
        a2a::{A2aOptions, A2aService},
        hosted_runs::{RunHost, RunHostOptions},
        http_api::HttpApi,
        triggers::TriggerHost,
    },
};

/// Serve agents over HTTP: an API for programs, and a page for a browser.
///
/// A client starts runs, follows their events, answers the questions of agents, and reads sessions. Runs are prepared,
/// asked about and recorded as those of `shelly-host run`; the files of the project need your consent when the server is
/// started. A request must show the token that is printed at the start. The server ends on a signal: runs at work are
/// interrupted, and their sessions can be resumed.
#[derive(Args, Clone)]
#[command(after_help = "\
Examples:
  shelly-host serve
  shelly-host serve --listen :0 --token-file .shelly/local/token
  shelly-host serve --config shelly.yaml --max-runs 4 --max-cost 0.50
  shelly-host serve --mcp --allow-origin https://app.example.com
  shelly-host serve --triggers --approve granted
  shelly-host serve --a2a --a2a-url https://agents.example.com
  shelly-host serve --listen 0.0.0.0:8322 --tls-cert cert.pem --tls-key key.pem --allow-host agents.example.com

Open the printed address in a browser, or:
  curl -H \"authorization: Bearer $TOKEN\" -H \"content-type: application/json\" \\
    -d '{\"task\": \"How many words are in README.md?\"}' http://127.0.0.1:8322/api/v1/runs

Standard output is not used. GET /openapi.json describes the API.")]
pub struct ServeArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// The agent or team of requests that name none (default: the one of the session, or the entry agent of the config).
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model of requests that name none (default: the model of each agent).
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Answers requests for consent and questions of agents in this way, without asking. Without this option they wait
    /// for an answer over HTTP.
    #[arg(long, value_name = "WHEN", value_enum)]
    approve: Option<ApprovalModeArg>,
    /// Trust the project's config and permissions for this server without asking; see shelly-host config trust. Also
    /// resume sessions that were not made here by you, and accept the current tools of MCP servers.
    #[arg(long)]
    trust: bool,
    /// The maximum cost of one run in US dollars, including all of its sub-runs. A request can set a smaller one.
    #[arg(long, value_name = "USD", value_parser = runner_args::cost)]
    max_cost: Option<Usd>,
    /// Do not record runs in sessions.
    #[arg(long)]
    no_session: bool,
    /// The address: 127.0.0.1:8322, or :8322 for short; port 0 picks a free port.
    #[arg(long, value_name = "ADDR", value_parser = http_access::address::<8_322>, default_value = "127.0.0.1:8322")]
    listen: SocketAddr,
    /// Encrypt connections with TLS. The file has the certificate of the server in PEM, then those that sign it. Once a
    /// minute both files are read again if they have changed.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate in PEM, without a passphrase.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen at an address that other machines can reach, although the connection is not encrypted: whoever sees it sees
    /// the token and the runs. Better use --tls-cert, or let a proxy with TLS forward to this machine.
    #[arg(long)]
    insecure_http: bool,
    /// Take the token from this file. If there is no such file, it is made with a new token, for you alone. Without this
    /// option a token is made at the start and stored nowhere.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["token_env", "no_token"])]
    token_file: Option<PathBuf>,
    /// The environment variable that holds the token.
    #[arg(long, value_name = "NAME", conflicts_with = "no_token")]
    token_env: Option<String>,
    /// Require no token: every program of every user on this machine can start runs. Only on a loopback address.
    #[arg(long)]
    no_token: bool,
    /// A host name under which clients may reach this server, in addition to localhost; repeatable.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// The origin of web pages that may send requests, such as https://app.example.com, in addition to localhost;
    /// repeatable.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// The maximum number of runs at work at once; a further one is refused until one has ended.
    #[arg(long, value_name = "N", value_parser = run_count, default_value_t = limits::SERVE_RUNS)]
    max_runs: usize,
    /// The time that a question waits for an answer before it is declined, such as 10m (default: 1h).
    #[arg(long, value_name = "TIME", value_parser = question_time)]
    question_time: Option<Duration>,
    /// Also serve MCP clients, at the path /mcp.
    #[arg(long)]
    mcp: bool,
    /// Also start runs by the triggers of the config: at times, for webhooks, and when files change. Without this option
    /// they do nothing.
    #[arg(long)]
    triggers: bool,
    /// Also serve agents of other hosts, over A2A. The names and descriptions of the agents are then public.
    #[arg(long)]
    a2a: bool,
    /// The URL under which agents of other hosts reach this server, for agent cards (default: http, or https with
    /// --tls-cert, and the host that they name).
    #[arg(long, value_name = "URL", requires = "a2a", value_parser = public_url)]
    a2a_url: Option<String>,
    /// An address to which agents of other hosts may have the updates of their tasks sent, with everything below it: https,
    /// or http on this machine; repeatable. Without this option none are sent.
    #[arg(long, value_name = "URL", requires = "a2a", value_parser = push_address)]
    a2a_push: Vec<HttpGrant>,
}

/// Parses the number of runs at work at once.
fn run_count(text: &str) -> Result<usize, String> {
    let most = limits::SERVE_RUNS_CEILING;
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("the number of runs must be 1 to {most}"))
}

/// Parses the URL of a server. Paths are appended to it.
fn public_url(text: &str) -> Result<String, String> {
    let url = url::Url::parse(text).map_err(|error| format!("{error}; write it as https://agents.example.com"))?;
    let is_bare = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    match matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare && url.password().is_none() {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("write the URL as https://agents.example.com, without user, query and fragment".into()),
    }
}

/// Parses an address of push notifications.
fn push_address(text: &str) -> Result<HttpGrant, String> {
    let url = url::Url::parse(text).map_err(|error| format!("{error}; write it as https://hooks.example.com"))?;
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    if !is_safe || text.contains('*') {
        return Err("write the URL as https://hooks.example.com, or as http:// and an address of this machine".into());
    }
    HttpGrant::entry(text, &["POST".to_owned()], &[])
}

/// Parses the time that a question waits.
fn question_time(text: &str) -> Result<Duration, String> {
    let time =
        humantime::parse_duration(text).map_err(|error| format!("{error}; write a time such as 90s, 10m or 1h"))?;
    match time.is_zero() || time > limits::QUESTION_TIME {
        true => {
            Err(format!("the time must be more than 0 and at most {} hours", limits::QUESTION_TIME.as_secs() / 3_600))
        }
        false => Ok(time),
    }
}

/// The token of a server, as far as it may be shown.
enum ServedToken {
    /// None is required.
    NotRequired,
    /// One that was made for this server, and is printed.
    Made(String),
    /// One that the person has.
    Known(String),
}

impl ServeArgs {
    pub fn execute(self) -> u8 {
        let failed = |report: &Report| render::failed(report, RunOutputFormat::Text);
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return failed(&Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error)),
        };
        let ended = runtime.block_on(self.run());
        // A guest in a computation yields within a tick; nothing else is waited for.
        runtime.shutdown_background();
        ended.unwrap_or_else(|report| failed(&report))
    }

    async fn run(self) -> Result<u8, Report> {
        // One listener covers the whole command: a signal between two of them would be lost.
        let interrupt = signals::ended();
        tokio::pin!(interrupt);
        let (policy, token, secret) = self.access()?;
        let tls = self.tls()?;
        // A wrong address is reported before anything else is done.
        let (listener, address) = http_access::listen(self.listen, &policy, "--listen").await?;
        let runner = self.runner();
        let config = runner.read_config()?;
        let policy_of_questions = self.approve.map_or(HeadlessPolicy::Never, HeadlessPolicy::from);
        let broker = ApprovalBroker::new(policy_of_questions, TrustedSubjects::default());
        let inbox = if self.approve.is_none() { broker.attend() } else { None };
        // Otherwise a misspelt name would be told to clients alone.
        if let Some(agent) = &self.agent {
            config.check_runner(agent)?;
        }
        let app = runner.app(config.clone(), broker.clone())?;
        let standing = app.standing(&trust::store(), runner.config.is_some())?;
        let trusted = tokio::select! {
            biased;
            code = &mut interrupt => return Ok(code),
            trusted = trust::admitted(&standing, self.trust, ask::is_attended()) => trusted?,
        };
        broker.trust(trusted);
        secrets::hide(app.secrets());
        // After that: the address with the token is printed. No run is to show it.
        if let Some(secret) = secret {
            app.note_secret("serve.token", secret);
        }
        // A misspelt model, too, would be told to clients alone.
        if let Some(model) = &self.model {
            tokio::select! {
                biased;
                code = &mut interrupt => return Ok(code),
                known = app.check_model(model) => known?,
            }
        }
        if !self.no_session && config.sessions.is_recording() {
            launch::remember_session(&config.root, runner.config.as_deref());
        }

        let stop = CancellationToken::new();
        let host = RunHost::new(app.clone(), inbox, self.options(&runner, &config));
        let mcp = match self.mcp {
            false => None,
            true => Some(tokio::select! {
                biased;
                code = &mut interrupt => return Ok(code),
                mcp = self.mcp_server(&app, &runner, (&config, &broker), &stop) => mcp?,
            }),
        };
        let triggers = self.trigger_host(&host, &config)?;
        let endpoint = mcp.as_ref().map(|mcp| McpServer::new(mcp.served()).http_service(&stop));
        let api = HttpApi::new(host.clone(), endpoint, stop.clone()).with_triggers(triggers.clone());
        let push = self.a2a_push.iter().fold(HttpGrant::default(), |all, one| all.join(one));
        let a2a = A2aOptions { url: self.a2a_url.clone(), requires_token: !self.no_token, push };
        let api = match self.a2a {
            true => api.with_a2a(A2aService::new(host.clone(), a2a, stop.clone())),
            false => api,
        };
        let api = Arc::new(api);
        let server =
            HttpServer::new(policy, Arc::clone(&api) as _).with_connections(self.make_room()).with_tls(tls.clone());
        let _renewing = tls.map(|tls| AbortOnDropHandle::new(tokio::spawn(async move { renew(&tls).await })));
        api.count_connections(server.connection_count());
        let mut serve = Box::pin(server.serve(listener, stop.clone(), limits::SERVE_STOP_GRACE));
        triggers.iter().for_each(TriggerHost::start);
        self.tell_address(address, &token);
        if !self.triggers && !config.triggers.is_empty() {
            tell("the triggers of the config do nothing; --triggers lets them start runs\n");
        }
        let code = tokio::select! {
            biased;
            code = &mut interrupt => code,
            served = &mut serve => {
                let why = served.err().unwrap_or_default();
                return Err(Report::new(ErrorKind::Usage, "cannot serve over HTTP").cause(why));
            }
        };
        triggers.iter().for_each(TriggerHost::stop);
        // Clients read the end of their runs before the connections end.
        tokio::select! {
            () = host.shut_down() => {}
            _ = &mut serve => {}
        }
        stop.cancel();
        let _ = timeout(limits::SERVE_STOP_GRACE, &mut serve).await;
        if let Some(mcp) = &mcp {
            let _ = timeout(limits::CANCEL_GRACE, mcp.settled()).await;
        }
        let _ = timeout(limits::CANCEL_GRACE, async { tokio::join!(app.settled(), app.close_servers()) }).await;
        if let Some(warning) = host.app().telemetry_flush().finish().await {
            warn(&warning);
        }
        tell("stopped\n");
        Ok(code)
    }

    /// Makes room for the open files of runs and clients. Returns the number of connections for which there is room.
    fn make_room(&self) -> usize {
        // Each run that is remembered may have a file of events.
        let remembered = limits::SERVE_RUNS_ENDED.max(self.max_runs);
        let beside =
            limits::TASK_FILES * self.max_runs as u64 + (self.max_runs + remembered) as u64 + limits::TASK_FILES_BESIDE;
        let allowed = file_limit::raise_to(beside + limits::SERVE_RUN_CONNECTIONS as u64);
        let room = usize::try_from(allowed.saturating_sub(beside)).unwrap_or(usize::MAX);
        let connections = room.clamp(limits::SERVE_CONNECTIONS, limits::SERVE_RUN_CONNECTIONS);
        if connections < limits::SERVE_RUN_CONNECTIONS {
            warn(&format!(
                "the system allows this process {allowed} open files: at most {connections} clients are connected at once; raise \
                 the limit with `ulimit -n`"
            ));
        }
        connections
    }

    /// Makes the triggers of the config ready, if they are wanted.
    fn trigger_host(&self, host: &RunHost, config: &Config) -> Result<Option<TriggerHost>, Report> {
        match (self.triggers, config.triggers.is_empty()) {
            (false, _) => Ok(None),
            (true, true) => Err(Report::new(ErrorKind::Usage, "the config has no triggers")
                .hint("add one under `triggers`, or leave out --triggers")),
            (true, false) => TriggerHost::new(host.clone(), Arc::new(SystemTime::now), warn).map(Some),
        }
    }

    fn runner(&self) -> RunnerArgs {
        RunnerArgs {
            config: self.config.clone(),
            plugins: self.plugins.clone(),
            agent: self.agent.clone(),
            model: self.model.clone(),
            approve: self.approve,
            trust: self.trust,
            max_cost: self.max_cost,
            verbose: false,
        }
    }

    fn options(&self, runner: &RunnerArgs, config: &Config) -> RunHostOptions {
        RunHostOptions {
            agent: self.agent.clone(),
            model: self.model.clone(),
            record: !self.no_session,
            launch: runner.named().to_options(&config.root),
            budget: Budget { usd: self.max_cost, ..Budget::default() },
            is_trusted: self.trust,
            max_runs: self.max_runs,
            question_time: self.question_time.unwrap_or(limits::SERVE_QUESTION_TIME),
        }
    }

    /// Starts the server for MCP clients. Questions of its calls wait among those of the runs.
    async fn mcp_server(
        &self,
        app: &App,
        runner: &RunnerArgs,
        (config, broker): (&Config, &ApprovalBroker),
        stop: &CancellationToken,
    ) -> Result<AppServer, Report> {
        let (runner, config, broker) = (runner.clone(), config.clone(), broker.clone());
        let reload: AppReloader = Arc::new(move || {
            let mut runner = runner.clone();
            // A directory whose plugins were all removed is not an error here.
            runner.plugins.retain(|folder| PluginCatalog::has_plugin_in(folder));
            let app = runner.app(config.clone(), broker.clone())?;
            trust::check(&app.standing(&trust::store(), runner.config.is_some())?, runner.trust)?;
            Ok(app)
        });
        let events = EventSink::new();
        events.tap(Arc::new(|event| {
            if let Event::Warning { message } = &event.event {
                warn(message);
            }
        }));
        let (agent, model) = (self.agent.clone(), self.model.clone());
        let options = ServeOptions { agent, model, record: !self.no_session, events, ends: stop.clone() };
        let server = AppServer::start(app.clone(), reload, None, options).await?;
        server.notes.iter().for_each(|note| tell_prose(&format!("{DIM}{}{PLAIN}\n", render::name(note))));
        server.warnings.iter().for_each(|warning| warn(warning));
        Ok(server)
    }

    /// Reads the certificate and its key, if there are any.
    fn tls(&self) -> Result<Option<ServerTls>, Report> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let tls = ServerTls::read(certificate, key);
        tls.map(Some).map_err(|error| {
            Report::new(ErrorKind::Usage, "cannot serve over TLS").cause(error.to_string()).hint(error.mend())
        })
    }

    /// Returns the rules for access, and the token as it is shown.
    fn access(&self) -> Result<(AccessPolicy, ServedToken, Option<Secret>), Report> {
        if !http_access::is_loopback(self.listen) && self.tls_cert.is_none() && !self.insecure_http {
            let port = self.listen.port();
            return Err(Report::new(ErrorKind::Usage, format!("other machines can reach {}", self.listen))
                .cause("the connection is not encrypted: whoever sees it sees the token and the runs")
                .hint(format!(
                    "encrypt it with --tls-cert and --tls-key, listen on this machine alone with --listen :{port} and let a \
                     proxy with TLS forward to it, or accept the risk with --insecure-http"
                )));
        }
        let (token, secret, shown) = match (&self.token_file, &self.token_env) {
            (Some(path), _) => {
                let shown = format!("the token is in {}", path_name(path));
                let (token, secret) = http_access::token_of_file(path)?;
                (Some(token), Some(secret), ServedToken::Known(shown))
            }
            (None, Some(variable)) => {
                let shown = format!("the token is that of the environment variable {}", variable.escape_debug());
                let (token, secret) = http_access::token_of_variable(variable)?;
                (Some(token), Some(secret), ServedToken::Known(shown))
            }
            (None, None) if self.no_token => (None, None, ServedToken::NotRequired),
            (None, None) => {
                let made = http_access::made_token()?;
                let token = BearerToken::new(&made);
                let token = token.map_err(|why| Report::new(ErrorKind::Bug, "the token cannot be used").cause(why))?;
                (Some(token), Some(Secret::new(&made)), ServedToken::Made(made))
            }
        };
        let policy = AccessPolicy { token, hosts: self.allow_host.clone(), origins: self.allow_origin.clone() };
        Ok((policy, shown, secret))
    }

    fn tell_address(&self, address: SocketAddr, token: &ServedToken) {
        let base = format!("{}://{address}", if self.tls_cert.is_some() { "https" } else { "http" });
        match token {
            ServedToken::NotRequired => {
                tell(&format!("serving at {base}/\n"));
                warn("no token is required: every program on this machine can start runs");
            }
            // A browser sends no fragment to the server, so the token is in no log.
            ServedToken::Made(token) => tell(&format!("serving at {base}/#token={token}\n")),
            ServedToken::Known(shown) => tell(&format!("serving at {base}/ ({shown})\n")),
        }
        if self.mcp {
            tell(&format!("serving MCP clients at {base}{PATH}\n"));
        }
        if self.a2a {
            tell(&format!("serving agents of other hosts; the agent card is at {base}{CARD_PATH}\n"));
        }
    }
}

/// Takes over certificates that are renewed while the server runs.
async fn renew(tls: &ServerTls) {
    tls.reload_changed(|error| {
        warn(&format!("the certificate is not renewed, and the last one stays: {error}; {}", error.mend()));
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_the_options_are_checked() {
        for (text, count) in [("1", Some(1)), ("1024", Some(1_024)), ("1025", None), ("0", None), ("x", None)] {
            assert_eq!(run_count(text).ok(), count, "{text}");
        }
        for (text, time) in [("90s", Some(90)), ("12h", Some(12 * 3_600)), ("0s", None), ("13h", None), ("soon", None)]
        {
            assert_eq!(question_time(text).ok().map(|time| time.as_secs()), time, "{text}");
        }
        for (text, url) in [
            ("https://agents.example.com/", Some("https://agents.example.com")),
            ("http://localhost:8080/shelly", Some("http://localhost:8080/shelly")),
            ("ftp://agents.example.com", None),
            ("agents.example.com", None),
            ("https://user@agents.example.com", None),
            ("https://agents.example.com?a=b", None),
        ] {
            assert_eq!(public_url(text).ok().as_deref(), url, "{text}");
        }
    }
}
