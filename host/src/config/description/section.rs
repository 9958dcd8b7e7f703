//! The description of a part of the config.

use crate::{
    config::effective_setting::{EffectiveSetting, SettingValue, map},
    trust::{RiskLevel, TrustFacts},
};

/// The description of a mapping of the config: its keys, each with the value that applies, and the facts that a person
/// consents to. A function that describes a mapping takes apart all of its keys, so that none can be added without a
/// decision on both.
#[derive(Default)]
pub(super) struct SectionDescription {
    keys: Vec<(&'static str, EffectiveSetting)>,
    facts: TrustFacts,
}

impl SectionDescription {
    /// Shows a key with its value.
    pub fn show(&mut self, key: &'static str, setting: EffectiveSetting) {
        self.keys.push((key, setting));
    }

    /// Shows several keys with their values.
    pub fn show_all(&mut self, keys: impl IntoIterator<Item = (&'static str, EffectiveSetting)>) {
        self.keys.extend(keys);
    }

    /// Adds the keys and facts of `more`.
    pub fn append(&mut self, more: Self) {
        self.keys.extend(more.keys);
        self.facts.extend(more.facts);
    }

    /// Shows a key whose value has a description of its own.
    pub fn show_section(&mut self, key: &'static str, section: Self) {
        let setting = self.take(section);
        self.show(key, setting);
    }

    /// Shows a key whose value is a list.
    pub fn show_list(&mut self, key: &'static str, sections: impl IntoIterator<Item = Self>) {
        let settings = sections.into_iter().map(|section| self.take(section)).collect();
        self.show(key, EffectiveSetting::new(SettingValue::List(settings)));
    }

    /// Shows a key whose value is a mapping from names.
    pub fn show_named(&mut self, key: &'static str, sections: impl IntoIterator<Item = (String, Self)>) {
        let settings = sections.into_iter().map(|(name, section)| (name, self.take(section))).collect();
        self.show(key, EffectiveSetting::new(SettingValue::Map(settings)));
    }

    /// Adds a fact that a person consents to.
    pub fn disclose(&mut self, risk: RiskLevel, line: String) {
        self.facts.add(risk, line);
    }

    /// Adds a fact that earlier versions spelled in other ways.
    pub fn disclose_spelled_anew(&mut self, risk: RiskLevel, line: String, before: Vec<Vec<String>>) {
        self.facts.add_spelled_anew(risk, line, before);
    }

    /// Removes the facts, for what no file names.
    pub fn without_facts(self) -> Self {
        Self { facts: TrustFacts::default(), ..self }
    }

    /// Returns the values of the keys.
    pub fn into_setting(self) -> EffectiveSetting {
        map(self.keys)
    }

    /// Returns the facts.
    pub fn into_facts(self) -> TrustFacts {
        self.facts
    }

    /// Takes over the facts of a section and returns its values.
    pub fn take(&mut self, section: Self) -> EffectiveSetting {
        self.facts.extend(section.facts);
        map(section.keys)
    }
}
