//! Helpers that the tests share: a folder to run the program in, and plugins made of text.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use shelly_host::trust::UserKey;
use tempfile::TempDir;

/// A folder of its own for a run of the program, with an environment of its own.
pub struct Place {
    folder: TempDir,
    /// The folder in which the program keeps what its user trusts.
    state: TempDir,
    is_trusted: bool,
}

/// The outcome of a run of the program.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    /// Creates a folder whose files are trusted: a run that finds a config is given `--trust`.
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), state: TempDir::new().unwrap(), is_trusted: true }
    }

    /// Creates a folder whose files are not trusted.
    pub fn untrusted() -> Self {
        Self { is_trusted: false, ..Self::new() }
    }

    /// Returns the file in which the program keeps what is trusted.
    pub fn trust_store(&self) -> PathBuf {
        self.state.path().join("shelly-host/trust.json")
    }

    /// Returns the key with which the program marks the sessions of its user.
    pub fn own_key(&self) -> UserKey {
        UserKey::new(Some(self.trust_store().with_file_name("session.key")))
    }

    /// Returns the folder, as the program sees it.
    pub fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Writes a file, with the folders that it needs.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Copies the sources of this project to a folder and makes a repository of it, in which nothing is committed: a
    /// realistic tree with ignore rules of its own.
    pub fn real_tree(&self, name: &str) -> PathBuf {
        let (source, tree) = (Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap(), self.path().join(name));
        for part in ["docs", "host", "plugins", "sdk", "tests/all", "tests/guests", "wit"] {
            copy(&source.join(part), &tree.join(part), &["target"]);
        }
        self.file(&format!("{name}/.gitignore"), "*.snap\n!*mistakes.snap\n/docs/\nsrc/**/mod.rs\n");
        self.file(&format!("{name}/plugins/.gitignore"), "# all but one\nCargo.toml\n!/kit/Cargo.toml\nread-files/\n");
        self.file(&format!("{name}/sdk/.gitignore"), "rust/src/*.rs\n!rust/src/fs.rs\n");
        self.git(&tree, &["init", "--quiet", "--initial-branch=main"]);
        tree
    }

    /// Returns the output of git, as any user would run it.
    pub fn git(&self, folder: &Path, words: &[&str]) -> String {
        let mut git = Command::new("git");
        let git = git.args(words).current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path());
        let output = git.output().expect("these tests need the program git");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes a plugin below `plugins/` from component text. `manifest` is its plugin.toml without `id` and `component`.
    pub fn plugin(&self, id: &str, manifest: &str, text: &str) {
        self.plugin_bytes(id, manifest, &wat::parse_str(text).unwrap_or_else(|error| panic!("{error}")));
    }

    /// Writes a plugin below `plugins/` from any bytes.
    pub fn plugin_bytes(&self, id: &str, manifest: &str, component: &[u8]) {
        self.file(&format!("plugins/{id}/plugin.toml"), format!("id = \"{id}\"\ncomponent = \"c.wasm\"\n{manifest}"));
        self.file(&format!("plugins/{id}/c.wasm"), component);
    }

    /// Returns a command of the program in this folder, without the keys, the config and the home folder of the developer.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-host-under-test"));
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let at = match arguments {
            _ if !self.is_trusted || !self.is_a_project() => 0,
            ["run" | "batch", ..] => 1,
            ["session", "resume", ..] | ["plugin", "certify", ..] => 2,
            _ => 0,
        };
        let (first, rest) = arguments.split_at(at);
        let trust = (at > 0).then_some("--trust");
        command.args(first).args(trust).args(rest).current_dir(self.path()).env_clear();
        command.env("SHELLY_CACHE_DIR", cache).env("XDG_STATE_HOME", self.state.path());
        // A local model server of this machine cannot be hidden behind a closed port: discovery has tests of its own, and
        // other runs name their model.
        command.stdin(Stdio::null());
        command
    }

    /// Returns `true` if the folder has a file about which a user is asked.
    fn is_a_project(&self) -> bool {
        let usual = ["shelly.yaml", ".shelly/config.yaml", ".shelly/local/permissions.json"];
        usual.iter().any(|path| self.folder.path().join(path).is_file())
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.ran(self.command(arguments).output().unwrap())
    }

    /// Returns the output, with the name of this folder replaced by `[DIR]`.
    pub fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap().replace(&self.path().display().to_string(), "[DIR]");
            without_made_up_names(&text)
        };
        let Output { status, stdout, stderr } = output;
        Ran { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
    }
}

/// Copies a folder with all below it, except folders of the names in `but`, and links.
pub fn copy(from: &Path, to: &Path, but: &[&str]) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() && !but.iter().any(|name| *entry.file_name() == **name) => {
                copy(&entry.path(), &to, but)
            }
            kind if kind.is_file() => drop(fs::copy(entry.path(), to).unwrap()),
            _ => {}
        }
    }
}

/// Returns the text with `[SESSION]` for generated session names such as `20261122-101530-7f3a9c`.
fn without_made_up_names(text: &str) -> String {
    const SHAPE: &[u8] = b"dddddddd-dddddd-xxxxxx";
    let is_name = |at: usize| {
        let part = text.as_bytes().get(at..at + SHAPE.len());
        part.is_some_and(|part| {
            part.iter().zip(SHAPE).all(|(byte, shape)| match shape {
                b'd' => byte.is_ascii_digit(),
                b'x' => byte.is_ascii_hexdigit(),
                _ => byte == shape,
            })
        })
    };
    let (mut shown, mut from) = (String::new(), 0);
    while let Some(at) = (from..text.len()).find(|at| is_name(*at)) {
        shown.push_str(&text[from..at]);
        shown.push_str("[SESSION]");
        from = at + SHAPE.len();
    }
    shown + &text[from..]
}

impl Ran {
    /// Returns the run as a snapshot shows it.
    pub fn shown(&self) -> String {
        format!("exit code {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}
