//! The user-wide config: what a person sets for all projects.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    Config, ConfigErrors, GitConfig,
    config::{bounded_bytes, utf8},
    installed_agents::InstalledAgentPackage,
    located_yaml::misplaced_key,
    ownership::check_ownership,
};
use crate::{
    error::{ErrorKind, Report, why_unreadable},
    files, limits,
};

/// A person's own config for all projects. It was checked by itself, and to belong to this person alone.
#[derive(Debug, Clone)]
pub struct UserConfig(Config);

impl UserConfig {
    /// Reads the user-wide config; `None` if there is no such file. `home` is the person's home folder, above which no
    /// folder is examined.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`] if somebody else could change the file, it cannot be read, or it has mistakes.
    pub fn read(path: &Path, home: Option<&Path>) -> Result<Option<Self>, ConfigErrors> {
        match fs::symlink_metadata(path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            _ => {}
        }
        let shown = path.display();
        let unreadable = |error: io::Error| {
            Report::new(ErrorKind::Usage, format!("cannot read the user-wide config {shown}"))
                .cause(why_unreadable(&error))
                .hint("put a readable file there, or move it away")
        };
        let file = files::open(path).map_err(unreadable)?;
        check_ownership(&file, path, home)?;
        let bytes = bounded_bytes(file).map_err(unreadable)?.ok_or_else(|| {
            let most = limits::CONFIG_BYTES;
            Report::new(ErrorKind::Usage, format!("the user-wide config {shown} exceeds {most} bytes"))
                .hint("shorten the file, or move it away")
        })?;
        let text = utf8(bytes).map_err(|report| report.in_file(shown))?;
        Self::parse(path, &text).map(Some)
    }

    /// Parses the text of a user-wide config at this path, which the caller has checked to belong to the person alone.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`], whose reports each name the file, the position in it and the fix.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigErrors> {
        let folder = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = folder.parent().unwrap_or(Path::new("/")).to_owned();
        let mut config = Config::in_file(path, Config::parse_over(text, folder.clone(), |_| Ok(())))?;
        if config.git != GitConfig::default() {
            let report = misplaced_key(text, "git", "a setting of one project");
            return Err(report.hint("move it to the config of that project").in_file(path.display()).into());
        }
        if !config.triggers.is_empty() {
            let report = misplaced_key(text, "triggers", "a setting of one project");
            return Err(report.hint("move it to the config of that project").in_file(path.display()).into());
        }
        config.name_own_files_below(&folder);
        Ok(Self(config))
    }

    /// Adds the agents of installed packages. Without a user-wide config they are all that there is of it.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`] if a name is there twice, or a package does not comply with the person's rules for signatures.
    pub(super) fn with_installed(
        user: Option<Self>,
        installed: &[InstalledAgentPackage],
    ) -> Result<Self, ConfigErrors> {
        let mut config = user.map(Self::into_config).unwrap_or_default();
        for package in installed {
            package.add_to(&mut config)?;
            config.check_signature(package)?;
        }
        Ok(Self(config))
    }

    /// Returns the entries.
    pub(super) fn into_config(self) -> Config {
        self.0
    }
}

