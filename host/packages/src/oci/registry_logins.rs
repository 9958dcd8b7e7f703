//! Logins at registries, as docker and podman keep them.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::future::join;
use serde::Deserialize;
use shelly_core::{
    error::why_unreadable,
    files::{self, FileReadError},
    limits,
    process::{PipeOutput, PipeOverflow, ProcessGroup, feed},
};
use shelly_net::{AuthHeader, Secret};

use super::oci_reference::OciReference;
use crate::package_error::PackageError;

/// The user name that means that the secret is a token.
const TOKEN_USER: &str = "<token>";

/// The files in which docker and podman keep logins at registries.
#[derive(Debug, Clone, Default)]
pub struct RegistryLogins {
    files: Vec<PathBuf>,
}

/// A login at a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryLogin {
    /// A user name and a password.
    Password { user: String, password: Secret },
    /// A token that is exchanged for another one.
    IdentityToken(Secret),
}

/// A file with logins. Unknown keys are of the programs that it belongs to.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoginsFile {
    #[serde(default)]
    auths: BTreeMap<String, LoginEntry>,
    /// The helper programs of single registries.
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    /// The helper program of all registries.
    #[serde(default)]
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoginEntry {
    auth: String,
    identitytoken: String,
}

/// The output of a helper program.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperOutput {
    username: String,
    secret: String,
}

impl RegistryLogin {
    fn new(user: String, password: &str) -> Self {
        match user == TOKEN_USER {
            true => Self::IdentityToken(Secret::new(password)),
            false => Self::Password { user, password: Secret::new(password) },
        }
    }

    /// Returns the header that logs in with a password; `None` for a token.
    pub fn basic(&self) -> Option<AuthHeader> {
        let Self::Password { user, password } = self else { return None };
        let key = Secret::new(STANDARD.encode(format!("{user}:{}", password.expose())));
        Some(AuthHeader { header: "authorization".into(), scheme: "Basic".into(), key })
    }
}

impl RegistryLogins {
    /// Creates the logins of these files, which need not exist. The first that has a login counts.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self { files }
    }

    /// Returns the login for a repository; asks a helper program if a file names one.
    ///
    /// # Errors
    ///
    /// [`PackageError::Logins`] if a file or a helper program cannot be used.
    pub async fn find(&self, reference: &OciReference) -> Result<Option<RegistryLogin>, PackageError> {
        for path in &self.files {
            if let Some(logins) = read(path)?
                && let Some(login) = logins.find(reference).await?
            {
                return Ok(Some(login));
            }
        }
        Ok(None)
    }
}

