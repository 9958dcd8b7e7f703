//! Looks up credentials for the plugins that are granted them, and lists the secrets that must not be recorded.

use std::{iter, sync::Arc};

use super::App;
use crate::{
    config::CredentialConfig,
    files, limits,
    net::{
        AuthHeader, Secret, SecretSource,
        egress::{self, Credential},
    },
    openapi::CredentialPlace,
    plugin::{PluginManifest, PluginSettings},
};

impl App {
    /// Resolves the credentials that a plugin is granted, in the order of the config. One that is missing or cannot be
    /// sent is left out with a warning.
    pub(crate) async fn credentials(
        &self,
        settings: &PluginSettings,
        manifest: &PluginManifest,
        warnings: &mut Vec<String>,
    ) -> Vec<Arc<Credential>> {
        let mut there = Vec::new();
        for held in self.granted_credentials(settings, manifest) {
            there.extend(self.resolved_credential(held, &settings.place, warnings).await);
        }
        there
    }

    /// Resolves a credential that `place` in the config names; `None`, with a warning, if it is missing or cannot be sent.
    pub(super) async fn resolved_credential(
        &self,
        held: &CredentialConfig,
        place: &str,
        warnings: &mut Vec<String>,
    ) -> Option<Arc<Credential>> {
        let left_out = |why: String| format!("{place}: ignoring the credential `{}`: {why}", held.name);
        let resolved = match self.keys.resolve(&self.source_of(held), &*self.environment).await {
            Ok(resolved) => resolved,
            Err(error) => {
                warnings.push(left_out(format!("{error}: {}", error.hint())));
                return None;
            }
        };
        let new = resolved.warning.filter(|warning| !warnings.contains(warning));
        warnings.extend(new);
        let (key, audience) = (resolved.secret, held.audience());
        let credential = match held.place() {
            CredentialPlace::Header { name: header, scheme } => {
                Credential::new(held.name.as_str(), &AuthHeader { header, scheme, key }, audience)
            }
            CredentialPlace::Query(parameter) => Credential::in_query(held.name.as_str(), parameter, key, audience),
        };
        match credential {
            Ok(credential) => Some(Arc::new(credential)),
            Err(fault) => {
                warnings.push(left_out(fault.to_string()));
                None
            }
        }
    }

    /// Returns warnings about the credentials that a plugin is granted, as far as possible without looking them up.
    pub(crate) fn doubts_of_credentials(&self, settings: &PluginSettings, manifest: &PluginManifest) -> Vec<String> {
        let (place, http) = (&settings.place, settings.granted(manifest).http);
        let mut doubts = Vec::new();
        for held in self.granted_credentials(settings, manifest) {
            let (name, audience) = (&held.name, held.audience());
            doubts.extend(unencrypted(held));
            if audience.meet(&http).is_empty() {
                let urls = held.audience.join(", ");
                doubts.push(format!(
                    "{place}: the credential `{name}` has no effect, because `http` grants no request to {urls}"
                ));
            }
        }
        doubts
    }

    /// Returns warnings about granted credentials whose environment variable is not set. It may be set where the agent is
    /// run.
    pub(crate) fn unset_credentials(&self, settings: &PluginSettings, manifest: &PluginManifest) -> Vec<String> {
        let unset = |held: &CredentialConfig| self.unset_credential(held, &settings.place);
        self.granted_credentials(settings, manifest).filter_map(unset).collect()
    }

    /// Returns a warning about a credential whose environment variable is not set. `place` in the config names it.
    pub(super) fn unset_credential(&self, held: &CredentialConfig, place: &str) -> Option<String> {
        let variable = held.env.as_ref()?;
        let is_unset = (self.environment)(variable).is_none_or(|value| value.trim().is_empty());
        let (name, source) = (&held.name, self.source_of(held));
        is_unset.then(|| format!("{place}: ignoring the credential `{name}`: {source} is not set"))
    }

