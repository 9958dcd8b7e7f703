//! The effective config: every key with the value that applies, defaults filled in.

use std::{path::PathBuf, time::Duration};

use indexmap::IndexMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{
    AgentConfig, AgentOptions, AuthConfig, CONTEXT_THRESHOLD, Config, CredentialConfig, DelegableConfig, FolderUse,
    GrantConfig, HostMiddleware, HttpUse, PluginFolderUse, PluginSection, PluginUse, ProviderConfig, StepUse,
    effective_setting::{EffectiveSetting, SettingValue, is, list, map, or, positive, set, shown, word},
    mask::{MASK, masked, masked_params, masked_url},
};
use crate::{
    agent::{DEFAULT_PREFIX, OnFailure},
    capability::{Budget, KvScope, Price, READING_METHODS},
    limits,
    model::{BatchConfig, RateLimitConfig},
    provider::WireApi,
};

/// The effective config. It serializes with the keys of the file; secrets are masked.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveConfig(EffectiveSetting);

/// Facts about a config that are not in its file.
#[derive(Debug, Clone, Default)]
pub struct ConfigRuntimeInfo {
    /// The directories that are searched for plugins.
    pub plugin_dirs: Vec<PathBuf>,
    /// The guest memory of all plugins together in bytes, and its source; `None` if it was not determined.
    pub guest_memory: Option<(u64, &'static str)>,
    /// The price of each provider, if it is known.
    pub prices: Vec<Option<Price>>,
    /// One entry for each agent.
    pub agents: Vec<AgentRuntimeInfo>,
    /// One entry for each team, for the keys that a team shares with agents.
    pub teams: Vec<AgentRuntimeInfo>,
}

/// Facts about an agent that are not in the config.
#[derive(Debug, Clone, Default)]
pub struct AgentRuntimeInfo {
    /// The tool names of each of its toolboxes.
    pub toolboxes: Vec<Vec<String>>,
    /// The names of its skills.
    pub skills: Vec<String>,
    /// Its plugins, in the order of [`AgentConfig::all_plugins`].
    pub plugins: Vec<PluginRuntimeInfo>,
    /// The order in which its effects and middleware are called.
    pub order: StepOrder,
}

/// Facts about a plugin of an agent that are not in the config.
#[derive(Debug, Clone, Default)]
pub struct PluginRuntimeInfo {
    /// The names of its kinds.
    pub kinds: Vec<&'static str>,
    /// `true` if its manifest declares WASI's base interfaces, which give it no capability that is not granted.
    pub wasi: bool,
    /// The `on_failure` of its manifest, which applies if the config sets none.
    pub on_failure: OnFailure,
}

/// The names of effects and middleware in the order of their calls; the outermost middleware comes first.
#[derive(Debug, Clone, Default)]
pub struct StepOrder {
    /// Effects.
    pub effects: Vec<String>,
    /// Run middleware.
    pub runs: Vec<String>,
    /// Model middleware.
    pub requests: Vec<String>,
    /// Tool middleware.
    pub calls: Vec<String>,
}

impl EffectiveConfig {
    /// Builds the effective config. `known` has one entry for each provider, agent, toolbox and plugin of `config`.
    pub fn new(config: &Config, known: &ConfigRuntimeInfo) -> Self {
        let Config {
            providers,
            credentials,
            mcp_servers,
            programs,
            git,
            plugin_dirs: _,
            agents,
            teams,
            entry_agent,
            default_context_windows,
            context,
            sessions,
            runs,
            limits: bounds,
            root,
            // Approvals are not part of the file.
            approved: _,
            file: _,
        } = config;
        let first = agents.first().map(|agent| agent.name.as_str());
        let positive_bytes = |bytes: u64| Some(bytes).filter(|bytes| *bytes > 0);
        let file_bytes = positive_bytes(context.max_external_file_size);
        let one_agent = |(agent, known)| agent_setting(agent, config, known);
        let windows = default_context_windows.iter().map(|(kind, tokens)| (word(kind), is(tokens)));
        Self(map([
            ("root", is(root).noted("relative paths are below it")),
            ("providers", list(providers.iter().zip(&known.prices).map(|(one, price)| provider(one, config, *price)))),
            ("credentials", list(credentials.iter().map(|one| credential(one, config)))),
            ("mcp_servers", list(mcp_servers.iter().map(|one| servers::server(one, config)))),
            (
                "programs",
                EffectiveSetting::new(SettingValue::Map(
                    programs.iter().map(|(name, one)| (name.clone(), programs::program(name, one, config))).collect(),
                )),
            ),
            (
                "git",
                map([(
                    "work_dir",
                    is(&config.root.join(&git.work_dir)).noted_if(git.work_dir.as_os_str().is_empty(), "the root"),
                )]),
            ),
            ("default_context_windows", EffectiveSetting::new(SettingValue::Map(windows.collect()))),
            ("plugin_dirs", is(&known.plugin_dirs)),
            ("agents", list(agents.iter().zip(&known.agents).map(one_agent))),
            ("teams", list(teams.iter().zip(&known.teams).map(|(team, known)| teams::team(team, config, known)))),
            ("entry_agent", entry_agent.as_deref().map_or_else(|| is(&first).noted("the first"), |name| is(&name))),
            (
                "context",
                map([("max_external_file_size", or(file_bytes, limits::CONTEXT_FILE_BYTES, "bytes; default"))]),
            ),
            (
                "sessions",
                map([
                    ("record", or(Some(sessions.record).filter(|record| !record), true, "default")),
                    ("max_bytes", or(positive_bytes(sessions.max_bytes), limits::SESSION_BYTES, "of one; default")),
                    (
                        "max_total_bytes",
                        or(positive_bytes(sessions.max_total_bytes), limits::SESSIONS_BYTES, "of all; default"),
                    ),
                ]),
            ),
            ("runs", runs.setting()),
            ("limits", bounds.setting(known.guest_memory)),
            ("house", fixed_limits::house()),
        ]))
    }