fn read(path: &Path) -> Result<Option<LoginsFile>, PackageError> {
    let wrong = |why: String| PackageError::Logins { of: path.display().to_string(), why };
    // The folder of the file may be a symbolic link: people keep their settings in a repository.
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(why_unreadable(&error))),
    };
    match files::read(&real, files::folder_of(&real), limits::REGISTRY_LOGINS_BYTES) {
        // The text of the error could quote a password.
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| wrong(format!("it is not the JSON of a login file, line {}", error.line()))),
        Err(FileReadError::Io(error)) => Err(wrong(why_unreadable(&error))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

impl LoginsFile {
    async fn find(&self, reference: &OciReference) -> Result<Option<RegistryLogin>, PackageError> {
        let names = names_of(reference);
        if let Some((helper, name)) = names.iter().find_map(|name| Some((self.cred_helpers.get(name)?, name))) {
            return ask_helper(helper, name).await;
        }
        for entry in names.iter().filter_map(|name| self.auths.get(name)) {
            if !entry.identitytoken.is_empty() {
                return Ok(Some(RegistryLogin::IdentityToken(Secret::new(&entry.identitytoken))));
            }
            let decoded = STANDARD.decode(entry.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            if let Some((user, password)) = decoded.as_deref().and_then(|text| text.split_once(':')) {
                return Ok(Some(RegistryLogin::new(user.to_owned(), password.trim_end_matches('\0'))));
            }
        }
        match (&self.creds_store, names.last()) {
            (Some(helper), Some(name)) => ask_helper(helper, name).await,
            _ => Ok(None),
        }
    }
}

/// Returns the names under which logins for a repository are kept: those of podman, which may name the repository, then those
/// of docker. The last is the one that helper programs know.
fn names_of(reference: &OciReference) -> Vec<String> {
    let registry = &reference.registry;
    let mut names = Vec::new();
    let mut path = reference.repository.as_str();
    loop {
        names.push(format!("{registry}/{path}"));
        match path.rsplit_once('/') {
            Some((above, _)) => path = above,
            None => break,
        }
    }
    names.push(format!("https://{registry}"));
    names.push(registry.clone());
    if registry == "docker.io" {
        names.push("https://index.docker.io/v1/".to_owned());
    }
    names
}

/// Asks a helper program for the login at a registry.
async fn ask_helper(helper: &str, server: &str) -> Result<Option<RegistryLogin>, PackageError> {
    let program = format!("docker-credential-{helper}");
    let wrong = |why: String| PackageError::Logins { of: program.clone(), why };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if helper.is_empty() || !helper.bytes().all(is_plain) {
        return Err(wrong("a helper is named by letters, digits, `-`, `_` and `.`".into()));
    }
    let mut command = Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error: io::Error| wrong(why_unreadable(&error));
    let mut running = ProcessGroup::start(&mut command).map_err(failed)?;
    let child = running.child();
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(wrong("it has no pipes".into()));
    };
    let most = usize::try_from(limits::SECRET_BYTES).unwrap_or(usize::MAX);
    let mut said = PipeOutput::default();
    let work = async {
        let (fed, heard) = join(feed(stdin, server.as_bytes()), said.listen(stdout, most, PipeOverflow::HangUp)).await;
        fed.and(heard)?;
        running.end().await
    };
    let status = tokio::time::timeout(limits::SECRET_COMMAND_TIME, work).await;
    let status = status.map_err(|_| wrong(format!("it took longer than {:?}", limits::SECRET_COMMAND_TIME)))?;
    let is_fine = status.map_err(failed)?.success();
    if said.is_cut {
        return Err(wrong(format!("it printed more than {most} bytes")));
    }
    if !is_fine {
        // It is how a helper says that it has no such login.
        return match String::from_utf8_lossy(&said.bytes).contains("credentials not found") {
            true => Ok(None),
            false => Err(wrong("it failed".into())),
        };
    }
    let HelperOutput { username, secret } =
        serde_json::from_slice(&said.bytes).map_err(|_| wrong("it printed no login".into()))?;
    Ok(Some(RegistryLogin::new(username, &secret)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn reference(text: &str) -> OciReference {
        OciReference::parse(text).unwrap().unwrap()
    }

    fn password(user: &str, password: &str) -> Option<RegistryLogin> {
        Some(RegistryLogin::Password { user: user.into(), password: Secret::new(password) })
    }

    #[tokio::test]
    async fn login_is_found_in_files_of_docker_and_podman() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("config.json"), folder.path().join("auth.json"));
        let auth = |text: &str| STANDARD.encode(text);
        let docker = format!(
            r#"{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{}"}}, "ghcr.io": {{"auth": "{}"}}, "t.example": {{"identitytoken": "tok"}}}}, "HttpHeaders": {{}}}}"#,
            auth("me:hub:x"),
            auth("me:of-docker")
        );
        let podman =
            format!(r#"{{"auths": {{"quay.io/team": {{"auth": "{}"}}, "ghcr.io": {{"auth": "x"}}}}}}"#, auth("team:p"));
        fs::write(&one, docker).unwrap();
        fs::write(&other, podman).unwrap();
        let logins = RegistryLogins::new(vec![folder.path().join("none.json"), one, other]);
        let token = Some(RegistryLogin::IdentityToken(Secret::new("tok")));
        for (name, login) in [
            ("oci://docker.io/me/dice:1", password("me", "hub:x")),
            ("oci://ghcr.io/me/dice:1", password("me", "of-docker")),
            ("oci://quay.io/team/sub/dice:1", password("team", "p")),
            ("oci://quay.io/other/dice:1", None),
            ("oci://t.example/dice:1", token),
        ] {
            assert_eq!(logins.find(&reference(name)).await.unwrap(), login, "{name}");
        }
        let basic = password("me", "of-docker").unwrap().basic().unwrap();
        assert_eq!((basic.scheme.as_str(), basic.key.expose()), ("Basic", auth("me:of-docker").as_str()));
    }

    #[tokio::test]
    async fn login_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let large = " ".repeat(usize::try_from(limits::REGISTRY_LOGINS_BYTES).unwrap() + 1);
        for (text, says) in [
            ("{\"auths\": \"sk-secret\"}", "it is not the JSON of a login file, line 1"),
            (large.as_str(), "larger than 1048576 bytes"),
            (r#"{"credsStore": "../evil"}"#, "a helper is named by letters"),
            (r#"{"credHelpers": {"ghcr.io": "not-installed-anywhere"}}"#, "no such file"),
        ] {
            fs::write(&path, text).unwrap();
            let logins = RegistryLogins::new(vec![path.clone()]);
            let report = logins.find(&reference("oci://ghcr.io/dice:1")).await.unwrap_err().report();
            assert!(report.causes[0].contains(says) && !report.to_string().contains("sk-secret"), "{report}");
        }
    }
}
