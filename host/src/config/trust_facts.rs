//! Lists what a config names that reaches beyond it, for a person who did not write the config. Every key is either listed
//! or skipped by name, with the reason.

use std::path::Path;

use url::Url;

use super::{
    AgentConfig, ChangesUse, Config, CredentialConfig, GitConfig, HostToolbox, HostToolboxUse, LoginGrant,
    McpServerConfig, McpServerUse, OAuthConfig, PluginFolderUse, PluginSection, PluginUse, ProgramConfig,
    ProviderConfig, TeamConfig, ToolboxUse,
    egress::requests,
    mask::{MASK, masked_params, masked_url},
};
use crate::{
    agent::OnFailure,
    capability::{FileAccess, Grant, HttpGrant, KvScope, READING_METHODS},
    digest::Sha256Digest,
    files,
    process::shown_words,
    trust::{RiskLevel, TrustFacts, quoted, quoted_path},
};

impl Config {
    /// Returns what the config names that reaches beyond it: addresses, environment variables that are sent there,
    /// plugins, and their grants. Links on the way to a granted folder are resolved. The directory and the bytes of a
    /// plugin are not included; the code that looks for plugins adds them.
    pub fn facts(&self) -> TrustFacts {
        let Self {
            providers,
            credentials,
            mcp_servers,
            // The plugins in them are listed where they are used.
            plugin_dirs: _,
            programs,
            // Listed with the agents that use it.
            git: GitConfig { work_dir },
            agents,
            teams,
            // The entry point, and the sizes of texts.
            entry_agent: _,
            default_context_windows: _,
            context: _,
            // Size limits of data within the project itself.
            sessions: _,
            // Numbers of agents, below the fixed limits of the host.
            runs: _,
            // Resources of plugin calls, below the fixed limits of the host.
            limits: _,
            // Listed with the permissions file, where it is stored.
            approved: _,
            root,
            file: _,
        } = self;
        let mut facts = TrustFacts::default();
        providers.iter().for_each(|provider| provider_facts(provider, root, &mut facts));
        credentials.iter().for_each(|credential| credential_facts(credential, root, &mut facts));
        mcp_servers.iter().for_each(|server| server_facts(server, root, &mut facts));
        programs.iter().for_each(|(name, program)| program_facts(name, program, root, &mut facts));
        agents.iter().for_each(|agent| agent_facts(agent, root, work_dir, &mut facts));
        for team in teams {
            let TeamConfig {
                own,
                // Members are listed as agents, and their order reaches nothing.
                members: _,
                // A coordinator that is a plugin is listed with its grants.
                coordinator: _,
                // Members hand over only to other members.
                hand_over: _,
            } = team;
            agent_facts(own, root, work_dir, &mut facts);
        }
        facts
    }
}

fn provider_facts(provider: &ProviderConfig, root: &Path, facts: &mut TrustFacts) {
    let ProviderConfig {
        name,
        // The result is an address or a plugin, and both are listed.
        kind: _,
        // The plugin's bytes are listed, and the params are data for it.
        plugin: _,
        params: _,
        clock,
        random,
        kv,
        http,
        credentials,
        limits: _,
        base_url: _,
        api_key,
        api_key_file,
        api_key_command,
        headers,
        body,
        proxy,
        // The header of a key that is listed, sent to an address that is listed.
        auth: _,
        // Details of the requests to the address: content, number and time.
        model: _,
        retries: _,
        timeout: _,
        idle_timeout: _,
        context_window: _,
        max_tokens: _,
        api: _,
        max_tokens_field: _,
        printed_calls: _,
        prompt_cache: _,
        encrypted_reasoning: _,
        rate_limit: _,
        batch: _,
        temperature: _,
        price: _,
    } = provider;
    let model = format!("the model {}", quoted(name));
    let Some(address) = provider.address() else {
        let who = format!("{model}: its plugin");
        powerful(&who, *clock, *random, *kv, facts);
        way_out(&who, &requests(http), credentials.iter().map(String::as_str), facts);
        return;
    };
    let shown = shown_address(address);
    facts.add(RiskLevel::Sends, format!("{model} is at {shown}: conversations go there"));
    for variable in variables(address) {
        facts.add(
            RiskLevel::Sends,
            format!("{model} has the environment's {} in its address {shown}", quoted(variable)),
        );
    }
    let sent = [api_key.as_deref().unwrap_or_default()].into_iter().chain(headers.values().map(String::as_str));
    for variable in sent.flat_map(variables).chain(provider.usual_key()) {
        facts.add(RiskLevel::Sends, format!("{model} sends the environment's {} to {shown}", quoted(variable)));
    }
    if let Some(file) = api_key_file {
        facts.add(
            RiskLevel::Sends,
            format!("{model} sends what the file {} holds to {shown}", quoted_path(&files::resolved(&root.join(file)))),
        );
    }
    if !api_key_command.is_empty() {
        let command = shown_command(api_key_command);
        facts.add(RiskLevel::Runs, format!("{model} runs {command} and sends what it prints to {shown}"));
    }
    if !body.is_empty() {
        // A vendor may act on them in any way: ask other servers, store the input, run code.
        let fields: Vec<_> = body.keys().map(|field| quoted(field)).collect();
        let digest = digest_of(&serde_json::to_string(body).unwrap_or_default());
        facts.add(
            RiskLevel::Sends,
            format!("{model} is sent fields of the config: {} (sha256:{digest})", fields.join(", ")),
        );
    }
    if let Some(proxy) = proxy {
        let through = shown_address(proxy);
        facts.add(
            RiskLevel::Sends,
            format!("{model} is reached through the proxy {through}: conversations go there too"),
        );
        for variable in variables(proxy) {
            facts.add(
                RiskLevel::Sends,
                format!("{model} has the environment's {} in its proxy {through}", quoted(variable)),
            );
        }
    }
}

