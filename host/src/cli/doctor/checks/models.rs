//! Checks of keys, models and local model servers.

use std::collections::BTreeMap;

use crate::{
    app::{App, ClusterKeyFile, VendorAddress, key_variables_in_words, local_servers_in_words, vendor_keys},
    cli::{
        doctor::{
            doctor_context::{DoctorContext, ModelProbeAnswer},
            finding::UnnamedFinding,
        },
        provider::ProbeOutcome,
        render::name,
        user_config_path::user_config_path,
    },
    config::{Config, ProviderConfig, RunnerConfig, variables},
    error::count,
};

/// The part of a finding about a model without a known window.
const WINDOW_UNKNOWN: &str =
    "its context window is not known, so a long conversation is shortened only after the model refuses a request";

/// Lists the variables in which credentials are looked for, and what each is for. Values are never read into a finding.
pub(super) fn keys(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let is_set = |variable: &str| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    let (set, unset): (Vec<_>, Vec<_>) = uses(context.config()).into_iter().partition(|(variable, _)| is_set(variable));
    let line = |(variable, uses): &(String, KeyUses)| {
        let uses: Vec<_> = uses.vendor.iter().chain(&uses.places).map(|place| name(place)).collect();
        format!("{}: {}", name(variable), uses.join(", "))
    };
    let (lacking, other): (Vec<_>, Vec<_>) = unset.iter().partition(|(_, uses)| !uses.places.is_empty());
    let mut findings = Vec::new();
    let addresses = VendorAddress::all_in(&|name| std::env::var(name).ok());
    if !set.is_empty() {
        let message = format!("{} set", count(set.len() as u64, "variable is", "variables are"));
        findings.push(UnnamedFinding::ok(message).details(set.iter().map(line)));
    }
    let (used, unused): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| is_set(address.key_variable));
    if !used.is_empty() {
        let message =
            format!("{} elsewhere", count(used.len() as u64, "key without a config goes", "keys without a config go"));
        findings.push(UnnamedFinding::note(message).details(used.into_iter().map(address_line)));
    }
    for VendorAddress { variable, key_variable, .. } in unused {
        let finding = UnnamedFinding::note(format!("{variable} is set, but is not used without {key_variable}"));
        findings.push(finding.hint(format!("set {key_variable} too; a server that needs no key accepts any")));
    }
    if !lacking.is_empty() {
        let message =
            format!("{} not set, but named in the config", count(lacking.len() as u64, "variable is", "variables are"));
        let names: Vec<_> = lacking.iter().map(|(variable, _)| name(variable)).collect();
        let finding = UnnamedFinding::note(message).details(lacking.into_iter().map(line));
        findings.push(finding.hint(format!("set {} where agents are run", names.join(", "))));
    }
    if findings.is_empty() {
        let names: Vec<_> = other.into_iter().map(|(variable, _)| variable.as_str()).collect();
        let none = UnnamedFinding::note(format!("no key is set: {}", names.join(", ")));
        findings.push(none.hint(format!(
            "set {} for a model of a vendor; local model servers and plugins need none",
            key_variables_in_words("or")
        )));
    }
    findings.extend(cluster_keys(context));
    findings
}

/// Looks at the files with the keys of the cluster. Of each key its id is shown, which says nothing about it.
fn cluster_keys(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let (mut usable, mut findings) = (Vec::new(), Vec::new());
    for ClusterKeyFile { place, id } in context.app.iter().flat_map(App::cluster_key_files) {
        match id {
            Ok(id) => usable.push(format!("{}: the key {id}", name(&place))),
            Err(report) => findings.push(UnnamedFinding::of_report(&report)),
        }
    }
    if !usable.is_empty() {
        let message = format!(
            "{} used",
            count(usable.len() as u64, "key file of the cluster can be", "key files of the cluster can be")
        );
        findings.insert(0, UnnamedFinding::ok(message).details(usable));
    }
    findings
}

