//! What the tests share: a place to run the program in, and plugins made of text.

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
    /// Where the program keeps what its person trusts.
    state: TempDir,
    is_trusted: bool,
}

/// What a run of the program came to.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    /// What is written here is trusted: a run that finds a config is given `--trust`.
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), state: TempDir::new().unwrap(), is_trusted: true }
    }

    /// What is written here may be anybody's.
    pub fn untrusted() -> Self {
        Self { is_trusted: false, ..Self::new() }
    }

    /// The file in which the program keeps what is trusted.
    pub fn trust_store(&self) -> PathBuf {
        self.state.path().join("shelly-host/trust.json")
    }

    /// The key by which the program knows the sessions of its person.
    pub fn own_key(&self) -> UserKey {
        UserKey::new(Some(self.trust_store().with_file_name("session.key")))
    }

    /// The folder, as the program sees it.
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

    /// Copies the sources of this very project to a folder and makes a repository of it, in which nothing is committed: a tree
    /// as real ones are, with rules of its own about what is ignored.
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

    /// What git says, as anybody would run it.
    pub fn git(&self, folder: &Path, words: &[&str]) -> String {
        let mut git = Command::new("git");
        let git = git.args(words).current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path());
        let output = git.output().expect("these tests need the program git");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a plugin below `plugins/` of component text. `manifest` is its plugin.toml without `id` and `component`.
    pub fn plugin(&self, id: &str, manifest: &str, text: &str) {
        self.plugin_bytes(id, manifest, &wat::parse_str(text).unwrap_or_else(|error| panic!("{error}")));
    }

    /// Makes a plugin below `plugins/` of any bytes.
    pub fn plugin_bytes(&self, id: &str, manifest: &str, component: &[u8]) {
        self.file(&format!("plugins/{id}/plugin.toml"), format!("id = \"{id}\"\ncomponent = \"c.wasm\"\n{manifest}"));
        self.file(&format!("plugins/{id}/c.wasm"), component);
    }

    /// The program in this folder: no key, no config and no home of whoever runs the tests.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-host-under-test"));
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let at = match arguments {
            _ if !self.is_trusted || !self.is_a_project() => 0,
            ["run", ..] => 1,
            ["session", "resume", ..] | ["plugin", "certify", ..] => 2,
            _ => 0,
        };
        let (first, rest) = arguments.split_at(at);
        let trust = (at > 0).then_some("--trust");
        command.args(first).args(trust).args(rest).current_dir(self.path()).env_clear();
        command.env("SHELLY_CACHE_DIR", cache).env("XDG_STATE_HOME", self.state.path());
        // A closed port in place of a local server that may run on this machine is not to be had: discovery is tested
        // by itself, so runs here name their model.
        command.stdin(Stdio::null());
        command
    }

    /// Whether there is something to be found that a person is asked about.
    fn is_a_project(&self) -> bool {
        let usual = ["shelly.yaml", ".shelly/config.yaml", ".shelly/local/permissions.json"];
        usual.iter().any(|path| self.folder.path().join(path).is_file())
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.ran(self.command(arguments).output().unwrap())
    }

    /// What came out, with this folder's name taken out.
    pub fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap().replace(&self.path().display().to_string(), "[DIR]");
            without_made_up_names(&text)
        };
        let Output { status, stdout, stderr } = output;
        Ran { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
    }
}

/// Copies a folder with all below it, but for folders of these names, and links.
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

/// The text with `[SESSION]` for names of sessions that the host made up: `20261122-101530-7f3a9c`.
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
    /// As a snapshot shows it.
    pub fn shown(&self) -> String {
        format!("exit code {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}