fn agent_facts(agent: &AgentConfig, root: &Path, work_dir: &Path, facts: &mut TrustFacts) {
    let AgentConfig {
        name,
        // Each of these agents is listed by itself.
        agent_tools: _,
        // All of these plugins are listed below.
        plugins: _,
        effects: _,
        middleware: _,
        coordinator: _,
        list: _,
        // Texts for models and people.
        description: _,
        instructions: _,
        prefix: _,
        skills: _,
        skills_tags: _,
        estimated_cost: _,
        // One of the models that are listed.
        provider: _,
        toolboxes,
        // Amounts and times, below the fixed limits of the host.
        max_concurrency: _,
        budget: _,
        options: _,
        ceiling,
        // It narrows what is listed, and grants nothing.
        delegable: _,
    } = agent;
    let ceiling = ceiling.as_ref().map(|ceiling| ceiling.grant(|path| files::resolved(&root.join(path))));
    for toolbox in toolboxes {
        match toolbox {
            ToolboxUse::Own(uses) => toolbox_facts(name, uses, &root.join(work_dir), facts),
            // Plugins are listed below.
            ToolboxUse::Shipped(_) => {}
            ToolboxUse::Server(uses) => server_use_facts(name, uses, facts),
        }
    }
    let unnamed: Vec<_> =
        agent.effects.iter().flatten().filter(|step| step.is_default).map(|step| &step.uses).collect();
    for (listed, id, uses) in agent.all_plugins() {
        // No file names the steps that the host adds by default.
        if unnamed.iter().any(|unnamed| std::ptr::eq(*unnamed, uses)) {
            continue;
        }
        let what = match listed {
            PluginSection::Effects => "effect",
            PluginSection::Middleware => "middleware",
            PluginSection::Plugins | PluginSection::Toolboxes => "plugin",
            PluginSection::Coordinator => "coordinator",
        };
        let who = format!("the {} {}: the {what} {}", agent.word(), quoted(name), quoted(id));
        plugin_facts(&who, uses, ceiling.as_ref(), root, facts);
        if matches!(listed, PluginSection::Effects | PluginSection::Middleware | PluginSection::Coordinator) {
            step_facts(&who, uses, facts);
        }
    }
}

/// Lists what an agent reaches with tools of the host.
fn toolbox_facts(agent: &str, uses: &HostToolboxUse, work_dir: &Path, facts: &mut TrustFacts) {
    let HostToolboxUse {
        name,
        // The subset that a model is shown.
        tools: _,
        programs,
        ns: _,
    } = uses;
    let who = format!("the agent {}", quoted(agent));
    match (name, programs) {
        // These reach nothing but the project's notes, other agents and the person.
        (HostToolbox::Ask | HostToolbox::State | HostToolbox::Tasks | HostToolbox::Notes, _) => {}
        (HostToolbox::Exec, None) => {
            facts.add(RiskLevel::Runs, format!("{who} may run programs outside the sandbox, if you say yes to each"))
        }
        (HostToolbox::Exec, Some(names)) => {
            for program in names {
                facts.add(
                    RiskLevel::Runs,
                    format!("{who} may run the program {}, and you are not asked before", quoted(program)),
                );
            }
        }
        (HostToolbox::Git, _) => {
            let folder = quoted_path(&files::resolved(work_dir));
            facts.add(RiskLevel::Runs, format!("{who} may use git in {folder}, if you say yes to it"));
        }
    }
}

