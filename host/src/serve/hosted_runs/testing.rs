//! A host for tests, whose model never answers.

use std::sync::Arc;

use tempfile::TempDir;
use tokio::net::TcpListener;

use super::{RunHost, RunHostOptions, RunRequest};
use crate::{
    app::App,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    config::Config,
    task::TaskInput,
};

/// A host with one agent, and the server of its model, which accepts connections and is silent.
pub(crate) struct SilentHost {
    pub host: RunHost,
    _folder: TempDir,
    _model: TcpListener,
}

impl SilentHost {
    pub async fn new(max_runs: usize) -> Self {
        Self::with_keys(max_runs, "").await
    }

    /// Creates the host with further keys in its config. The environment variable `HOOK_SECRET` is set.
    pub async fn with_keys(max_runs: usize, keys: &str) -> Self {
        let (folder, model) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let url = format!("http://{}/v1", model.local_addr().unwrap());
        let config = format!(
            "providers: [{{name: local, kind: openai, base_url: \"{url}\", model: m, context_window: 8192}}]\n\
             agents: [{{name: ada}}]\n{keys}"
        );
        let config = Config::parse(&config, folder.path().to_owned()).unwrap();
        let variable = |name: &str| (name == "HOOK_SECRET").then(|| "It's a Secret to Everybody".to_owned());
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let inbox = broker.attend();
        let app = App::new(config, &[], None, Arc::new(variable), broker).unwrap();
        let options = RunHostOptions { record: false, max_runs, ..RunHostOptions::default() };
        Self { host: RunHost::new(app, inbox, options), _folder: folder, _model: model }
    }
}

/// Returns a request with this task.
pub(crate) fn request(task: &str) -> RunRequest {
    let input = TaskInput { text: task.into(), attachments: Vec::new(), schema: None };
    RunRequest { input: Some(input), ..RunRequest::default() }
}
