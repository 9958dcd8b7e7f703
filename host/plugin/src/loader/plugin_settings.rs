use std::{collections::BTreeSet, sync::Arc};

use serde_json::value::RawValue;

use super::folder_mount::FolderMount;
use crate::{
    contract::PluginKind,
    metering::{Limits, LimitsPlace},
    package::PluginManifest,
    store::FixedInputs,
};
use shelly_core::{
    agent::OnFailure,
    capability::{CapabilityDecision, Ceiling, Grant, MissingCapability, Power, PromptableCapability},
    kv::KvStores,
    process::AllowedPrograms,
};
use shelly_net::egress::{Credential, HttpResponder};

/// The settings of a plugin for one agent, read from the config.
#[derive(Debug, Clone)]
pub struct PluginSettings {
    /// The name of the agent.
    pub agent: String,
    /// The place of the plugin in the config, for hints: `agents.helper.plugins.read-files`.
    pub place: String,
    /// The toolbox of the agent that contains the plugin; `None` if the config names the plugin itself.
    pub toolbox: Option<&'static str>,
    /// The option of the command line that gives grants and settings in place of the config; `None`: the config does.
    pub option: Option<&'static str>,
    /// The capabilities that the agent grants.
    pub grant: Grant,
    /// The folders of the grant, and the name under which the plugin sees each.
    pub mounts: Vec<FolderMount>,
    /// The capabilities that a person may open to the plugin during a run. Until then the plugin reaches nothing
    /// through them.
    pub ask: BTreeSet<PromptableCapability>,
    /// The capabilities that a person has opened beyond the grant. Their folders are among `mounts`.
    pub opened: Grant,
    /// The bounds of the agent: its own `use`, and those under which it was started.
    pub ceiling: Ceiling,
    /// The plugin's own settings, a JSON object.
    pub params: Box<RawValue>,
    /// The limits of the plugin's calls.
    pub limits: Limits,
    /// The policy when the plugin fails as an effect or middleware; `None` leaves it to the manifest.
    pub on_failure: Option<OnFailure>,
    /// The key-value stores, for a plugin that is granted one.
    pub stores: KvStores,
    /// The credentials that the plugin is granted and that exist.
    pub credentials: Vec<Arc<Credential>>,
    /// The programs that the config names; those granted to the plugin are among them.
    pub programs: AllowedPrograms,
    /// The time and the random numbers of its calls; `None`: those of the system.
    pub fixed_inputs: Option<FixedInputs>,
    /// Answers its HTTP requests in place of the network, after the checks against the grant; `None`: the network does.
    pub responder: Option<Arc<dyn HttpResponder>>,
}

impl PluginSettings {
    /// Returns the hint how to grant this line of capabilities, such as `http: [https://example.com]`: the place in the
    /// config, or the option.
    pub fn granted_by(&self, line: &str) -> String {
        if let Some(option) = self.option {
            return format!("`{option} '{line}'`");
        }
        match (self.toolbox, self.place.rsplit_once('.')) {
            (Some(name), Some((list, _))) => format!("`- {{name: {name}, {line}}}` under {list}"),
            _ => format!("`{line}` under {}", self.place),
        }
    }

    /// Returns the place where the plugin's limits are raised: the entry of a toolbox has no limits.
    pub(crate) fn limits_place(&self) -> LimitsPlace {
        match (self.option, self.toolbox) {
            (Some(option), _) => LimitsPlace::Option(option),
            (None, Some(_)) => LimitsPlace::Config("at the top of the config".into()),
            (None, None) => LimitsPlace::Config(format!("under {} in the config", self.place)),
        }
    }

    /// Returns the settings of a plugin without any grant. `place` is its place in the config.
    pub fn new(agent: impl Into<String>, place: impl Into<String>) -> Self {
        let params = RawValue::from_string("{}".into()).expect("it is JSON");
        let (agent, place, grant, mounts) = (agent.into(), place.into(), Grant::default(), Vec::new());
        Self {
            agent,
            place,
            toolbox: None,
            option: None,
            grant,
            mounts,
            ask: BTreeSet::new(),
            opened: Grant::default(),
            ceiling: Ceiling::default(),
            params,
            limits: Limits::default(),
            on_failure: None,
            stores: KvStores::default(),
            credentials: Vec::new(),
            programs: AllowedPrograms::default(),
            fixed_inputs: None,
            responder: None,
        }
    }

    /// Returns the capabilities that the plugin has: those that it requests and that are granted or opened to it,
    /// within the ceiling of its agent.
    pub fn granted(&self, manifest: &PluginManifest) -> Grant {
        let opened = self.ceiling.narrow_opened(&self.opened.meet(&manifest.wants.grant()));
        self.ceiling.narrow(&self.offered(manifest)).join(&opened)
    }