fn program_facts(name: &str, program: &ProgramConfig, root: &Path, facts: &mut TrustFacts) {
    let ProgramConfig {
        command,
        args: _,
        cwd,
        env,
        inherit_env,
        // A time limit, below the fixed limit of the host.
        timeout: _,
    } = program;
    let who = format!("the program {}", quoted(name));
    let command = shown_words([command.as_deref().unwrap_or(name)]);
    let folder = files::resolved(&cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd)));
    let args: Vec<_> = program.patterns().iter().map(ToString::to_string).collect();
    // The list may be long and a line must not be: a digest stands for what is not shown.
    let (args, digest) = (args.join(" or "), digest_of(&args.join("\n")));
    let args = if args.len() <= SHOWN_PARAMS_BYTES { quoted(&args) } else { format!("lists of sha256:{digest}") };
    facts.add(
        RiskLevel::Runs,
        format!(
            "{who} is {}, run outside the sandbox in {}, with the arguments {args}",
            quoted(&command),
            quoted_path(&folder)
        ),
    );
    for variable in inherit_env {
        facts.add(RiskLevel::Sends, format!("{who} gets the environment's {}", quoted(variable)));
    }
    for (variable, value) in env {
        // A program may act on its environment in any way.
        facts.add(
            RiskLevel::Runs,
            format!("{who} has {} in its environment (sha256:{})", quoted(variable), digest_of(value)),
        );
    }
}

/// Lists the settings that decide how well a step guards the agent, so that a change of them is asked about.
fn step_facts(who: &str, uses: &PluginUse, facts: &mut TrustFacts) {
    if !uses.params.is_empty() {
        let params = serde_json::to_string(&uses.params).expect("a map with string keys is JSON");
        let is_plain = params.len() <= SHOWN_PARAMS_BYTES
            && serde_json::to_value(&uses.params).ok() == serde_json::to_value(masked_params(&uses.params)).ok();
        facts.add(
            RiskLevel::Little,
            match is_plain {
                true => format!("{who} has the params {}", quoted(&params)),
                false => format!("{who} has params of sha256:{}", digest_of(&params)),
            },
        );
    }
    if uses.on_failure == Some(OnFailure::Skip) {
        facts.add(RiskLevel::Little, format!("{who} may fail, and the run goes on without it"));
    }
}

/// The most bytes of params that are shown in full.
const SHOWN_PARAMS_BYTES: usize = 300;

/// Returns the SHA-256 digest in hexadecimal.
fn digest_of(text: &str) -> String {
    Sha256Digest::of(text).hex()
}

/// Lists the grants of a plugin, narrowed by the `ceiling` of its agent.
fn plugin_facts(who: &str, uses: &PluginUse, ceiling: Option<&Grant>, root: &Path, facts: &mut TrustFacts) {
    let PluginUse {
        files,
        // Listed below, after the ceiling is applied.
        clock: _,
        random: _,
        chat: _,
        kv: _,
        models: _,
        http: _,
        credentials: _,
        powers: _,
        programs: _,
        // A person is asked each time, with the details.
        ask: _,
        confirm,
        changes,
        // Data for the plugin; those of a step are listed separately.
        params: _,
        // Whether a run ends when the plugin fails; listed for a step.
        on_failure: _,
        limits: _,
    } = uses;
    facts.add(
        RiskLevel::Little,
        match confirm {
            true => format!("{who} is used"),
            false => format!("{who} is used, and you are not asked before each call"),
        },
    );
    if *changes == ChangesUse::Apply {
        facts.add(
            RiskLevel::Changes,
            format!("{who} has the changes of files that it proposes made without asking you"),
        );
    }
    let narrowed = |grant: Grant| ceiling.map_or_else(|| grant.clone(), |ceiling| ceiling.meet(&grant));
    for PluginFolderUse { path, name: _, mode } in files {
        // A link in the project may lead anywhere.
        let path = files::resolved(&root.join(path));
        let given = narrowed(Grant { files: [(path, *mode)].into_iter().collect(), ..Grant::default() });
        for (path, mode) in given.files.iter() {
            let (danger, may) = match mode {
                FileAccess::Read => (RiskLevel::Reads, "read"),
                FileAccess::Write => (RiskLevel::Changes, "read and change"),
            };
            facts.add(danger, format!("{who} may {may} {}", quoted_path(path)));
        }
    }
    let Grant { files: _, clock, random, chat, kv, models, http, credentials, powers, mcp: _, programs } =
        narrowed(uses.grant(|path| path.to_owned()));
    powerful(who, clock, random, kv.into_iter().next(), facts);
    if chat {
        facts.add(RiskLevel::Little, format!("{who} may read the conversation"));
    }
    for model in models.names() {
        facts.add(RiskLevel::Sends, format!("{who} may send the conversation to the model {}", quoted(model)));
    }
    way_out(who, &http, credentials.names(), facts);
    for program in programs.names() {
        facts.add(RiskLevel::Runs, format!("{who} may have the program {} run", quoted(program)));
    }
    for power in powers {
        facts.add(RiskLevel::Little, format!("{who} has the power `{power}`"));
    }
}