impl Config {
    /// Makes the paths absolute that name files of the person: keys, programs, and directories of plugins. The folders in
    /// which agents, servers and programs work remain relative: they are below the root of each project.
    fn name_own_files_below(&mut self, folder: &Path) {
        let below = |path: &mut PathBuf| *path = folder.join(&*path);
        self.providers.iter_mut().filter_map(|provider| provider.api_key_file.as_mut()).for_each(below);
        self.credentials.iter_mut().filter_map(|credential| credential.file.as_mut()).for_each(below);
        self.plugin_dirs.iter_mut().for_each(below);
        if let Some(cluster) = &mut self.cluster {
            let further =
                cluster.namespaces.iter_mut().map(|further| (&mut further.credentials, &mut further.encryption));
            for (credentials, encryption) in
                [(&mut cluster.credentials, &mut cluster.encryption)].into_iter().chain(further)
            {
                credentials.iter_mut().map(|credentials| &mut credentials.file).for_each(below);
                if let Some(encryption) = encryption {
                    below(&mut encryption.key.file);
                    encryption.old_keys.iter_mut().map(|key| &mut key.file).for_each(below);
                }
            }
            cluster.certificates.iter_mut().for_each(below);
        }
        if let Some(index) = self.plugin_index.as_mut().filter(|index| !index.contains("://")) {
            *index = folder.join(&*index).to_string_lossy().into_owned();
        }
        for api in self.openapi.iter_mut().filter(|api| !api.is_at_url()) {
            api.document = folder.join(&api.document).to_string_lossy().into_owned();
        }
        let of_servers = self.mcp_servers.iter_mut().filter_map(|server| server.command.as_mut());
        let of_programs = self.programs.values_mut().filter_map(|program| program.command.as_mut());
        let of_models = self.providers.iter_mut().filter_map(|provider| provider.api_key_command.first_mut());
        let of_credentials = self.credentials.iter_mut().filter_map(|credential| credential.command.first_mut());
        let commands = of_servers.chain(of_programs).chain(of_models).chain(of_credentials);
        // A bare name is looked up in `PATH`.
        for command in commands.filter(|command| Path::new(command).components().count() > 1) {
            *command = folder.join(&*command).to_string_lossy().into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(result: Result<Option<UserConfig>, ConfigErrors>) -> Vec<Report> {
        result.err().map(|errors| errors.reports).unwrap_or_default()
    }

    #[test]
    fn missing_user_config_is_none() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        for path in ["config.yaml", "none/config.yaml", "file/config.yaml"] {
            assert!(UserConfig::read(&home.path().join(path), None).unwrap().is_none(), "{path}");
        }
    }

    #[test]
    fn unusable_user_config_is_refused_with_reason() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.yaml");
        for (text, says, hint) in [
            ("agents: [", "the config is not valid YAML (", "check quotes"),
            ("# x\nagnts: []\n", "there is no key `agnts` (", "did you mean `agents`?"),
            ("entry_agent: a\n", "there is no agent `a` (", "add the agent under `agents`"),
            (
                "triggers: [{name: a, cron: '0 3 * * *', task: t}]\n",
                "`triggers` is a setting of one project (",
                "move it",
            ),
            ("sessions: {}\ngit: {work_dir: x}\n", "`git` is a setting of one project (", "move it"),
        ] {
            fs::write(&path, text).unwrap();
            let found = reports(UserConfig::read(&path, None));
            let shown = format!("{}{}", found[0], found[0].hint.as_deref().unwrap_or_default());
            assert!(shown.contains(says) && shown.contains("config.yaml") && shown.contains(hint), "{shown}");
        }
        assert!(reports(UserConfig::read(&path, None))[0].message.contains("config.yaml, line 2"));
        fs::write(&path, b"a: \xff").unwrap();
        assert!(reports(UserConfig::read(&path, None))[0].message.contains("is not UTF-8 text ("));
        fs::write(&path, "#".repeat(limits::CONFIG_BYTES as usize + 1)).unwrap();
        let found = reports(UserConfig::read(&path, None));
        assert!(found[0].message.ends_with("exceeds 1048576 bytes") && found[0].hint.is_some(), "{found:?}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let found = reports(UserConfig::read(&path, None));
        assert_eq!(found[0].causes, ["expected a file, found a folder"]);
    }

    #[cfg(unix)]
    #[test]
    fn dangling_link_and_pipe_as_user_config_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.yaml");
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert_eq!(reports(UserConfig::read(&path, None))[0].causes, ["no such file or folder"]);
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        assert_eq!(reports(UserConfig::read(&path, None))[0].causes, ["expected a file, found a pipe"]);
    }
}