    /// Returns the config as YAML, with comments that name the source of a value.
    pub fn to_yaml(&self) -> String {
        self.0.to_yaml()
    }
}

impl Serialize for EffectiveConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

fn provider(provider: &ProviderConfig, config: &Config, price: Option<Price>) -> EffectiveSetting {
    let ProviderConfig {
        name,
        kind,
        plugin,
        params,
        clock,
        random,
        limits: bounds,
        kv,
        http,
        credentials,
        base_url,
        api_key,
        api_key_file,
        api_key_command,
        auth,
        headers,
        body,
        proxy,
        retries,
        timeout,
        idle_timeout,
        model,
        context_window: _,
        max_tokens,
        api,
        max_tokens_field,
        printed_calls,
        prompt_cache,
        encrypted_reasoning,
        rate_limit,
        batch,
        temperature,
        price: own_price,
    } = provider;
    let window = match (provider.context_window, config.context_window(provider)) {
        (Some(0), _) => is(&()).noted("0: it is not counted on"),
        (None, None) if config.asks_server_for_window(provider) => is(&()).noted("the server is asked"),
        (None, None) => is(&()).noted("not known"),
        (None, window) if config.default_context_windows.contains_key(&provider.kind) => {
            is(&window).noted("of default_context_windows")
        }
        (None, window) => is(&window).noted("of the vendor's usual models"),
        (_, window) => is(&window),
    };
    let price = price.map_or_else(
        || is(&()).noted("not known"),
        |Price { input, output, cache_read, cache_write }| {
            let from = if own_price.is_none() { "of a price list" } else { "" };
            let amounts =
                [("input", input), ("output", output), ("cache_read", cache_read), ("cache_write", cache_write)];
            map(amounts.map(|(key, amount)| (key, is(&amount).noted(from))))
        },
    );
    let mut keys = vec![("name", is(name)), ("kind", is(kind))];
    match kind.vendor() {
        Some(vendor) => {
            let preset = vendor.preset();
            let (header, scheme) = preset.auth;
            let sent = AuthConfig { header: header.into(), scheme: scheme.into() };
            let key = match (api_key, provider.usual_key()) {
                (Some(key), _) => is(masked(key)),
                (None, Some(variable)) => is(&format!("${{{variable}}}")).noted("the vendor's usual variable"),
                (None, None) if api_key_file.is_some() || !api_key_command.is_empty() => is(MASK).noted("see below"),
                (None, None) => is(&()).noted("none is sent"),
            };
            keys.extend([
                (
                    "base_url",
                    base_url
                        .as_deref()
                        .map_or_else(|| is(preset.base_url).noted("default"), |url| is(&masked_url(url))),
                ),
                ("api_key", key),
            ]);
            keys.extend(api_key_file.iter().map(|file| ("api_key_file", is(&config.root.join(file)))));
            if !api_key_command.is_empty() {
                keys.push(("api_key_command", is(api_key_command)));
            }
            keys.extend([
                ("auth", is(auth.as_ref().unwrap_or(&sent)).noted_if(auth.is_none(), "as the vendor wants it")),
                ("headers", is(&headers.iter().map(|(name, value)| (name, masked(value))).collect::<IndexMap<_, _>>())),
                ("body", is(&masked_params(&body.clone().into_iter().collect()))),
                ("proxy", proxy.as_deref().map_or_else(|| is(&()).noted("none"), |proxy| is(&masked_url(proxy)))),
                ("retries", or(*retries, limits::HTTP_RETRIES, "default")),
                ("timeout", time_or(*timeout, limits::COMPLETION_TIME)),
                ("idle_timeout", time_or(*idle_timeout, limits::STREAM_IDLE_TIME)),
                ("model", is(model)),
                ("api", or(*api, preset.api, "as the vendor speaks")),
            ]);
            if vendor.has_batches() {
                keys.push((
                    "batch",
                    batch.as_ref().map_or_else(|| is(&()).noted("none: each request by itself"), batch_setting),
                ));
            }
            let is_printed = vendor.prints_calls(provider.address().unwrap_or(""));
            let printed_calls = ("printed_calls", or(*printed_calls, is_printed, "default"));
            keys.extend(match provider.api() {
                Some(WireApi::Chat) => vec![
                    (
                        "max_tokens_field",
                        is(max_tokens_field).noted_if(max_tokens_field.is_none(), "as the server wants it"),
                    ),
                    printed_calls,
                ],
                Some(WireApi::Messages) => vec![("prompt_cache", or(*prompt_cache, true, "default")), printed_calls],
                Some(WireApi::Responses) => vec![
                    (
                        "encrypted_reasoning",
                        is(encrypted_reasoning)
                            .noted_if(encrypted_reasoning.is_none(), "if the model is known to have any"),
                    ),
                    printed_calls,
                ],
                Some(WireApi::GenerateContent) | None => vec![],
            });
        }
        None => keys.extend([
            ("plugin", is(plugin)),
            ("model", model.as_deref().map_or_else(|| is(plugin).noted("the plugin's id"), |model| is(&model))),
            ("params", is(&masked_params(params))),
            ("clock", set(clock)),
            ("random", set(random)),
            ("limits", bounds.setting_over(&config.limits)),
            ("kv", kv_setting(*kv)),
            ("http", list(http.iter().map(http_setting))),
            ("credentials", is(credentials)),
            ("retries", or(*retries, limits::HTTP_RETRIES, "default")),
            ("idle_timeout", time_or(*idle_timeout, limits::STREAM_IDLE_TIME)),
        ]),
    }
    keys.extend([
        ("context_window", window),
        ("rate_limit", rate_limit_setting(rate_limit)),
        ("max_tokens", is(max_tokens).noted_if(max_tokens.is_none(), "the model's own")),
        ("temperature", is(temperature).noted_if(temperature.is_none(), "the model's own")),
        ("price", price),
    ]);
    map(keys)
}

/// Shows where a credential comes from, and never its value.
fn credential(credential: &CredentialConfig, config: &Config) -> EffectiveSetting {
    let CredentialConfig { name, env, file, command, audience, auth } = credential;
    let source = match (env, file) {
        (Some(variable), _) => ("env", is(variable)),
        (None, Some(file)) => ("file", is(&config.root.join(file))),
        (None, None) => ("command", is(command)),
    };
    let AuthConfig { header, scheme } = credential.sent();
    let of_auth = |value: &str| is(value).noted_if(auth.is_none(), "default");
    let auth = map([("header", of_auth(&header)), ("scheme", of_auth(&scheme))]);
    map([("name", is(name)), source, ("for", is(audience)), ("auth", auth)])
}

fn http_setting(HttpUse { url, methods, networks }: &HttpUse) -> EffectiveSetting {
    map([
        ("url", is(url)),
        ("methods", if methods.is_empty() { is(&READING_METHODS) } else { is(methods) }),
        ("networks", or_null(networks, "public addresses, or the one that is named")),
    ])
}

fn or_null(list: &[String], without: &'static str) -> EffectiveSetting {
    if list.is_empty() { is(&()).noted(without) } else { is(list) }
}

fn batch_setting(batch: &BatchConfig) -> EffectiveSetting {
    let BatchConfig { window, poll_interval, timeout, max_size } = batch;
    map([
        ("window", is(&shown(*window))),
        ("poll_interval", is(&shown(*poll_interval))),
        ("timeout", is(&shown(*timeout))),
        ("max_size", is(max_size)),
    ])
}

fn rate_limit_setting(limit: &RateLimitConfig) -> EffectiveSetting {
    let RateLimitConfig { input_tpm, output_tpm, rpm } = limit;
    let limits = [("input_tpm", input_tpm), ("output_tpm", output_tpm), ("rpm", rpm)];
    map(limits.map(|(key, limit)| (key, is(limit).noted_if(limit.is_none(), "no bound of its own"))))
}

fn time_or(time: Option<Duration>, default: Duration) -> EffectiveSetting {
    is(&shown(time.unwrap_or(default))).noted_if(time.is_none(), "default")
}

fn agent_setting(agent: &AgentConfig, config: &Config, known: &AgentRuntimeInfo) -> EffectiveSetting {
    let AgentConfig {
        name,
        description,
        instructions,
        provider,
        prefix,
        toolboxes: _,
        skills: _,
        skills_tags,
        estimated_cost,
        max_concurrency,
        budget,
        plugins: _,
        agent_tools,
        effects,
        middleware,
        ceiling,
        delegable,
        options,
        // Only teams have these.
        coordinator: _,
        list: _,
    } = agent;
    let may_start = |other: &AgentConfig| delegable.agents.as_ref().is_none_or(|agents| agents.contains(&other.name));
    let others = config.everyone().filter(|other| options.max_delegation_depth > 0 && other.name != *name);
    let others = others.filter(|other| may_start(other));
    let hand_overs = Some(options.max_handoffs).filter(|most| *most > 0);
    let mut plugins = known.plugins.iter();
    let shown_effects = match effects {
        Some(effects) => list(effects.iter().map(|step| one_step(step, &mut plugins, config))),
        None => is(&()).noted("none: it is not known what the model can take, or no plugins came with the host"),
    };
    let middleware = list(middleware.iter().map(|step| one_step(step, &mut plugins, config)));
    let listed = agent.all_plugins().zip(&known.plugins).filter(|((listed, ..), _)| *listed == PluginSection::Plugins);
    let plugins = listed.map(|((_, id, uses), known)| (id.to_owned(), map(plugin_keys(uses, known, config)))).collect();
    map([
        ("name", is(name)),
        ("description", set(description)),
        ("instructions", set(instructions)),
        ("provider", model_setting(provider.as_deref(), config)),
        ("prefix", prefix_setting(prefix.as_deref())),
        ("toolboxes", toolboxes::settings(agent, known, config)),
        ("skills", is(&known.skills)),
        ("skills_tags", is(skills_tags)),
        ("estimated_cost", is(estimated_cost).noted_if(estimated_cost.is_none(), "not told")),
        ("max_concurrency", positive(*max_concurrency, config.runs.limits().working_agents as u32)),
        ("budget", budget_setting(budget)),
        ("agent_tools", list(agent_tools.iter().map(|uses| agent_tools::setting(uses, config)))),
        ("effects", shown_effects),
        ("middleware", middleware),
        ("plugins", EffectiveSetting::new(SettingValue::Map(plugins))),
        ("use", grant_setting(ceiling.as_ref(), "what each plugin is granted", config)),
        ("delegable", delegable_setting(delegable, "what it and the agents that it may start use", config)),
        ("options", options_setting(options)),
        ("order", order_setting(&known.order)),
        ("delegates_to", is(&others.map(|other| &other.name).collect::<Vec<_>>())),
        ("hand_overs", or(hand_overs, limits::HAND_OVERS, "of a task that it delegates")),
    ])
}

fn model_setting(provider: Option<&str>, config: &Config) -> EffectiveSetting {
    match (provider, config.providers.first()) {
        (Some(name), _) => is(name),
        (None, Some(first)) => is(&first.name).noted("the first"),
        (None, None) => is(&()).noted("one that is found: a key in the environment, or a local server"),
    }
}

fn prefix_setting(prefix: Option<&str>) -> EffectiveSetting {
    or(prefix.filter(|prefix| !prefix.is_empty()), DEFAULT_PREFIX, "default")
}

/// Shows an effect or a middleware. A step that is a plugin takes the next item of `plugins`.
fn one_step<'a>(
    step: &StepUse,
    plugins: &mut impl Iterator<Item = &'a PluginRuntimeInfo>,
    config: &Config,
) -> EffectiveSetting {
    let Some(own) = step.own() else {
        let known = plugins.next().cloned().unwrap_or_default();
        return step_setting(step, plugin_keys(&step.uses, &known, config));
    };
    let params = match own {
        Ok(HostMiddleware::Timeout(limit)) => map([("time", is(&shown(limit)))]),
        Ok(HostMiddleware::Budget(budget)) => budget_setting(&budget),
        _ => map([]),
    };
    step_setting(step, vec![("params", params)])
}

