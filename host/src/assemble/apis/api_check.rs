//! Checks of the APIs of agents, as far as possible without sending a request.

use super::api_documents::unusable;
use crate::{
    assemble::{App, credentials::unencrypted},
    config::{AgentConfig, CredentialConfig, OpenApiUse, unknown},
    error::{ErrorKind, Report},
    limits,
};

impl App {
    /// Checks how an agent uses an API whose document is a file: operations that cannot be tools, and a credential that does
    /// not fit, cause warnings.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the document cannot be used, a name selects nothing, or the operations are too many.
    pub(crate) fn check_api_use(
        &self,
        agent: &AgentConfig,
        uses: &OpenApiUse,
        warnings: &mut Vec<String>,
    ) -> Result<(), Report> {
        let name = &uses.name;
        let place = format!("{}.openapi.{name}", agent.place());
        let api = self.config.api(name)?;
        let held = self.config.credential_of(api);
        if let Some(held) = held {
            warnings.extend(unencrypted(held));
            warnings.extend(self.unset_credential(held, &format!("openapi.{name}")));
        }
        let listing = match api.listing.get() {
            // The document at a URL is read when the agent runs.
            None => return Ok(()),
            Some(Ok(listing)) => listing,
            Some(Err(why)) => return Err(unusable(name, why)),
        };
        let selected = uses.selected(listing).map_err(|why| {
            Report::new(ErrorKind::Usage, format!("{place}: {why}"))
                .hint("name those that the agent needs: `operations: [listPets, \"GET /pets/*\"]`")
        })?;
        if let Some(wrong) = selected.unknown.first() {
            if let Some(left_out) = listing.left_out.iter().find(|one| one.name == *wrong) {
                let message = format!("{place}: the operation `{wrong}` cannot be a tool");
                return Err(Report::new(ErrorKind::Usage, message).cause(&left_out.why));
            }
            let names = listing.operations.iter().map(|one| one.name.as_str());
            return Err(unknown("operation", wrong, names).cause(format!("named by {place}.operations")));
        }
        if !listing.left_out.is_empty() {
            let shown = listing.left_out.iter().take(limits::FACTS_TOLD);
            let shown = shown.map(|one| format!("`{}` ({})", one.name, one.why)).collect::<Vec<_>>().join(", ");
            let more = match listing.left_out.len().saturating_sub(limits::FACTS_TOLD) {
                0 => String::new(),
                more => format!(" and {more} more, which `shelly-host openapi list {name}` shows"),
            };
            warnings.push(format!("openapi.{name}: operations that cannot be tools: {shown}{more}"));
        }
        let sent = held.map(CredentialConfig::place);
        let unmet: Vec<_> = selected.operations.iter().filter_map(|one| one.unmet_security(sent.as_ref())).collect();
        if let Some(first) = unmet.first() {
            let count = unmet.len();
            let words =
                if count == 1 { "one operation requires".into() } else { format!("{count} operations require") };
            let mend = if held.is_some() { "set `auth` of the credential" } else { "set `credential` of the API" };
            warnings.push(format!("{place}: {words} a credential that is not sent: {first}; {mend}"));
        }
        let needed = self.config.api_grant(uses).http;
        if let Some(held) = held.filter(|held| !needed.is_empty() && held.audience().meet(&needed).is_empty()) {
            let urls = held.audience.join(", ");
            let credential = &held.name;
            warnings
                .push(format!("openapi.{name}: the credential `{credential}` has no effect, because it is for {urls}"));
        }
        Ok(())
    }
}