    /// Returns the secrets of all credentials with their names, as far as they are known without running a program or
    /// reading a file.
    pub(crate) fn secrets_of_credentials(&self) -> Vec<(String, Secret)> {
        let known = |held: &CredentialConfig| {
            let secret = self.keys.known(&self.source_of(held), &*self.environment);
            let name = format!("credentials.{}", held.name);
            let forms = secret.into_iter().flat_map(|secret| egress::forms(&secret, held.is_basic()));
            forms.map(|secret| (name.clone(), secret)).collect::<Vec<_>>()
        };
        self.config.credentials.iter().flat_map(known).collect()
    }

    /// Notes a credential that the config does not name, such as the token of a server: from now on it is one of the
    /// [secrets](Self::secrets) of this app and its clones.
    pub fn note_secret(&self, name: &str, secret: Secret) {
        self.keys.note(name, secret);
    }

    /// Notes the keys and the credentials of the cluster that the config names, and of its further namespaces, from their
    /// files. A file that cannot be read is reported where the cluster is used.
    pub(super) fn note_cluster_secrets(&self) {
        let Some(cluster) = &self.config.cluster else { return };
        let further = cluster.namespaces.iter().map(|further| (&further.credentials, &further.encryption));
        let all = iter::once((&cluster.credentials, &cluster.encryption)).chain(further);
        let named = all.flat_map(|(credentials, encryption)| {
            let keys = encryption.iter().flat_map(|encryption| encryption.keys());
            let keys = keys.map(|key| ("cluster.encryption", &key.file));
            keys.chain(credentials.iter().map(|held| ("cluster.credentials", &held.file)))
        });
        // The other lines of a credentials file are words for people.
        let is_secret = |line: &&str| line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        for (name, file) in named {
            let path = self.config.root.join(file);
            // Links are followed anywhere, because orchestrators mount secrets as links.
            let root = path.ancestors().last().unwrap_or(&path);
            let text = files::read(&path, root, limits::SECRET_BYTES).unwrap_or_default();
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('-'));
            for (at, line) in lines.filter(is_secret).enumerate() {
                self.keys.note(format!("{name}.{}.{at}", file.display()), Secret::new(line));
            }
        }
    }

    /// Returns the secrets of webhooks with their names.
    pub(super) fn secrets_of_triggers(&self) -> Vec<(String, Secret)> {
        let webhooks = self.config.triggers.iter().filter_map(|trigger| Some((trigger, trigger.webhook.as_ref()?)));
        let secret = |variable: &str| Some(Secret::new((self.environment)(variable)?));
        let named = webhooks.filter_map(|(trigger, webhook)| {
            Some((format!("triggers.{}", trigger.name), secret(&webhook.secret.env)?))
        });
        named.collect()
    }

    fn granted_credentials(
        &self,
        settings: &PluginSettings,
        manifest: &PluginManifest,
    ) -> impl Iterator<Item = &CredentialConfig> {
        let granted = settings.granted(manifest).credentials;
        self.config.credentials.iter().filter(move |held| granted.contains(&held.name))
    }

    fn source_of(&self, held: &CredentialConfig) -> SecretSource {
        match (&held.env, &held.file) {
            (Some(variable), _) => SecretSource::Env(variable.clone()),
            (None, Some(file)) => SecretSource::File(self.config.root.join(file)),
            (None, None) => SecretSource::Command(held.command.clone()),
        }
    }
}