fn budget_setting(budget: &Budget) -> EffectiveSetting {
    let Budget { tokens, usd, tool_calls, time } = budget;
    let or_none = |value: EffectiveSetting| {
        if value.holds == SettingValue::One(Value::Null) { value.noted("no bound of its own") } else { value }
    };
    map([
        ("tokens", or_none(is(tokens))),
        ("usd", or_none(is(usd))),
        ("tool_calls", or_none(is(tool_calls))),
        ("time", or_none(is(&time.map(shown)))),
    ])
}

fn grant_setting(grant: Option<&GrantConfig>, without: &'static str, config: &Config) -> EffectiveSetting {
    let Some(GrantConfig { files, clock, random, chat, kv, models, http, credentials, powers, mcp, programs }) = grant
    else {
        return is(&()).noted(without);
    };
    let folder =
        |FolderUse { path, mode }: &FolderUse| map([("path", is(&config.root.join(path))), ("mode", is(mode))]);
    map([
        ("files", list(files.iter().map(folder))),
        ("clock", set(clock)),
        ("random", set(random)),
        ("chat", set(chat)),
        ("kv", is(kv)),
        ("models", is(models)),
        ("http", list(http.iter().map(http_setting))),
        ("credentials", is(credentials)),
        ("powers", is(powers)),
        ("mcp", is(mcp)),
        ("programs", is(programs)),
    ])
}

