//! Agents and teams that workers of the cluster run.

use super::{AgentConfig, Config};
use crate::{
    error::{ErrorKind, Report},
    limits,
};

impl AgentConfig {
    /// Checks the key `place`.
    pub(super) fn check_place(&self, has_cluster: bool) -> Result<(), Report> {
        let Some(labels) = &self.worker_labels else { return Ok(()) };
        let at = format!("{}.place", self.place());
        let wrong = |what: String, hint: &str| Err(Report::new(ErrorKind::Usage, what).hint(hint));
        if !has_cluster {
            return wrong(
                format!("{at}: the config names no cluster whose workers could run it"),
                "name one: cluster: {nats: 'nats://HOST:4222', namespace: NAME}; or remove the key",
            );
        }
        if self.remote.is_some() {
            return wrong(format!("{at}: has no effect on an agent with `remote`"), "remove one of the two keys");
        }
        if labels.len() > limits::CLUSTER_RUN_LABELS {
            let most = limits::CLUSTER_RUN_LABELS;
            return wrong(format!("{at}: has more than {most} labels"), "name those that decide");
        }
        match labels.iter().find(|label| !is_label(label)) {
            None => Ok(()),
            Some(label) => {
                let most = limits::CLUSTER_LABEL_BYTES;
                let hint = format!("use 1 to {most} lower case letters, digits and underscores, such as gpu");
                wrong(format!("{at}: `{}` is not a label", label.escape_debug()), &hint)
            }
        }
    }

    /// Returns the agent as a process has it that leaves its runs to workers: everything that its runs need is theirs.
    fn elsewhere(&self) -> Self {
        let mut elsewhere = Self {
            name: self.name.clone(),
            description: self.description.clone(),
            prefix: self.prefix.clone(),
            skills: Some(Vec::new()),
            skills_tags: self.skills_tags.clone(),
            estimated_cost: self.estimated_cost,
            max_concurrency: self.max_concurrency,
            budget: self.budget,
            effects: Some(Vec::new()),
            worker_labels: self.worker_labels.clone(),
            list: self.list,
            package: self.package.clone(),
            ..Self::default()
        };
        elsewhere.options.disable_behavioral_hints = true;
        elsewhere
    }
}

impl Config {
    /// Returns the config of a process that runs the agent or team `here` itself, if it has the key `place`, and leaves the
    /// others that have it to workers. Teams that are left to workers are agents in it. Returns `None` if no agent or team
    /// has the key.
    pub(crate) fn placed(&self, here: Option<&str>) -> Option<Self> {
        if !self.has_placed_agents() {
            return None;
        }
        let mut config = self.clone();
        let is_elsewhere = |own: &AgentConfig| own.worker_labels.is_some() && here != Some(own.name.as_str());
        let settle = |own: &mut AgentConfig| match is_elsewhere(own) {
            true => *own = own.elsewhere(),
            false => own.worker_labels = None,
        };
        config.agents.iter_mut().for_each(settle);
        let teams = std::mem::take(&mut config.teams);
        let (elsewhere, mut teams): (Vec<_>, Vec<_>) = teams.into_iter().partition(|team| is_elsewhere(&team.own));
        teams.iter_mut().for_each(|team| team.own.worker_labels = None);
        config.teams = teams;
        config.agents.extend(elsewhere.iter().map(|team| team.own.elsewhere()));
        Some(config)
    }

    /// Returns `true` if an agent or team has the key `place`.
    pub(crate) fn has_placed_agents(&self) -> bool {
        self.everyone().any(|own| own.worker_labels.is_some())
    }

    /// Returns the labels of the workers that run an agent or team, which is the entry agent if none is named.
    pub fn labels_of(&self, name: Option<&str>) -> &[String] {
        let who = name.map_or_else(|| self.entry(), |name| self.who(name));
        who.ok().and_then(|who| who.own().worker_labels.as_deref()).unwrap_or_default()
    }
}

/// Returns `true` if this can be the label of a worker.
fn is_label(label: &str) -> bool {
    (1..=limits::CLUSTER_LABEL_BYTES).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "cluster: {nats: 'nats://127.0.0.1:4222', namespace: a}\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "/project".into()).map_err(|report| report.with_hint())
    }

    #[test]
    fn wrong_place_is_refused_with_its_key() {
        let agent = |keys: &str| format!("{CLUSTER}agents: [{{name: a, {keys}}}]\n");
        assert!(parse(&agent("place: []")).is_ok());
        let remote = "remote: {card: 'https://a.example'}";
        for (text, why) in [
            ("agents: [{name: a, place: [gpu]}]\n".to_owned(), "agents.a.place: the config names no cluster"),
            (agent("place: [GPU]"), "agents.a.place: `GPU` is not a label"),
            (agent("place: [a, b, c, d, e]"), "agents.a.place: has more than 4 labels"),
            (agent(&format!("place: [gpu], {remote}")), "agents.a.place: has no effect on an agent with `remote`"),
            (
                format!("{CLUSTER}agents: [{{name: a}}]\nteams: [{{name: t, members: [a], place: ['']}}]\n"),
                "teams.t.place: `` is not a label",
            ),
        ] {
            let refused = parse(&text).unwrap_err();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
    }

    #[test]
    fn placed_runner_keeps_what_others_know_of_it() {
        let text = format!(
            "{CLUSTER}agents: [{{name: lead}}, {{name: painter, description: Paints, place: [gpu], instructions: Paint., \
             budget: {{tokens: 9}}}}]\nteams: [{{name: crew, members: [painter], place: []}}]\n"
        );
        let config = parse(&text).unwrap();
        assert!(parse("agents: [{name: lead}]\n").unwrap().placed(None).is_none());
        assert_eq!(config.labels_of(Some("painter")), ["gpu"]);
        assert!(config.labels_of(None).is_empty());
        let away = config.placed(None).unwrap();
        let painter = &away.agents[1];
        assert_eq!((painter.description.as_str(), painter.budget.tokens), ("Paints", Some(9)));
        assert!(painter.instructions.is_empty(), "the worker has them");
        assert!(away.teams.is_empty());
        let crew = away.who("crew").unwrap();
        assert_eq!(
            (crew.own().place().as_str(), crew.own().worker_labels.as_ref().map(Vec::len)),
            ("teams.crew", Some(0))
        );
        // A worker that was given the agent runs it, and does not give it to another one.
        let here = config.placed(Some("painter")).unwrap();
        assert_eq!((here.agents[1].instructions.as_str(), here.agents[1].worker_labels.is_none()), ("Paint.", true));
        let crew_here = config.placed(Some("crew")).unwrap();
        assert_eq!((crew_here.teams.len(), crew_here.agents[1].worker_labels.is_some()), (1, true));
    }
}
