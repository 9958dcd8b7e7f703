//! Grants of plugins, and the ceilings of agents.

use super::{section::SectionDescription, shared_settings::http_setting};
use crate::{
    capability::{FileAccess, FileGrant, Grant, HttpGrant, KvScope, READING_METHODS},
    config::{
        Config, FolderUse, GrantConfig, PluginFolderUse, PluginUse,
        effective_setting::{EffectiveSetting, is, list, map, set},
    },
    files,
    trust::{RiskLevel, quoted, quoted_path},
};

/// Describes what a plugin is granted. It is shown as it is written, and disclosed as far as the ceiling of the agent allows.
pub(super) fn describe_grants(
    section: &mut SectionDescription,
    who: &str,
    uses: &PluginUse,
    ceiling: Option<&Grant>,
    config: &Config,
) {
    let PluginUse {
        files: folders,
        clock,
        random,
        chat,
        kv,
        models,
        http,
        credentials,
        powers,
        programs,
        // Settings of the plugin, which `plugins` describes.
        ask: _,
        confirm: _,
        changes: _,
        params: _,
        on_failure: _,
        limits: _,
    } = uses;
    let folder = |PluginFolderUse { path, name, mode }: &PluginFolderUse| {
        let seen_as = name.as_deref().map_or_else(|| is(path).noted("the path as written"), is);
        map([("path", is(&files::without_dots(&config.root.join(path)))), ("as", seen_as), ("mode", is(mode))])
    };
    section.show_all([
        ("files", list(folders.iter().map(folder))),
        ("clock", set(clock)),
        ("random", set(random)),
        ("chat", set(chat)),
        ("kv", kv_setting(*kv)),
        ("models", is(models)),
        ("http", list(http.iter().map(http_setting))),
        ("credentials", is(credentials)),
        ("powers", is(powers)),
        ("programs", is(programs)),
    ]);
    let narrowed = |grant: Grant| ceiling.map_or_else(|| grant.clone(), |ceiling| ceiling.meet(&grant));
    // Each folder by itself: a folder within another one has a line of its own. A link in the project may lead anywhere.
    for PluginFolderUse { path, name: _, mode } in folders {
        let folder = (files::resolved(&config.root.join(path)), *mode);
        let folder = Grant { files: [folder].into_iter().collect(), ..Grant::default() };
        disclose_grant(section, who, &narrowed(folder));
    }
    let others = Grant { files: FileGrant::default(), ..uses.grant(|path| path.to_owned()) };
    disclose_grant(section, who, &narrowed(others));
}

/// Discloses a grant, whose folders are resolved and which is already narrowed by the ceiling of its agent.
pub(super) fn disclose_grant(section: &mut SectionDescription, who: &str, grant: &Grant) {
    let Grant {
        files,
        clock,
        random,
        chat,
        kv,
        models,
        http,
        credentials,
        powers,
        // Only agents have them, never plugins.
        mcp: _,
        programs,
    } = grant;
    for (path, mode) in files.iter() {
        let (risk, may) = match mode {
            FileAccess::Read => (RiskLevel::Reads, "read"),
            FileAccess::Write => (RiskLevel::Changes, "read and change"),
        };
        section.disclose(risk, format!("{who} may {may} {}", quoted_path(path)));
    }
    if *clock {
        section.disclose(RiskLevel::Little, format!("{who} may read the clock"));
    }
    if *random {
        section.disclose(RiskLevel::Little, format!("{who} may get random bytes"));
    }
    if let Some(scope) = kv.iter().next() {
        section.disclose(RiskLevel::Little, format!("{who} may store data (kv: {scope})"));
    }
    if *chat {
        section.disclose(RiskLevel::Little, format!("{who} may read the conversation"));
    }
    for model in models.names() {
        let line = format!("{who} may send the conversation to the model {}", quoted(model));
        section.disclose(RiskLevel::Sends, line);
    }
    disclose_requests(section, who, http);
    for credential in credentials.names() {
        section
            .disclose(RiskLevel::Sends, format!("{who} may send requests with the credential {}", quoted(credential)));
    }
    for program in programs.names() {
        section.disclose(RiskLevel::Runs, format!("{who} may run the program {}", quoted(program)));
    }
    for power in powers {
        section.disclose(RiskLevel::Little, format!("{who} has the power `{power}`"));
    }
}

/// Discloses HTTP requests. The networks that a name may resolve to are part of the URL.
fn disclose_requests(section: &mut SectionDescription, who: &str, http: &HttpGrant) {
    for (url, methods) in http.urls_with_methods() {
        let spelled = |url: &str| format!("{who} may send requests to {}", quoted(url));
        let of_each = methods.iter().map(|method| spelled(&format!("{method} {url}"))).collect::<Vec<_>>();
        let before = [vec![spelled(&url)], of_each].into_iter().filter(|lines| !lines.is_empty()).collect();
        let url = quoted(&url);
        let (risk, what) = match &methods[..] {
            [] => (RiskLevel::Sends, "requests of any method".to_owned()),
            methods => {
                let only_reads = methods.iter().all(|method| READING_METHODS.contains(method));
                (
                    if only_reads { RiskLevel::Reads } else { RiskLevel::Sends },
                    format!("{} requests", methods.join(", ")),
                )
            }
        };
        section.disclose_spelled_anew(risk, format!("{who} may send {what} to {url}"), before);
    }
}

/// Shows a ceiling; `without` says what applies if there is none. It narrows what is disclosed elsewhere and grants nothing.
pub(super) fn ceiling_setting(grant: Option<&GrantConfig>, without: &'static str, config: &Config) -> EffectiveSetting {
    let Some(GrantConfig { files, clock, random, chat, kv, models, http, credentials, powers, mcp, programs }) = grant
    else {
        return is(&()).noted(without);
    };
    let folder = |FolderUse { path, mode }: &FolderUse| {
        map([("path", is(&files::without_dots(&config.root.join(path)))), ("mode", is(mode))])
    };
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

/// Shows the scope of a plugin's store.
pub(super) fn kv_setting(kv: Option<KvScope>) -> EffectiveSetting {
    is(&kv).noted_if(kv.is_none(), "no store")
}
