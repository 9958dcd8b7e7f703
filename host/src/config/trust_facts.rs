//! What a config names that reaches beyond it, for the person who did not write it. Every key is either told here or passed
//! over by name, with the reason.

use std::path::Path;

use sha2::{Digest, Sha256};
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
    files,
    process::shown_words,
    trust::{RiskLevel, TrustFacts, quoted, quoted_path},
};

impl Config {
    /// What it names that reaches beyond it: addresses, variables of the environment that go there, plugins and what each
    /// is granted. Links on the way to a granted folder are resolved. What a plugin is, its directory and its bytes, is
    /// known to whoever looks for plugins.
    pub fn facts(&self) -> TrustFacts {
        let Self {
            providers,
            credentials,
            mcp_servers,
            // What lies there is told where it is used.
            plugin_dirs: _,
            programs,
            // Told of who uses it.
            git: GitConfig { work_dir },
            agents,
            teams,
            // Which of them begins, and how long what it says may be.
            entry_agent: _,
            default_context_windows: _,
            context: _,
            // How much is kept, in the project itself.
            sessions: _,
            // How many agents there may be, below the ceilings of the house.
            runs: _,
            // How much calls of plugins may take, below the ceilings of the house.
            limits: _,
            // Told with the permissions, where it stands.
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
                // They are among the agents, and the order in which they work reaches nowhere.
                members: _,
                // One that is a plugin is told with what it is given.
                coordinator: _,
                // Whom they may give way to is among them.
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
        // An address, or a plugin.
        kind: _,
        // Its bytes are told, and these are data for it.
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
        // How the key that is told goes to the address that is told.
        auth: _,
        // What is asked of the address, how often and for how long.
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
        // A vendor may do anything for them: ask servers of others, keep what it is told, run code.
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
        // What agents use is told of each.
        agent_tools: _,
        // They are all told below.
        plugins: _,
        effects: _,
        middleware: _,
        coordinator: _,
        list: _,
        // What it is told and shown as.
        description: _,
        instructions: _,
        prefix: _,
        skills: _,
        skills_tags: _,
        estimated_cost: _,
        // One of the models that are told.
        provider: _,
        toolboxes,
        // How much and how long, below the ceilings of the house.
        max_concurrency: _,
        budget: _,
        options: _,
        ceiling,
        // It takes away from what is told, and gives nothing.
        delegable: _,
    } = agent;
    let ceiling = ceiling.as_ref().map(|ceiling| ceiling.grant(|path| files::resolved(&root.join(path))));
    for toolbox in toolboxes {
        match toolbox {
            ToolboxUse::Own(uses) => toolbox_facts(name, uses, &root.join(work_dir), facts),
            // Plugins are told below.
            ToolboxUse::Shipped(_) => {}
            ToolboxUse::Server(uses) => server_use_facts(name, uses, facts),
        }
    }
    let unnamed: Vec<_> =
        agent.effects.iter().flatten().filter(|step| step.is_default).map(|step| &step.uses).collect();
    for (listed, id, uses) in agent.all_plugins() {
        // What the host adds by itself is named by no file.
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

/// What an agent reaches with tools of the host.
fn toolbox_facts(agent: &str, uses: &HostToolboxUse, work_dir: &Path, facts: &mut TrustFacts) {
    let HostToolboxUse {
        name,
        // Which of them a model is shown.
        tools: _,
        programs,
        ns: _,
    } = uses;
    let who = format!("the agent {}", quoted(agent));
    match (name, programs) {
        // They reach nothing but the project's notes, other agents and the person.
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
        // How long, below the ceiling of the house.
        timeout: _,
    } = program;
    let who = format!("the program {}", quoted(name));
    let command = shown_words([command.as_deref().unwrap_or(name)]);
    let folder = files::resolved(&cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd)));
    let args: Vec<_> = program.patterns().iter().map(ToString::to_string).collect();
    // A list is as long as it is, and a line is not: what is not shown has a digest.
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
        // A program may do anything for what stands in its environment.
        facts.add(
            RiskLevel::Runs,
            format!("{who} has {} in its environment (sha256:{})", quoted(variable), digest_of(value)),
        );
    }
}

/// What decides how a step guards: who changes that is asked about.
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

/// Bytes of params that are shown as they are.
const SHOWN_PARAMS_BYTES: usize = 300;

/// SHA-256 in hexadecimal.
fn digest_of(text: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(text).into();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of what it is granted, what its agent's `ceiling` leaves.
fn plugin_facts(who: &str, uses: &PluginUse, ceiling: Option<&Grant>, root: &Path, facts: &mut TrustFacts) {
    let PluginUse {
        files,
        // Told below, as far as they hold.
        clock: _,
        random: _,
        chat: _,
        kv: _,
        models: _,
        http: _,
        credentials: _,
        powers: _,
        programs: _,
        // Each time somebody is asked then, and told what for.
        ask: _,
        confirm,
        changes,
        // Data for it; of a step they are told by themselves.
        params: _,
        // Whether a run ends with it: the same.
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

/// What may be sent, and what is added to it. Which addresses a name may lead to is a part of it.
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
        // How it goes to the servers that are told.
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
        // How it is spoken with, and how long and how much it may answer.
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
            // A program may do anything for what stands in its environment.
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
            // Whose name it is, and what is asked for: a login that the person makes says it again.
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

/// What an agent does with a server, and what that may do for it.
fn server_use_facts(agent: &str, uses: &McpServerUse, facts: &mut TrustFacts) {
    let McpServerUse {
        name,
        // Which of them a model is shown.
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

/// An address without what may be a credential in it, of which a digest is shown: who changes it changes the line.
fn shown_address(address: &str) -> String {
    let shown = match Url::parse(address) {
        // As it is looked up: letters that look like others are not those.
        Ok(url) if !address.is_ascii() => without_credentials(&url),
        Ok(url) if masked_url(address) == MASK => without_credentials(&url),
        // Nobody knows what is what in it: then all of it is shown.
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

/// The names in the `${NAME}` of a value, as far as it can be understood.
pub(crate) fn variables(value: &str) -> impl Iterator<Item = &str> {
    value.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests;
