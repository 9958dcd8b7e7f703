//! Models: servers that are reached over HTTP, and plugins.

use indexmap::IndexMap;

use super::{
    grants::{disclose_grant, kv_setting},
    section::SectionDescription,
    shared_settings::{batch_setting, http_setting, rate_limit_setting, time_or},
    wording::{digest_of, shown_address, shown_command},
};
use crate::{
    capability::Price,
    config::{
        AuthConfig, Config, ProviderConfig,
        effective_setting::{EffectiveSetting, is, list, map, or, set},
        mask::{MASK, masked, masked_params, masked_url},
        variables::variables,
    },
    files, limits,
    provider::{Vendor, WireApi},
    trust::{RiskLevel, quoted, quoted_path},
};

pub(super) fn provider_section(provider: &ProviderConfig, config: &Config, price: Option<Price>) -> SectionDescription {
    let mut section = SectionDescription::default();
    section.show("name", is(&provider.name));
    // The result is an address or a plugin, and both are disclosed.
    section.show("kind", is(&provider.kind));
    match provider.kind.vendor() {
        Some(vendor) => show_server(&mut section, provider, vendor, config),
        None => show_plugin(&mut section, provider, config),
    }
    // Details of the requests: content, number and time.
    section.show_all([
        ("context_window", window_setting(provider, config)),
        ("rate_limit", rate_limit_setting(&provider.rate_limit)),
        ("max_tokens", is(&provider.max_tokens).noted_if(provider.max_tokens.is_none(), "the default of the model")),
        ("temperature", is(&provider.temperature).noted_if(provider.temperature.is_none(), "the default of the model")),
        ("price", price_setting(price, provider.price.is_some())),
    ]);
    section
}

/// Describes the keys of a model that a server offers.
fn show_server(section: &mut SectionDescription, provider: &ProviderConfig, vendor: Vendor, config: &Config) {
    let ProviderConfig {
        name,
        // Shown for every model.
        kind: _,
        context_window: _,
        rate_limit: _,
        max_tokens: _,
        temperature: _,
        price: _,
        // Only plugins have these.
        plugin: _,
        params: _,
        clock: _,
        random: _,
        limits: _,
        kv: _,
        http: _,
        credentials: _,
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
        api,
        max_tokens_field,
        printed_calls,
        prompt_cache,
        encrypted_reasoning,
        batch,
    } = provider;
    let who = format!("the model {}", quoted(name));
    let preset = vendor.preset();
    let base_url_setting =
        base_url.as_deref().map_or_else(|| is(preset.base_url).noted("default"), |url| is(&masked_url(url)));
    section.show("base_url", base_url_setting);
    let address = base_url.as_deref().unwrap_or(preset.base_url);
    let shown = shown_address(address);
    section.disclose(RiskLevel::Sends, format!("{who} is at {shown}; conversations are sent there"));
    for variable in variables(address) {
        let line = format!("{who} has the environment variable {} in its address {shown}", quoted(variable));
        section.disclose(RiskLevel::Sends, line);
    }
    let key = match (api_key, provider.usual_key()) {
        (Some(key), _) => is(masked(key)),
        (None, Some(variable)) => is(&format!("${{{variable}}}")).noted("the default variable of the vendor"),
        (None, None) if api_key_file.is_some() || !api_key_command.is_empty() => is(MASK).noted("see below"),
        (None, None) => is(&()).noted("no key is sent"),
    };
    section.show("api_key", key);
    let sent = [api_key.as_deref().unwrap_or_default()].into_iter().chain(headers.values().map(String::as_str));
    for variable in sent.flat_map(variables).chain(provider.usual_key()) {
        let line = format!("{who} sends the environment variable {} to {shown}", quoted(variable));
        section.disclose(RiskLevel::Sends, line);
    }
    if let Some(file) = api_key_file {
        let path = config.root.join(file);
        section.show("api_key_file", is(&path));
        let path = quoted_path(&files::resolved(&path));
        section.disclose(RiskLevel::Sends, format!("{who} sends the content of the file {path} to {shown}"));
    }
    if !api_key_command.is_empty() {
        section.show("api_key_command", is(api_key_command));
        let command = shown_command(api_key_command);
        section.disclose(RiskLevel::Runs, format!("{who} runs {command} and sends its output to {shown}"));
    }
    // The header of a key that is disclosed, sent to an address that is disclosed.
    let (header, scheme) = preset.auth;
    let usual = AuthConfig { header: header.into(), scheme: scheme.into() };
    section.show("auth", is(auth.as_ref().unwrap_or(&usual)).noted_if(auth.is_none(), "the default of the vendor"));
    let masked_headers: IndexMap<_, _> = headers.iter().map(|(name, value)| (name, masked(value))).collect();
    section.show("headers", is(&masked_headers));
    section.show("body", is(&masked_params(&body.clone().into_iter().collect())));
    if !body.is_empty() {
        // A vendor may act on them in any way: ask other servers, store the input, run code.
        let fields: Vec<_> = body.keys().map(|field| quoted(field)).collect();
        let digest = digest_of(&serde_json::to_string(body).unwrap_or_default());
        let line = format!("{who} gets request fields from the config: {} (sha256:{digest})", fields.join(", "));
        section.disclose(RiskLevel::Sends, line);
    }
    section.show("proxy", proxy.as_deref().map_or_else(|| is(&()).noted("none"), |proxy| is(&masked_url(proxy))));
    if let Some(proxy) = proxy {
        let through = shown_address(proxy);
        let line = format!("{who} is reached through the proxy {through}; conversations are sent there too");
        section.disclose(RiskLevel::Sends, line);
        for variable in variables(proxy) {
            let line = format!("{who} has the environment variable {} in its proxy {through}", quoted(variable));
            section.disclose(RiskLevel::Sends, line);
        }
    }
    // Details of the requests: content, number and time.
    section.show_all([
        ("retries", or(*retries, limits::HTTP_RETRIES, "default")),
        ("timeout", time_or(*timeout, limits::COMPLETION_TIME)),
        ("idle_timeout", time_or(*idle_timeout, limits::STREAM_IDLE_TIME)),
        ("model", is(model)),
        ("api", or(*api, preset.api, "the API of the vendor")),
    ]);
    if vendor.has_batches() {
        let batch = batch.as_ref().map_or_else(|| is(&()).noted("none: each request is sent by itself"), batch_setting);
        section.show("batch", batch);
    }
    match provider.api() {
        Some(WireApi::Chat) => section.show(
            "max_tokens_field",
            is(max_tokens_field).noted_if(max_tokens_field.is_none(), "chosen for the server"),
        ),
        Some(WireApi::Messages) => section.show("prompt_cache", or(*prompt_cache, true, "default")),
        Some(WireApi::Responses) => section.show(
            "encrypted_reasoning",
            is(encrypted_reasoning)
                .noted_if(encrypted_reasoning.is_none(), "requested if the model is known to support it"),
        ),
        Some(WireApi::GenerateContent) | None => return,
    }
    let is_printed = vendor.prints_calls(provider.address().unwrap_or(""));
    section.show("printed_calls", or(*printed_calls, is_printed, "default"));
}