fn delegable_setting(delegable: &DelegableConfig, without: &'static str, config: &Config) -> EffectiveSetting {
    let DelegableConfig { grant, agents, budget } = delegable;
    map([
        ("grant", grant_setting(grant.as_ref(), without, config)),
        ("agents", is(agents).noted_if(agents.is_none(), "all")),
        ("budget", budget_setting(budget)),
    ])
}

fn options_setting(options: &AgentOptions) -> EffectiveSetting {
    let AgentOptions {
        max_iterations,
        warn_iterations,
        max_delegation_depth,
        max_handoffs,
        context_threshold,
        interaction_mode,
        question_timeout,
        disable_behavioral_hints,
    } = options;
    let turns = is(&options.iterations());
    map([
        (
            "max_iterations",
            match max_iterations {
                None => turns.noted("default"),
                Some(0) => turns.noted("0: the ceiling"),
                Some(_) => turns,
            },
        ),
        ("warn_iterations", is(warn_iterations).noted_if(*warn_iterations == 0, "never")),
        ("max_delegation_depth", is(max_delegation_depth).noted_if(*max_delegation_depth == 0, "it does not delegate")),
        ("max_handoffs", is(max_handoffs).noted_if(*max_handoffs == 0, "it does not hand its own task over")),
        (
            "context_threshold",
            or(
                context_threshold.filter(|share| *share > 0.0),
                CONTEXT_THRESHOLD,
                "default, where no effects are named",
            ),
        ),
        ("interaction_mode", set(interaction_mode)),
        (
            "question_timeout",
            or(question_timeout.map(shown), shown(limits::DELEGATION_TIME), "as long as a delegation"),
        ),
        ("disable_behavioral_hints", set(disable_behavioral_hints)),
    ])
}