    /// Returns the capabilities whose imports are linked: those that the plugin has, those that reach nothing until a
    /// person opens them, and optional files, which reach nothing without a folder.
    pub(crate) fn linked(&self, manifest: &PluginManifest) -> Grant {
        let openable = PromptableCapability::most(&self.ask).meet(&manifest.wants.grant());
        let mut linked = self.granted(manifest).join(&self.ceiling.narrow_opened(&openable));
        if manifest.files_are_optional {
            linked.files = linked.files.join(&manifest.wants.grant().files);
        }
        linked
    }

    /// Returns the requested capabilities that the agent grants, before the ceiling.
    fn offered(&self, manifest: &PluginManifest) -> Grant {
        self.grant.meet(&manifest.wants.grant())
    }

    /// Returns the requested capabilities that the plugin lacks: for each the place of the config that would have to
    /// grant it, and the line to write there.
    pub fn refused(&self, manifest: &PluginManifest) -> Vec<(Arc<str>, MissingCapability)> {
        let place: Arc<str> = self.place.as_str().into();
        let missing = self.grant.missing(&manifest.wants).into_iter().map(|missing| (Arc::clone(&place), missing));
        missing.chain(self.ceiling.withheld(&self.offered(manifest))).collect()
    }

    /// Returns one decision per requested capability: allowed or refused.
    pub fn decisions(&self, manifest: &PluginManifest) -> Vec<CapabilityDecision> {
        let plugin: Arc<str> = manifest.id.as_str().into();
        let decision =
            |allowed, capability, rule| CapabilityDecision { plugin: Arc::clone(&plugin), capability, allowed, rule };
        let place: Arc<str> = self.place.as_str().into();
        let allowed = Grant::default().lacking(&self.granted(manifest)).into_iter();
        let allowed = allowed.map(|given| decision(true, given.line, Arc::clone(&place)));
        let refused = self.refused(manifest).into_iter();
        allowed.chain(refused.map(|(rule, missing)| decision(false, missing.line, rule))).collect()
    }

    /// Returns warnings for a person about requested capabilities that are not granted. A ceiling withholds on purpose:
    /// what it withholds appears among the [decisions](Self::decisions) only.
    pub fn lacking(&self, manifest: &PluginManifest) -> Vec<String> {
        let (id, place) = (&manifest.id, &self.place);
        let missing = self.grant.missing(&manifest.wants).into_iter();
        let optional = [
            ("files", manifest.files_are_optional),
            ("models", manifest.models_are_optional),
            ("credentials", manifest.credentials_are_optional),
        ];
        // The host asks a person for these when the plugin needs them.
        let asked = |missing: &MissingCapability| self.ask.iter().any(|one| one.capability() == missing.capability);
        let is_optional = |missing: &MissingCapability| {
            manifest.wants_are_optional || optional.contains(&(missing.capability.as_str(), true)) || asked(missing)
        };
        let missing = missing.filter(|missing| !is_optional(missing));
        // Under `plugins` an effect has no powers unless the config names them; under `effects` a shipped one has those
        // it wants.
        let agent = place.strip_suffix(&format!(".plugins.{id}"));
        let is_effect =
            manifest.kinds.contains(&PluginKind::Effect) && !manifest.kinds.iter().any(|kind| kind.is_middleware());
        let lacking = missing.map(|MissingCapability { capability, line }| {
            if let Some(agent) = agent.filter(|_| capability == "powers" && is_effect) {
                return format!(
                    "plugin `{id}` is an effect and has fewer powers here than it requests; move it from `plugins` to \
                     {agent}.effects, as `{{kind: {id}, {line}}}`"
                );
            }
            let without = match capability == "powers" && !offers_tools(manifest, &self.granted(manifest)) {
                true => " (without `provide-tools` its tools are not offered)",
                false => "",
            };
            let how = match self.option {
                Some(_) => self.granted_by(&line),
                None => format!("`{line}` under {place}"),
            };
            format!("plugin `{id}` has fewer capabilities than it requests; grant {how}{without}")
        });
        lacking.collect()
    }

    /// Returns warnings for a person about settings that the plugin has no use for.
    pub fn in_vain(&self, manifest: &PluginManifest) -> Vec<String> {
        let place = &self.place;
        let unwanted = self.grant.unwanted(&manifest.wants).into_iter();
        let mut in_vain: Vec<_> = unwanted
            .map(|unwanted| format!("{place} grants `{unwanted}`, which the plugin does not request"))
            .collect();
        if self.on_failure.is_some() && !manifest.kinds.iter().any(|kind| kind.is_step()) {
            in_vain.push(format!("{place} sets `on_failure`, which is only for effects and middleware"));
        }
        in_vain
    }
}

/// Returns `true` unless the plugin is an effect with tools that lacks the power `provide-tools`.
pub(super) fn offers_tools(manifest: &PluginManifest, grant: &Grant) -> bool {
    !manifest.is_effect_with_tools() || grant.powers.contains(&Power::ProvideTools)
}
