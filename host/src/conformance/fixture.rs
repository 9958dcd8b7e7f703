//! The fixture of an attack: secrets that it must not see, and files that it must not change.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use tempfile::TempDir;

use super::attack::Attack;
use crate::{
    capability::{FileAccess, Power},
    chat::{Chat, Message, Part, Role, ToolCall, ToolResult, ToolResultContent},
    limits,
    plugin::PluginKind,
};

/// The text that a guest says or writes where it has escaped.
pub const ESCAPED: &str = "conformance:escaped";
/// The text that a provider streams and leaves out of its completion.
pub const STREAMED: &str = "conformance:streamed";

/// The folder that an attack may be granted, the files beside it, and the conversation of its run.
pub struct AttackFixture {
    folder: TempDir,
    /// Texts that only the host knows: a description and the text.
    secrets: Vec<(&'static str, String)>,
    /// The initial files, by their path below the folder.
    before: BTreeMap<PathBuf, FixtureFile>,
}

/// The state of a path; links are not followed.
#[derive(PartialEq, Eq)]
struct FixtureFile {
    /// The beginning of the content: an attack may write more than fits into memory.
    content: Vec<u8>,
    length: u64,
    is_file: bool,
    modified: Option<SystemTime>,
}

/// The file in the granted folder that no attack may change.
const CANARY: &str = "files/canary.txt";
/// The description of the secret in the settings of another plugin of the agent.
const OTHER_SETTINGS: &str = "the settings of another plugin";

impl AttackFixture {
    /// Creates the fixture, with the attack's plugin folder.
    pub fn new(attack: &Attack) -> io::Result<Self> {
        let folder = TempDir::new()?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let random = u64::from_le_bytes(random);
        let secret = |what: &'static str, n: u32| (what, format!("secret{n}x{random:016x}"));
        let secrets = vec![
            secret("a file outside of its folder", 0),
            secret("a message", 1),
            secret("the arguments of a call", 2),
            secret("the result of a call", 3),
            secret(OTHER_SETTINGS, 4),
        ];
        let path = |name: &str| folder.path().join(name);
        for name in ["files", "files/deep", "outside", "plugin"] {
            fs::create_dir(path(name))?;
        }
        fs::write(path("outside/secret.txt"), &secrets[0].1)?;
        fs::write(path("files/inside.txt"), "inside")?;
        fs::write(path(CANARY), "as it was")?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink("../outside/secret.txt", path("files/link"))?;
            symlink(path("outside/secret.txt"), path("files/absolute-link"))?;
            symlink("../outside", path("files/folder-link"))?;
            symlink("/", path("files/root-link"))?;
        }
        #[cfg(target_os = "linux")]
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("files/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )?;
        #[cfg(unix)]
        if attack.swaps_links {
            use std::os::unix::fs::symlink;
            fs::create_dir(path("files/raced"))?;
            fs::write(path("files/raced/secret.txt"), "inside")?;
            symlink("../outside", path("files/raced-link"))?;
            fs::write(path("files/raced.txt"), "inside")?;
            symlink("../outside/secret.txt", path("files/raced-link.txt"))?;
        }
        fs::write(path("plugin/plugin.toml"), attack.manifest())?;
        fs::write(path("plugin/component.wasm"), attack.component().map_err(io::Error::other)?)?;
        let mut stage = Self { folder, secrets, before: BTreeMap::new() };
        stage.before = stage.things()?;
        Ok(stage)
    }

    /// Returns the folder that the attack may be granted.
    pub fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// Returns the folder of its plugin.
    pub fn plugin(&self) -> PathBuf {
        self.folder.path().join("plugin")
    }

    /// Returns the settings of the other plugin, a JSON object.
    pub fn other_settings(&self) -> serde_json::Value {
        serde_json::json!({ "key": self.secrets[4].1 })
    }

    /// Returns a conversation with secrets in it, in which it is the agent's turn.
    pub fn chat(&self) -> Chat {
        let chat = Chat::new();
        let [_, message, arguments, result, _] = &self.secrets[..] else { return chat };
        let call = ToolCall {
            id: "earlier".into(),
            name: "lookup".into(),
            arguments: serde_json::json!({ "key": arguments.1 }).to_string(),
            meta: vec![],
        };
        let secret = Message::user(format!("Keep this to yourself: {}", message.1));
        // Cannot fail: an empty conversation accepts a user message.
        let _ = chat.append(secret);
        let asked =
            Message { sender: "victim".into(), role: Role::Assistant, parts: vec![Part::ToolCall(call)], meta: vec![] };
        let found = ToolResultContent::Text(result.1.clone());
        chat.reply(asked).answer(vec![ToolResult { call_id: "earlier".into(), content: vec![found], is_error: false }]);
        chat
    }

    /// Returns the descriptions of the secrets in a text that the attack must not know.
    pub fn leaks<'a>(&'a self, attack: &Attack, text: &str) -> impl Iterator<Item = &'static str> + use<'a> {
        let powers = attack.given().powers;
        let sees = |power| match attack.kind {
            // A provider gets the whole conversation.
            PluginKind::Provider => true,
            _ => powers.contains(&power),
        };
        let may = [false, sees(Power::SeeMessages), sees(Power::SeeArguments), sees(Power::SeeResults), false];
        let found: Vec<_> =
            self.secrets.iter().zip(may).map(|(secret, may)| !may && text.contains(&secret.1)).collect();
        self.secrets.iter().zip(found).filter(|(_, found)| *found).map(|(secret, _)| secret.0)
    }

    /// Returns the paths that have changed and must not have.
    pub fn changed(&self, attack: &Attack) -> io::Result<Vec<String>> {
        let after = self.things()?;
        let may_write = attack.given().files == Some(FileAccess::Write);
        let is_its_own = |path: &Path| may_write && path.starts_with("files") && path != Path::new(CANARY);
        let paths = self.before.keys().chain(after.keys().filter(|path| !self.before.contains_key(*path)));
        let changed = paths.filter(|path| self.before.get(*path) != after.get(*path) && !is_its_own(path));
        Ok(changed.map(|path| path.display().to_string()).collect())
    }

    /// Opens both ends of the pipe, so that a process that waits for the other end goes on.
    pub fn open_the_pipe(&self) {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags};
            // Both ends at once, whichever is awaited.
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
            drop(rustix::fs::open(self.files().join("pipe"), flags, Mode::empty()));
        }
    }

    /// Reads the state of all paths below the folder.
    fn things(&self) -> io::Result<BTreeMap<PathBuf, FixtureFile>> {
        let root = self.folder.path();
        let (mut things, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let metadata = fs::symlink_metadata(&path)?;
                let content = match metadata.file_type() {
                    kind if kind.is_symlink() => fs::read_link(&path)?.into_os_string().into_encoded_bytes(),
                    kind if kind.is_file() => beginning(&path)?,
                    _ => Vec::new(),
                };
                // A folder's time changes with its entries, which are compared by themselves.
                let modified = if metadata.is_dir() { None } else { metadata.modified().ok() };
                if metadata.is_dir() {
                    folders.push(path.clone());
                }
                let length = if metadata.is_dir() { 0 } else { metadata.len() };
                let thing = FixtureFile { content, length, is_file: metadata.is_file(), modified };
                if let Ok(below) = path.strip_prefix(root) {
                    things.insert(below.to_owned(), thing);
                }
            }
        }
        Ok(things)
    }
}

/// Reads the beginning of a file.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?.take(limits::CONFORMANCE_FILE_BYTES).read_to_end(&mut content)?;
    Ok(content)
}