/// Describes the keys of a model that is a plugin. The plugin's bytes are disclosed where plugins are looked for.
fn show_plugin(section: &mut SectionDescription, provider: &ProviderConfig, config: &Config) {
    let ProviderConfig { name, plugin, params, clock, random, limits: bounds, kv, http, credentials, .. } = provider;
    let who = format!("the model {}: its plugin", quoted(name));
    section.show_all([
        ("plugin", is(plugin)),
        ("model", provider.model.as_deref().map_or_else(|| is(plugin).noted("the plugin's id"), |model| is(&model))),
        // Data for the plugin.
        ("params", is(&masked_params(params))),
        ("clock", set(clock)),
        ("random", set(random)),
        ("limits", bounds.setting_over(&config.limits)),
        ("kv", kv_setting(*kv)),
        ("http", list(http.iter().map(http_setting))),
        ("credentials", is(credentials)),
        ("retries", or(provider.retries, limits::HTTP_RETRIES, "default")),
        ("idle_timeout", time_or(provider.idle_timeout, limits::STREAM_IDLE_TIME)),
    ]);
    disclose_grant(section, &who, &provider.grant());
}

fn window_setting(provider: &ProviderConfig, config: &Config) -> EffectiveSetting {
    match (provider.context_window, config.context_window(provider)) {
        (Some(0), _) => is(&()).noted("0: unknown, no bound is assumed"),
        (None, None) if config.asks_server_for_window(provider) => is(&()).noted("requested from the server"),
        (None, None) => is(&()).noted("unknown"),
        (None, window) if config.default_context_windows.contains_key(&provider.kind) => {
            is(&window).noted("from default_context_windows")
        }
        (None, window) => is(&window).noted("typical for the vendor's models"),
        (_, window) => is(&window),
    }
}

fn price_setting(price: Option<Price>, is_own: bool) -> EffectiveSetting {
    price.map_or_else(
        || is(&()).noted("unknown"),
        |Price { input, output, cache_read, cache_write }| {
            let from = match price {
                _ if is_own => "",
                Some(Price::FREE) => "free, since no vendor is asked",
                _ => "from a price list",
            };
            let amounts =
                [("input", input), ("output", output), ("cache_read", cache_read), ("cache_write", cache_write)];
            map(amounts.map(|(key, amount)| (key, is(&amount).noted(from))))
        },
    )
}