/// Says where the key of a vendor goes. Only the host is shown: the rest of the address may hold a credential.
fn address_line(address: &VendorAddress) -> String {
    let VendorAddress { vendor, key_variable, variable, .. } = address;
    format!("{key_variable} goes to {}, to which {variable} leads, not to {vendor}", name(&address.host()))
}

/// The uses of a variable of the environment.
#[derive(Debug, Default, PartialEq, Eq)]
struct KeyUses {
    /// The vendor whose key it usually holds.
    vendor: Option<String>,
    /// The parts of the config that read it.
    places: Vec<String>,
}

/// Returns the variables of vendors and those that the config names, with their uses.
fn uses(config: Option<&Config>) -> BTreeMap<String, KeyUses> {
    let mut uses = BTreeMap::<String, KeyUses>::new();
    for (variable, vendor) in vendor_keys() {
        uses.entry(variable.to_owned()).or_default().vendor = Some(vendor.to_owned());
    }
    for (variable, place) in config.map(variables_of).unwrap_or_default() {
        let places = &mut uses.entry(variable).or_default().places;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    uses
}

/// Returns the variables that a config names, each with the part that names it.
fn variables_of(config: &Config) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut add = |place: String, value: &str| {
        found.extend(variables(value).map(|variable| (variable.to_owned(), place.clone())));
    };
    for ProviderConfig { name, api_key, base_url, proxy, headers, .. } in &config.providers {
        let values = [api_key, base_url, proxy].into_iter().flatten().chain(headers.values());
        values.for_each(|value| add(format!("providers.{name}"), value));
    }
    for server in &config.mcp_servers {
        let secret = server.oauth.iter().filter_map(|oauth| oauth.client_secret.as_ref());
        let values = server.env.values().chain(server.headers.values()).chain(&server.url).chain(secret);
        values.for_each(|value| add(format!("mcp_servers.{}", server.name), value));
    }
    let usual =
        |provider: &ProviderConfig| Some((provider.usual_key()?.to_owned(), format!("providers.{}", provider.name)));
    found.extend(config.providers.iter().filter_map(usual));
    let held =
        config.credentials.iter().filter_map(|held| Some((held.env.clone()?, format!("credentials.{}", held.name))));
    found.extend(held);
    found
}

pub(super) fn models(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let left_out = |why: &str| vec![UnnamedFinding::note(format!("models were not asked: {why}"))];
    if context.is_offline {
        return left_out("--offline");
    }
    if let Err(why) = context.app_if_trusted() {
        return left_out(why);
    }
    let mut findings = Vec::new();
    for ModelProbeAnswer { name, answer } in context.probes() {
        // The outcome takes the probe, and the window of the model is needed later.
        let warnings: Vec<_> = answer.iter().flat_map(|probe| probe.warnings.clone()).collect();
        // A report that others read has no words of a model.
        let ProbeOutcome { line_without_answer: line, hint, failure, .. } =
            ProbeOutcome::of(name.as_deref(), answer.clone());
        let finding = if failure.is_none() { UnnamedFinding::ok(line) } else { UnnamedFinding::problem(line) };
        findings.push(finding.details(warnings).maybe_hint(hint));
    }
    findings
}

pub(super) fn local_servers(context: &DoctorContext) -> Vec<UnnamedFinding> {
    if context.is_offline {
        return vec![UnnamedFinding::note("local model servers were not asked: --offline")];
    }
    let servers = match context.local_servers() {
        Ok(servers) => servers,
        Err(report) => return vec![UnnamedFinding::of_report(report)],
    };
    let answered = servers.iter().filter_map(|server| {
        let models = server.models.as_ref().ok()?;
        let message = format!("{} answers at {}", server.name, server.address);
        Some(match models.is_empty() {
            true => UnnamedFinding::note(format!("{message} without a model")).hint("load a model in it"),
            false => UnnamedFinding::ok(format!("{message}: {}", count(models.len() as u64, "model", "models")))
                .details(models.clone()),
        })
    });
    let answered: Vec<_> = answered.collect();
    match answered.is_empty() {
        true => vec![UnnamedFinding::note(format!(
            "no local model server answers on its usual port: {}",
            local_servers_in_words()
        ))],
        false => answered,
    }
}

