//! Tells a person that the context window of a model is not known, and where to set it.

use std::path::Path;

use super::{Config, ConfigEntryKind, ProviderConfig, ProviderKind};

impl Config {
    /// Returns the line that sets the window of a model, and the file in which to write it. `provider` is the model's entry,
    /// if the config has one; `user_config` is the path of the user-wide config, whether or not it exists.
    pub fn window_setting(
        &self,
        kind: ProviderKind,
        provider: Option<&ProviderConfig>,
        user_config: Option<&Path>,
    ) -> String {
        let user_config = || match user_config {
            Some(path) => format!("your user-wide config {}", path.display()),
            None => "your user-wide config".to_owned(),
        };
        match provider {
            Some(provider) => {
                let name = &provider.name;
                let file = match (&self.file, self.user.contains(ConfigEntryKind::Model, name)) {
                    (_, true) => user_config(),
                    (Some(file), false) => file.display().to_string(),
                    (None, false) => "the config".to_owned(),
                };
                format!("`context_window: 128000` under providers.{name} in {file}")
            }
            None => format!("`default_context_windows: {{{kind}: 128000}}` in {}", user_config()),
        }
    }

    /// Returns the notice that the window of `model`, the vendor's name, is not known. The rest is as for
    /// [`Config::window_setting`].
    pub fn unknown_window_notice(
        &self,
        model: &str,
        kind: ProviderKind,
        provider: Option<&ProviderConfig>,
        user_config: Option<&Path>,
    ) -> String {
        let setting = self.window_setting(kind, provider, user_config);
        format!(
            "the context window of `{}` is not known, and no size is assumed: a long conversation is shortened only after the \
             model refuses a request as too long; to set the size, write for example {setting}",
            model.escape_debug()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_window_is_set_where_the_model_is_named() {
        let text = "providers: [{name: a, kind: openai, model: m, base_url: 'http://127.0.0.1:1/v1'}]";
        let mut config = Config::parse(text, "/p".into()).unwrap_or_else(|report| panic!("{report}"));
        config.file = Some("/p/shelly.yaml".into());
        let user_config = Some(Path::new("/home/me/config.yaml"));
        let entry = config.window_setting(ProviderKind::Openai, config.providers.first(), user_config);
        assert_eq!(entry, "`context_window: 128000` under providers.a in /p/shelly.yaml");
        let notice = config.unknown_window_notice("m", ProviderKind::Openai, None, user_config);
        for says in
            ["window of `m` is not known", "`default_context_windows: {openai: 128000}`", "/home/me/config.yaml"]
        {
            assert!(notice.contains(says), "{says}: {notice}");
        }
        config.user.note(ConfigEntryKind::Model, "a", false);
        let of_person = config.window_setting(ProviderKind::Openai, config.providers.first(), user_config);
        assert!(of_person.ends_with("under providers.a in your user-wide config /home/me/config.yaml"), "{of_person}");
    }
}
