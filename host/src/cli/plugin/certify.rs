//! `shelly-host plugin certify`.

use std::path::PathBuf;

use crate::{
    app::App,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    cli::{
        ask,
        command_runtime::runtime,
        config_path::{read_config, with_default_toolboxes},
        host_environment::{compiling, environment, plugin_dirs},
        render::{json_line, name, print},
        trust,
    },
    error::{ErrorKind, Report},
};

pub(super) fn certify(
    id: &str,
    (agent, model): (Option<&str>, Option<&str>),
    config: Option<&PathBuf>,
    plugins: &[PathBuf],
    is_trusted: bool,
) -> Result<u8, Report> {
    let is_named = config.is_some();
    let (config, broker) =
        (read_config(config)?, ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default()));
    // Without agents in a config it is the default agent that has the plugin, as in a run.
    let (config, _) = with_default_toolboxes(config, plugins);
    let app = App::new(config, plugin_dirs(plugins), compiling(), environment(), broker)?;
    let standing = app.standing(&trust::store(), is_named)?;
    let certificate = runtime()?.block_on(async {
        // Certifying runs code of the plugin.
        trust::admitted(&standing, is_trusted, ask::is_attended()).await?;
        match model {
            Some(model) => app.certify_model(model).await,
            None => app.certify(agent, id).await,
        }
    })?;
    if certificate.plugin != id {
        return Err(Report::new(
            ErrorKind::Usage,
            format!("the model is the plugin `{}`, not `{}`", certificate.plugin, name(id)),
        )
        .hint(format!("write `plugin certify {}`", certificate.plugin)));
    }
    print(&json_line(&certificate))?;
    Ok(if certificate.runs { 0 } else { ErrorKind::Plugin.exit_code() })
}