/// Lists HTTP requests and the credentials added to them. The networks that a name may resolve to are part of the place.
fn way_out<'a>(who: &str, http: &HttpGrant, credentials: impl Iterator<Item = &'a str>, facts: &mut TrustFacts) {
    for (place, methods) in http.places() {
        let spelled = |place: &str| format!("{who} may send requests to {}", quoted(place));
        let of_each = methods.iter().map(|method| spelled(&format!("{method} {place}"))).collect::<Vec<_>>();
        let before = [vec![spelled(&place)], of_each].into_iter().filter(|lines| !lines.is_empty()).collect();
        let place = quoted(&place);
        let (danger, what) = match &methods[..] {
            [] => (RiskLevel::Sends, "requests of any method".to_owned()),
            methods => {
                let only_reads = methods.iter().all(|method| READING_METHODS.contains(method));
                (
                    if only_reads { RiskLevel::Reads } else { RiskLevel::Sends },
                    format!("{} requests", methods.join(", ")),
                )
            }
        };
        facts.add_spelled_anew(danger, format!("{who} may send {what} to {place}"), before);
    }
    for credential in credentials {
        facts.add(RiskLevel::Sends, format!("{who} may have the credential {} sent", quoted(credential)));
    }
}

fn credential_facts(credential: &CredentialConfig, root: &Path, facts: &mut TrustFacts) {
    let CredentialConfig {
        name,
        env,
        file,
        command,
        audience: _,
        // A header of the servers that are listed.
        auth: _,
    } = credential;
    let (danger, is_what) = match (env, file) {
        (Some(variable), _) => (RiskLevel::Sends, format!("is what the environment's {} holds", quoted(variable))),
        (None, Some(file)) => {
            (RiskLevel::Sends, format!("is what the file {} holds", quoted_path(&files::resolved(&root.join(file)))))
        }
        (None, None) => (RiskLevel::Runs, format!("runs {} and is what it prints", shown_command(command))),
    };
    for rule in credential.audience().rules() {
        facts.add(danger, format!("the credential {} {is_what}, sent to {}", quoted(name), quoted(&rule.url())));
    }
}

