//! Config values with a note on their source. JSON leaves the notes out; YAML shows them as comments.

use std::time::Duration;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;
use serde_saphyr::Commented;

/// A value, and a note on its source if the file does not set it as shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EffectiveSetting {
    pub holds: SettingValue,
    note: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SettingValue {
    One(Value),
    List(Vec<EffectiveSetting>),
    Map(Vec<(String, EffectiveSetting)>),
}

impl EffectiveSetting {
    pub fn new(holds: SettingValue) -> Self {
        Self { holds, note: "" }
    }

    pub fn noted(self, note: &'static str) -> Self {
        Self { note, ..self }
    }

    pub fn noted_if(self, is_so: bool, note: &'static str) -> Self {
        if is_so { self.noted(note) } else { self }
    }

    /// Returns the note; empty if the file sets the value as shown.
    pub fn note(&self) -> &'static str {
        self.note
    }

    /// Returns the value as YAML, with the notes as comments.
    pub fn to_yaml(&self) -> String {
        let options = serde_saphyr::ser_options! { compact_list_indent: false };
        // Serialization fails only if the writer fails or there is an anchor; neither happens here.
        serde_saphyr::to_string_with_options(&AnnotatedSetting(self), options).unwrap_or_default()
    }
}

impl Serialize for EffectiveSetting {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.holds {
            SettingValue::One(value) => value.serialize(to),
            SettingValue::List(settings) => to.collect_seq(settings),
            SettingValue::Map(settings) => to.collect_map(settings.iter().map(|(key, setting)| (key, setting))),
        }
    }
}

/// A setting that serializes with its note; only YAML can show it.
struct AnnotatedSetting<'a>(&'a EffectiveSetting);

impl Serialize for AnnotatedSetting<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0.holds {
            SettingValue::One(value) if self.0.note.is_empty() => value.serialize(to),
            SettingValue::One(value) => Commented(value, self.0.note.to_string()).serialize(to),
            SettingValue::List(settings) => to.collect_seq(settings.iter().map(AnnotatedSetting)),
            SettingValue::Map(settings) => {
                let mut map = to.serialize_map(Some(settings.len()))?;
                settings.iter().try_for_each(|(key, setting)| map.serialize_entry(key, &AnnotatedSetting(setting)))?;
                map.end()
            }
        }
    }
}

pub(super) fn is<T: Serialize + ?Sized>(value: &T) -> EffectiveSetting {
    // All values are texts, numbers, and lists and maps of those. A path that is not UTF-8 becomes null.
    EffectiveSetting::new(SettingValue::One(serde_json::to_value(value).unwrap_or_default()))
}

/// Shows a value whose default is the default of its type.
pub(super) fn set<T: Serialize + Default + PartialEq>(value: &T) -> EffectiveSetting {
    is(value).noted_if(*value == T::default(), "default")
}

pub(super) fn or<T: Serialize>(value: Option<T>, otherwise: T, note: &'static str) -> EffectiveSetting {
    value.map_or_else(|| is(&otherwise).noted(note), |value| is(&value))
}

/// Shows a number for which 0 means `ceiling`.
pub(super) fn positive(value: u32, ceiling: u32) -> EffectiveSetting {
    or(Some(value).filter(|value| *value > 0), ceiling, "0: the maximum")
}

pub(super) fn list(settings: impl Iterator<Item = EffectiveSetting>) -> EffectiveSetting {
    EffectiveSetting::new(SettingValue::List(settings.collect()))
}

pub(super) fn map(settings: impl IntoIterator<Item = (&'static str, EffectiveSetting)>) -> EffectiveSetting {
    EffectiveSetting::new(SettingValue::Map(settings.into_iter().map(|(key, setting)| (key.into(), setting)).collect()))
}

/// Returns the word that stands for a value in the file.
pub(super) fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

pub(super) fn shown(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}