pub(super) fn default_model(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let Some(config) = context.config() else {
        return vec![UnnamedFinding::note("unknown: the config cannot be used")];
    };
    let named = config.entry().ok().and_then(|entry: RunnerConfig<'_>| entry.own().provider.clone());
    let provider = config.provider(named.as_deref()).ok().flatten();
    let is_of_provider =
        |probed: &&ModelProbeAnswer| probed.name.as_deref() == provider.map(|provider| provider.name.as_str());
    let probe = context.probes().iter().find(is_of_provider).and_then(|probed| probed.answer.as_ref().ok());
    let kind = provider.map(|provider| provider.kind).or(probe.map(|probe| probe.kind)).unwrap_or_default();
    let (called, model, window) = match (provider, probe) {
        (Some(provider), probe) => {
            let window = config.context_window(provider).or_else(|| probe?.context_window);
            (provider.name.as_str(), provider.model.as_ref().or(provider.plugin.as_ref()).map(String::as_str), window)
        }
        (None, Some(probe)) => (probe.name.as_str(), Some(probe.model.as_str()), probe.context_window),
        (None, None) => return vec![no_model(context)],
    };
    let model = model.filter(|model| *model != called).map_or(String::new(), |model| format!(" ({model})"));
    let message = format!("`{called}`{model}");
    vec![match window {
        Some(tokens) => UnnamedFinding::ok(format!("{message} with a window of {tokens} tokens")),
        None => {
            let setting = config.window_setting(kind, provider, user_config_path().as_deref());
            UnnamedFinding::note(format!("{message}: {WINDOW_UNKNOWN}"))
                .hint(format!("to set the size, write for example {setting}"))
        }
    }]
}

/// Returns the finding about a config without models, if none was found or asked.
fn no_model(context: &DoctorContext) -> UnnamedFinding {
    let set = vendor_keys().find(|(variable, _)| std::env::var_os(variable).is_some_and(|value| !value.is_empty()));
    match set {
        Some((variable, vendor)) => {
            let addresses = VendorAddress::all_in(&|name| std::env::var(name).ok());
            let whose = match addresses.iter().find(|address| address.key_variable == variable) {
                Some(address) => format!("{}, to which {} leads", name(&address.host()), address.variable),
                None => vendor.to_owned(),
            };
            UnnamedFinding::ok(format!("the config names none: a run takes one of {whose}, since {variable} is set"))
        }
        None if context.is_offline => {
            UnnamedFinding::note("the config names none and no key is set: a run looks for a local model server")
        }
        None => UnnamedFinding::note("there is none").hint(format!(
            "set {}, start a local model server, or name a model under `providers` in a config",
            key_variables_in_words("or")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_listed_with_all_their_uses() {
        let text = "providers:\n  - {name: a, kind: openai, model: m}\n  - {name: b, kind: openai, model: m, api_key: '${MINE}', \
                    headers: {X-A: '${MINE}', X-B: '${OTHER}'}}\n\
                    credentials: [{name: hub, env: HUB_TOKEN, for: ['https://h.example']}]\n\
                    mcp_servers: [{name: files, command: x, env: {T: '${MINE}'}}]\n";
        let config = Config::parse(text, "/".into()).unwrap_or_else(|report| panic!("{report}"));
        let uses = uses(Some(&config));
        let of = |variable: &str| (uses[variable].vendor.as_deref(), uses[variable].places.join(" "));
        assert_eq!(of("OPENAI_API_KEY"), (Some("OpenAI"), "providers.a".into()));
        assert_eq!(of("MINE"), (None, "providers.b mcp_servers.files".into()));
        assert_eq!(of("OTHER"), (None, "providers.b".into()));
        assert_eq!(of("HUB_TOKEN"), (None, "credentials.hub".into()));
        assert_eq!(of("XAI_API_KEY"), (Some("xAI"), String::new()));
    }
}
