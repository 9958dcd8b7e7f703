//! Credentials: where each comes from, never its value.

use super::{section::SectionDescription, wording::shown_command};
use crate::{
    config::{
        Config, CredentialConfig,
        effective_setting::{is, map},
    },
    files,
    openapi::CredentialPlace,
    trust::{RiskLevel, quoted, quoted_path},
};

pub(super) fn credential_section(credential: &CredentialConfig, config: &Config) -> SectionDescription {
    let CredentialConfig { name, env, file, command, audience, auth } = credential;
    let mut section = SectionDescription::default();
    section.show("name", is(name));
    let (risk, is_what) = match (env, file) {
        (Some(variable), _) => {
            section.show("env", is(variable));
            (RiskLevel::Sends, format!("is the environment variable {}", quoted(variable)))
        }
        (None, Some(file)) => {
            let path = config.root.join(file);
            section.show("file", is(&path));
            (RiskLevel::Sends, format!("is the content of the file {}", quoted_path(&files::resolved(&path))))
        }
        (None, None) => {
            section.show("command", is(command));
            (RiskLevel::Runs, format!("is the output of the program {}", shown_command(command)))
        }
    };
    section.show("for", is(audience));
    for rule in credential.audience().rules() {
        let line = format!("the credential {} {is_what}, sent to {}", quoted(name), quoted(&rule.url()));
        section.disclose(risk, line);
    }
    // A part of requests to the servers that are disclosed.
    let of_auth = |value: &str| is(value).noted_if(auth.is_none(), "default");
    let auth = match credential.place() {
        CredentialPlace::Header { name, scheme } => map([("header", of_auth(&name)), ("scheme", of_auth(&scheme))]),
        CredentialPlace::Query(parameter) => map([("query", is(&parameter))]),
    };
    section.show("auth", auth);
    section
}