/// Returns warnings about servers to which a credential is sent unencrypted.
pub(super) fn unencrypted(held: &CredentialConfig) -> Vec<String> {
    let (name, audience) = (&held.name, held.audience());
    let readable = audience.rules().filter(|rule| rule.is_readable_on_the_way());
    readable.map(|rule| format!("credentials.{name}: sent to {} unencrypted; write https://", rule.url())).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use base64::{Engine, engine::general_purpose::STANDARD};

    use super::*;
    use crate::{
        approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
        capability::{HttpGrant, NameSet},
        config::Config,
        net::egress::Egress,
    };

    const HELD: &str = "
credentials:
  - {name: env, env: TOKEN, for: [https://h]}
  - {name: file, file: keys/file, for: [https://h]}
  - {name: open, file: keys/open, for: [https://h]}
  - {name: printed, command: [echo, pw-printed], for: [https://h]}
  - {name: basic, env: USER_AND_PASSWORD, for: [https://h], auth: {header: authorization, scheme: basic}}
  - {name: unset, env: UNSET, for: [https://h]}
  - {name: gone, file: keys/gone, for: [https://h]}
  - {name: fails, command: [\"false\"], for: [https://h]}
  - {name: short, command: [echo, abc], for: [https://h]}
  - {name: no-pair, env: TOKEN, for: [https://h], auth: {header: x, scheme: BASIC}}
  - {name: marks, command: [touch, MARK], for: [https://h]}
  - {name: plain, env: TOKEN, for: [http://h, http://localhost, https://h, http://*.lan/x]}
  - {name: elsewhere, env: TOKEN, for: [https://api.other, https://*.other]}
";

    struct World {
        folder: tempfile::TempDir,
        app: App,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let keys = folder.path().join("keys");
            fs::create_dir(&keys).unwrap();
            for (name, mode) in [("file", 0o600), ("open", 0o644)] {
                fs::write(keys.join(name), format!("pw-{name}\n")).unwrap();
                #[cfg(unix)]
                fs::set_permissions(keys.join(name), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            }
            let text = HELD.replace("MARK", &folder.path().join("mark").to_string_lossy());
            let config = Config::parse(&text, folder.path().into()).unwrap_or_else(|report| panic!("{report}"));
            let environment = Arc::new(|name: &str| match name {
                "TOKEN" => Some(" pw-token\n".to_owned()),
                "USER_AND_PASSWORD" => Some("ada:pw-basic".to_owned()),
                _ => None,
            });
            let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
            Self { app: App::new(config, &[], None, environment, broker).unwrap(), folder }
        }

        fn root(&self) -> &Path {
            self.folder.path()
        }
    }

    /// Returns a plugin that asks for HTTP and credentials, and is granted these credentials.
    fn granted(names: &[&str]) -> (PluginSettings, PluginManifest) {
        let manifest =
            "id = \"p\"\ncomponent = \"p.wasm\"\nkinds = [\"tool\"]\nwants = {http = true, credentials = true}";
        let mut settings = PluginSettings::new("a", "agents.a.plugins.p");
        settings.grant.http = HttpGrant::entry("https://h", &[], &[]).unwrap();
        settings.grant.credentials = names.iter().map(|name| (*name).to_owned()).collect();
        (settings, PluginManifest::parse(manifest).unwrap())
    }

    #[tokio::test]
    async fn granted_credentials_resolve_and_missing_ones_warn() {
        let world = World::new();
        for (name, says) in [
            ("env", ""),
            ("file", ""),
            ("open", "contains a secret, but others on this machine can read it (mode 644); set its mode to 600"),
            ("printed", ""),
            ("basic", ""),
            ("unset", "the environment variable `UNSET` is not set: set it where this program is started"),
            ("gone", "keys/gone` cannot be read: no such file"),
            ("fails", "the command `false` failed (exit status: 1): run it yourself"),
            ("short", "the credential `short` has fewer than 4 bytes"),
            ("no-pair", "the credential `no-pair` is not of the form `user:password`"),
        ] {
            let ((settings, manifest), mut warnings) = (granted(&[name]), Vec::new());
            let there = world.app.credentials(&settings, &manifest, &mut warnings).await;
            let egress = Egress::new(HttpGrant::all(), there, Default::default());
            let is_there = says.is_empty() || name == "open";
            assert_eq!(egress.credentials().collect::<Vec<_>>(), if is_there { vec![name] } else { vec![] }, "{name}");
            assert_eq!(warnings.len(), usize::from(!says.is_empty()), "{name}: {warnings:?}");
            let place = format!("agents.a.plugins.p: ignoring the credential `{name}`: ");
            for warning in &warnings {
                assert!(warning.contains(says) && warning.starts_with(&place) != is_there, "{name}: {warning}");
            }
            assert!(!warnings.concat().contains("pw-"), "{name}: {warnings:?}");
        }
        let ((settings, manifest), mut warnings) = (granted(&["printed", "env", "file"]), Vec::new());
        let all = world.app.credentials(&settings, &manifest, &mut warnings).await;
        assert_eq!(all.iter().map(|one| one.name()).collect::<Vec<_>>(), ["env", "file", "printed"]);
        assert!(!format!("{all:?}").contains("pw-"), "{all:?}");
    }

    #[tokio::test]
    async fn credential_command_runs_only_for_granted_plugins() {
        let world = World::new();
        let mark = world.root().join("mark");
        let (asks, plain) = ("wants = {http = true, credentials = true}", "wants = {http = true}");
        let (mut settings, manifest) = granted(&["env"]);
        world.app.credentials(&settings, &manifest, &mut Vec::new()).await;
        settings.grant.credentials = ["marks".to_owned()].into_iter().collect();
        let does_not_ask = "id = \"p\"\ncomponent = \"p.wasm\"\nkinds = [\"tool\"]\n";
        let unasked = PluginManifest::parse(&format!("{does_not_ask}{plain}")).unwrap();
        world.app.credentials(&settings, &unasked, &mut Vec::new()).await;
        world.app.doubts_of_credentials(&settings, &manifest);
        world.app.unset_credentials(&settings, &manifest);
        world.app.secrets_of_credentials();
        let bound = crate::capability::CeilingBound { grant: Some(Default::default()), ..Default::default() };
        let bounded = PluginSettings { ceiling: crate::capability::Ceiling::of("use", bound), ..settings.clone() };
        world.app.credentials(&bounded, &manifest, &mut Vec::new()).await;
        assert!(!mark.exists());
        let asks = PluginManifest::parse(&format!("{does_not_ask}{asks}")).unwrap();
        world.app.credentials(&settings, &asks, &mut Vec::new()).await;
        assert!(mark.exists());
    }

    #[tokio::test]
    async fn known_credentials_are_listed_as_secrets() {
        let world = World::new();
        let known = || {
            let all = world.app.secrets_of_credentials();
            all.iter().map(|(name, secret)| format!("{name}={}", secret.expose())).collect::<Vec<_>>()
        };
        let basic = format!("credentials.basic={}", STANDARD.encode("ada:pw-basic"));
        let of_environment = [
            "credentials.env=pw-token",
            "credentials.basic=pw-basic",
            &basic,
            "credentials.basic=ada:pw-basic",
            "credentials.no-pair=cHctdG9rZW4=",
            "credentials.no-pair=pw-token",
            "credentials.plain=pw-token",
            "credentials.elsewhere=pw-token",
        ];
        assert_eq!(known(), of_environment);
        let (settings, manifest) = granted(&["file", "printed"]);
        world.app.credentials(&settings, &manifest, &mut Vec::new()).await;
        let looked_up: Vec<_> = known().into_iter().filter(|one| !of_environment.contains(&one.as_str())).collect();
        assert_eq!(looked_up, ["credentials.file=pw-file", "credentials.printed=pw-printed"]);
    }

    #[test]
    fn doubtful_credentials_cause_warnings() {
        let world = World::new();
        let doubts = |names: &[&str]| {
            let (settings, manifest) = granted(names);
            let mut all = world.app.doubts_of_credentials(&settings, &manifest);
            all.extend(world.app.unset_credentials(&settings, &manifest));
            all
        };
        assert_eq!(doubts(&["env", "file", "printed", "basic"]), [""; 0]);
        assert_eq!(
            doubts(&["plain", "elsewhere", "unset"]),
            [
                "credentials.plain: sent to http://*.lan/x unencrypted; write https://",
                "credentials.plain: sent to http://h unencrypted; write https://",
                "agents.a.plugins.p: the credential `elsewhere` has no effect, because `http` grants no request to \
                 https://api.other, https://*.other",
                "agents.a.plugins.p: ignoring the credential `unset`: the environment variable `UNSET` is not set",
            ]
        );
        let (mut settings, manifest) = granted(&["env"]);
        settings.grant.credentials = NameSet::default();
        assert_eq!(world.app.doubts_of_credentials(&settings, &manifest), [""; 0]);
    }
}
