//! `--cheap`: requests of a batch go through the batch API of their vendor. A vendor's batch holds requests of many tasks, and has
//! nothing to do with the batch of tasks.

use std::collections::BTreeSet;

use super::task_survey::TaskSurvey;
use crate::{
    config::{Config, ProviderConfig, ProviderKind},
    error::{ErrorKind, Report},
    model::BatchConfig,
};

/// Turns on the batches of every model that the tasks use, with the settings of the config or the defaults. Returns the number
/// of requests that one batch takes.
///
/// # Errors
///
/// A [`Report`] if one of the models has no batches, or no config names it.
pub(super) fn use_vendor_batches(config: &mut Config, survey: &TaskSurvey, tasks: &str) -> Result<usize, Report> {
    let mut names = BTreeSet::new();
    for uses in &survey.runners {
        let runner = match &uses.agent {
            Some(name) => Some(config.who(name)),
            None if config.agents.is_empty() => None,
            None => Some(config.entry()),
        };
        let runner = runner.transpose().map_err(|report| uses.explain(report, tasks))?;
        let needed = runner.map_or(Vec::new(), |runner| config.needed_by(runner));
        let of_agents = needed.iter().map(|runner| runner.own().provider.as_deref());
        let wanted: BTreeSet<_> = match &uses.model {
            Some(model) => BTreeSet::from([Some(model.as_str())]),
            None if needed.is_empty() => BTreeSet::from([None]),
            None => of_agents.collect(),
        };
        for name in wanted {
            let provider = config.named_provider(name).map_err(|report| uses.explain(report, tasks))?;
            let provider = provider.ok_or_else(no_provider)?;
            if !provider.kind.has_batches() {
                return Err(uses.explain(no_batches(provider), tasks));
            }
            names.insert(provider.name.clone());
        }
    }
    let used = config.providers.iter_mut().filter(|provider| names.contains(&provider.name));
    let sizes = used.map(|provider| provider.batch.get_or_insert_with(BatchConfig::default).max_size);
    Ok(sizes.max().unwrap_or(1))
}

fn no_batches(provider: &ProviderConfig) -> Report {
    let name = provider.name.escape_debug();
    let have = ProviderKind::with_batches().join(", ");
    Report::new(ErrorKind::Usage, format!("the model `{name}` does not support batches"))
        .cause(format!("its `kind` is {}; batches are supported by {have}", provider.kind))
        .hint("choose another model with --model, or omit --cheap")
}

fn no_provider() -> Report {
    Report::new(ErrorKind::Usage, "no model is configured")
        .cause("--cheap needs a model of the config")
        .hint("add one under `providers` in shelly.yaml, or omit --cheap")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::batch::{task_index::TaskIndex, task_survey::RunnerUse};

    const CONFIG: &str = "providers:
  - {name: claude, kind: anthropic, model: m, api_key: k}
  - {name: gpt, kind: openai, model: m, api_key: k, batch: {max_size: 500}}
  - {name: local, kind: ollama, model: m}
agents: [{name: ada}, {name: bob, provider: gpt}, {name: cy, provider: local}]
teams: [{name: pair, members: [ada, bob]}]";

    fn used(config: &str, agent: Option<&str>, model: Option<&str>) -> Result<(usize, Vec<String>), Report> {
        let mut config = Config::parse(config, "/p".into()).unwrap();
        let uses = RunnerUse { agent: agent.map(str::to_owned), model: model.map(str::to_owned), line_number: 7 };
        let survey = TaskSurvey { index: TaskIndex::default(), runners: vec![uses] };
        let size = use_vendor_batches(&mut config, &survey, "t.jsonl")?;
        let batched = config.providers.into_iter().filter(|provider| provider.batch.is_some());
        Ok((size, batched.map(|provider| provider.name).collect()))
    }

    #[test]
    fn batches_are_turned_on_for_used_models() {
        for (agent, model, size, names) in [
            (None, None, 100, vec!["claude", "gpt"]),
            (Some("bob"), None, 500, vec!["gpt"]),
            (Some("pair"), None, 500, vec!["claude", "gpt"]),
            (Some("cy"), Some("claude"), 100, vec!["claude", "gpt"]),
        ] {
            let expected = (size, names.into_iter().map(str::to_owned).collect());
            assert_eq!(used(CONFIG, agent, model), Ok(expected), "{agent:?} {model:?}");
        }
    }

    #[test]
    fn models_without_batches_are_refused() {
        let report = used(CONFIG, Some("cy"), None).unwrap_err();
        let text = report.to_string();
        assert!(text.contains("its `kind` is ollama; batches are supported by openai, anthropic, gemini"), "{text}");
        assert!(text.ends_with("used by t.jsonl, line 7"), "{text}");
        assert!(used(CONFIG, Some("dan"), None).unwrap_err().to_string().contains("dan"));
        assert!(used(CONFIG, None, Some("none")).unwrap_err().to_string().contains("none"));
        assert_eq!(used("{}", None, None), Err(no_provider()));
    }
}