fn order_setting(StepOrder { effects, runs, requests, calls }: &StepOrder) -> EffectiveSetting {
    map([("effects", is(effects)), ("runs", is(runs)), ("requests", is(requests)), ("calls", is(calls))])
}

fn step_setting(step: &StepUse, mut keys: Vec<(&'static str, EffectiveSetting)>) -> EffectiveSetting {
    let kind = is(&step.kind).noted_if(step.is_default, "of an agent whose config names no effects");
    keys.insert(0, ("kind", kind));
    map(keys)
}

fn plugin_keys(uses: &PluginUse, known: &PluginRuntimeInfo, config: &Config) -> Vec<(&'static str, EffectiveSetting)> {
    let kinds = &known.kinds;
    let PluginUse {
        files,
        clock,
        random,
        chat,
        kv,
        models,
        http,
        credentials,
        powers,
        programs,
        ask,
        confirm,
        changes,
        params,
        on_failure,
        limits: bounds,
    } = uses;
    let file = |PluginFolderUse { path, name, mode }: &PluginFolderUse| {
        let seen_as = name.as_deref().map_or_else(|| is(path).noted("as `path` is written"), is);
        map([("path", is(&config.root.join(path))), ("as", seen_as), ("mode", is(mode))])
    };
    let mut keys = vec![
        ("kinds", is(&kinds)),
        ("files", list(files.iter().map(file))),
        ("clock", set(clock)),
        ("random", set(random)),
        ("chat", set(chat)),
        ("kv", kv_setting(*kv)),
        ("models", is(models)),
        ("http", list(http.iter().map(http_setting))),
        ("credentials", is(credentials)),
        ("powers", is(powers)),
        ("programs", is(programs)),
        ("ask", is(ask)),
        ("confirm", set(confirm)),
        ("changes", set(changes)),
        ("params", is(&masked_params(params))),
        ("limits", bounds.setting_over(&config.limits)),
    ];
    if known.wasi {
        keys.insert(1, ("wasi", is(&"powerless").noted("its plugin.toml says so, and nothing need be granted")));
    }
    if kinds.iter().any(|kind| *kind == "effect" || kind.ends_with("middleware")) {
        keys.push(("on_failure", or(*on_failure, known.on_failure, "as the plugin says")));
    }
    keys
}

fn kv_setting(kv: Option<KvScope>) -> EffectiveSetting {
    is(&kv).noted_if(kv.is_none(), "it has no store")
}

mod agent_tools;
mod fixed_limits;
mod programs;
mod servers;
mod teams;
#[cfg(test)]
mod tests;
mod toolboxes;