fn server_facts(server: &McpServerConfig, root: &Path, facts: &mut TrustFacts) {
    let McpServerConfig {
        name,
        command,
        args,
        env,
        cwd,
        url,
        headers,
        oauth,
        // The protocol revision, and limits of time and size.
        protocol: _,
        roots,
        connect_timeout: _,
        timeout: _,
        output_chars: _,
    } = server;
    let who = format!("the MCP server {}", quoted(name));
    if let Some(command) = command {
        let words: Vec<_> = [command.clone()].into_iter().chain(args.iter().cloned()).collect();
        let folder = files::resolved(&cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd)));
        let command = shown_command(&words);
        facts.add(
            RiskLevel::Runs,
            format!("{who} is the program {command}, run outside the sandbox in {}", quoted_path(&folder)),
        );
        for (variable, value) in env {
            for ours in variables(value) {
                facts.add(
                    RiskLevel::Sends,
                    format!("{who} gets the environment's {} as {}", quoted(ours), quoted(variable)),
                );
            }
            // A program may act on its environment in any way.
            let digest = digest_of(value);
            facts.add(RiskLevel::Runs, format!("{who} has {} in its environment (sha256:{digest})", quoted(variable)));
        }
    }
    if let Some(url) = url {
        let shown = shown_address(url);
        facts.add(RiskLevel::Sends, format!("{who} is at {shown}: what its tools are called with goes there"));
        for variable in variables(url) {
            facts.add(
                RiskLevel::Sends,
                format!("{who} has the environment's {} in its address {shown}", quoted(variable)),
            );
        }
        for variable in headers.values().flat_map(|value| variables(value)) {
            facts.add(RiskLevel::Sends, format!("{who} is sent the environment's {} at {shown}", quoted(variable)));
        }
        if let Some(oauth) = oauth {
            let OAuthConfig { client_id, client_secret, client_metadata_url, scopes, grant, issuer, networks } = oauth;
            if *grant == LoginGrant::Client {
                facts.add(RiskLevel::Sends, format!("{who} is asked to let this program in without you"));
            }
            if let Some(issuer) = issuer {
                facts.add(RiskLevel::Sends, format!("{who} has the authority {}", quoted(issuer)));
            }
            for network in networks {
                facts
                    .add(RiskLevel::Sends, format!("{who} may have its authority at addresses of {}", quoted(network)));
            }
            // Only the variables in the secret are listed here. The client and the scopes follow, and a login shows them
            // again.
            for variable in client_secret.iter().flat_map(|secret| variables(secret)) {
                facts.add(
                    RiskLevel::Sends,
                    format!("{who} has the environment's {} sent to its authority", quoted(variable)),
                );
            }
            let of = [client_id, client_metadata_url];
            for of in of.into_iter().flatten() {
                facts.add(RiskLevel::Sends, format!("{who} is asked to let us in as {}", quoted(of)));
            }
            for scope in scopes {
                facts.add(RiskLevel::Sends, format!("{who} is asked to let us in for {}", quoted(scope)));
            }
        }
    }
    for folder in roots.iter().flatten() {
        let folder = files::resolved(&root.join(folder));
        facts.add(RiskLevel::Little, format!("{who} is told that {} is its business", quoted_path(&folder)));
    }
}

/// Lists how an agent uses a server, and the requests that the server may make of the agent.
fn server_use_facts(agent: &str, uses: &McpServerUse, facts: &mut TrustFacts) {
    let McpServerUse {
        name,
        // The subset that a model is shown.
        tools: _,
        confirm,
        sampling,
        elicitation,
    } = uses;
    let who = format!("the agent {}: the MCP server {}", quoted(agent), quoted(name));
    let unasked = format!("{who} is used, and you are not asked before each call");
    match confirm {
        Some(true) => facts.add(RiskLevel::Little, format!("{who} is used")),
        Some(false) => facts.add(RiskLevel::Changes, unasked),
        None => {
            let line = format!("{who} is used, and you are asked before calls that it says may destroy something");
            facts.add_spelled_anew(RiskLevel::Changes, line, vec![vec![unasked]]);
        }
    }
    if *sampling {
        facts.add(RiskLevel::Sends, format!("{who} may have the agent's model reply to it"));
    }
    if *elicitation {
        facts.add(RiskLevel::Little, format!("{who} may ask you"));
    }
}

fn shown_command(words: &[String]) -> String {
    quoted(&shown_words(words.iter().map(String::as_str)))
}

fn powerful(who: &str, clock: bool, random: bool, kv: Option<KvScope>, facts: &mut TrustFacts) {
    if clock {
        facts.add(RiskLevel::Little, format!("{who} may know the time"));
    }
    if random {
        facts.add(RiskLevel::Little, format!("{who} may have random bytes"));
    }
    if let Some(scope) = kv {
        facts.add(RiskLevel::Little, format!("{who} may keep data (kv: {scope})"));
    }
}

/// Shows an address without the parts that may be a credential, followed by its digest, so that any change of it changes
/// the line.
fn shown_address(address: &str) -> String {
    let shown = match Url::parse(address) {
        // The host name as it is looked up: lookalike letters show as punycode.
        Ok(url) if !address.is_ascii() => without_credentials(&url),
        Ok(url) if masked_url(address) == MASK => without_credentials(&url),
        // The parts cannot be told apart, so all of it is shown.
        Err(_) => address.to_owned(),
        Ok(_) => masked_url(address),
    };
    if shown == address {
        return quoted(address);
    }
    format!("{} (sha256:{})", quoted(&shown), digest_of(address))
}

fn without_credentials(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

/// Returns the names in the `${NAME}` parts of a value; an unclosed part is skipped.
pub(crate) fn variables(value: &str) -> impl Iterator<Item = &str> {
    value.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests;
