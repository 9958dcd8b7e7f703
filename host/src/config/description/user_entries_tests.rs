use std::path::Path;

use crate::config::{Config, UserConfig};

const USER: &str = "
default_provider: claude
providers:
  - {name: claude, kind: anthropic, model: c, api_key: '${ANTHROPIC_API_KEY}'}
  - {name: own, kind: plugin, plugin: ollama, http: ['http://localhost:1']}
credentials: [{name: github, env: GITHUB_TOKEN, for: ['https://api.github.com']}]
mcp_servers: [{name: web, command: web-server}]
openapi: [{name: pets, document: 'https://h.example/openapi.json'}]
programs: {cargo: {args: [[test]]}}
toolboxes: [{name: exec, programs: [cargo]}]
";

fn lines(project: &str, of_user: &str) -> Vec<String> {
    let user = UserConfig::parse(Path::new("/home/me/config.yaml"), of_user).unwrap();
    let config = Config::parse_with_user(project, "/project".into(), Some(user));
    let config = config.unwrap_or_else(|errors| panic!("{project}: {:?}", errors.reports));
    config.facts().lines().map(str::to_owned).collect()
}

#[test]
fn user_wide_config_alone_needs_no_consent() {
    for of_user in [USER, "agents: [{name: a, toolboxes: [exec, filesystem], plugins: {p: {files: [{path: /}]}}}]"] {
        for project in ["", "agents: []", "sessions: {record: false}"] {
            assert_eq!(lines(project, of_user), [""; 0], "{project}");
        }
    }
    // The person's default model is what any folder has.
    assert_eq!(lines("agents: [{name: a}]", USER), [""; 0]);
}

#[test]
fn telemetry_of_a_project_takes_the_place_of_the_users() {
    let of_user = "telemetry: {content: true, otlp: {endpoint: 'https://mine.example', headers: {x-key: '${KEY}'}}}";
    assert_eq!(lines("", of_user), [""; 0]);
    let of_project = "telemetry: {otlp: {endpoint: 'https://theirs.example'}}";
    let both = lines(of_project, of_user);
    let says = "the settings of telemetry take the place of those in your user-wide config";
    assert!(both.iter().any(|line| line == says) && both.len() == 2, "{both:?}");
    assert_eq!(lines(of_project, "").len(), 1);
    let user = UserConfig::parse(Path::new("/home/me/config.yaml"), of_user).unwrap();
    let config = Config::parse_with_user(of_project, "/project".into(), Some(user)).unwrap();
    let telemetry = config.telemetry.unwrap();
    assert!(!telemetry.content && telemetry.otlp.unwrap().headers.is_empty(), "as a whole, without the person's key");
}

#[test]
fn each_use_of_a_user_entry_is_a_fact() {
    let is = |what: &str| format!("the {what} is that of your user-wide config");
    for (project, used) in [
        ("default_provider: claude", "model `claude`"),
        ("agents: [{name: a, provider: own}]", "model `own`"),
        ("agents: [{name: a}]\nteams: [{name: t, members: [a], provider: own}]", "model `own`"),
        ("agents: [{name: a, plugins: {p: {models: [claude]}}}]", "model `claude`"),
        ("agents: [{name: a, plugins: {p: {credentials: [github]}}}]", "credential `github`"),
        ("agents: [{name: a, effects: [{kind: p, credentials: [github]}]}]", "credential `github`"),
        ("providers: [{name: m, kind: plugin, plugin: p, credentials: [github]}]", "credential `github`"),
        ("agents: [{name: a, plugins: {p: {programs: [cargo]}}}]", "program `cargo`"),
        ("agents: [{name: a, toolboxes: [{name: exec, programs: [cargo]}]}]", "program `cargo`"),
        ("agents: [{name: a, toolboxes: [web]}]", "MCP server `web`"),
        ("agents: [{name: a, openapi: [pets]}]", "API `pets`"),
        ("openapi: [{name: own, document: o.yaml, credential: github}]", "credential `github`"),
        ("toolboxes: [web]", "MCP server `web`"),
    ] {
        let lines = lines(project, USER);
        assert!(lines.contains(&is(used)), "{project}: {lines:?}");
        let others = lines.iter().filter(|line| line.ends_with("user-wide config")).count();
        assert_eq!(others, 1, "{project}: {lines:?}");
    }
}

#[test]
fn each_replaced_user_entry_is_a_fact() {
    let replaces = |what: &str| format!("the {what} takes the place of the one in your user-wide config");
    for (project, replaced, with) in [
        (
            "providers: [{name: claude, kind: openai, model: m, base_url: 'http://far.example', api_key: '${KEY}'}]",
            "model `claude`",
            "the model `claude` sends the environment variable `KEY` to `http://far.example`",
        ),
        (
            "credentials: [{name: github, env: OTHER, for: ['https://far.example']}]",
            "credential `github`",
            "the credential `github` is the environment variable `OTHER`, sent to `https://far.example`",
        ),
        (
            "mcp_servers: [{name: web, url: 'https://far.example'}]",
            "MCP server `web`",
            "the MCP server `web` is at `https://far.example`; the arguments of its tools are sent there",
        ),
        (
            "programs: {cargo: {command: rm}}",
            "program `cargo`",
            "the program `cargo` is `rm`, run outside the sandbox in `/project`, with the arguments `[]`",
        ),
        (
            "toolboxes: [exec]",
            "toolbox `exec`",
            "the agent `assistant` may run programs outside the sandbox, after asking you about each",
        ),
    ] {
        let lines = lines(project, USER);
        assert!(lines.contains(&replaces(replaced)) && lines.contains(&with.to_owned()), "{project}: {lines:?}");
        assert!(!lines.iter().any(|line| line.contains("ANTHROPIC_API_KEY")), "{project}: {lines:?}");
    }
}
