//! Tests of `sdk/rust/wasm-toolchain.sh` on simulated machines: every tool that could reach a network or reveal this
//! machine is a fake on a separate `PATH`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::testing::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm-toolchain.sh");
const LINUX: &str = "x86_64-unknown-linux-gnu";

/// The tools that behave alike everywhere.
const REAL: &[&str] = &[
    "awk", "bash", "cat", "chmod", "cmp", "cp", "dirname", "find", "flock", "grep", "head", "id", "ln", "mkdir", "mv",
    "od", "readlink", "rm", "sed", "sh", "sort", "tail", "tar", "timeout", "tr", "uname", "wc",
];

/// The beginning of every fake: it records the call.
const NOTE: &str = "#!/bin/sh\necho \"${0##*/} $*\" >>\"$FAKE/calls\"\n";

/// A rustc that knows its host and sysroot, and compiles anything to an empty module.
const RUSTC: &str = r#"
case $* in
    -vV) printf 'rustc 1.95.0\nhost: %s\n' "$(cat "$FAKE/host")"; exit ;;
    -V) echo 'rustc 1.95.0'; exit ;;
    '--print sysroot') echo "$FAKE/sysroot"; exit ;;
esac
while [ "$1" != -o ]; do shift; done
printf '\0asm' >"$2"
"#;

/// A rustup that adds the target if the file `online` exists.
const RUSTUP: &str = r#"
case $1 in
    which) cat "$FAKE/rustup-rustc" ;;
    target)
        [ -f "$FAKE/online" ] || { echo 'error: no network' >&2; exit 1; }
        mkdir -p "$FAKE/sysroot/lib/rustlib/wasm32-unknown-unknown/lib"
        : >"$FAKE/sysroot/lib/rustlib/wasm32-unknown-unknown/lib/libstd-1.rlib" ;;
esac
"#;

/// A cargo that compiles std: it creates a std and the crate that requested it.
const CARGO: &str = r#"
[ -n "$RUSTC" ] && [ "$RUSTC_BOOTSTRAP" = 1 ] || exit 1
while [ "$1" != --target-dir ]; do shift; done
mkdir -p "$2/wasm32-unknown-unknown/release/deps"
: >"$2/wasm32-unknown-unknown/release/deps/libstd-1.rlib"
: >"$2/wasm32-unknown-unknown/release/deps/libstd_for_wasm-1.rlib"
"#;

/// An apt-get. The file `lists` contains the version in the system's package lists; `archive` contains the available
/// version (no file: no network). A private folder for lists means that an update was run before.
const APT_GET: &str = r#"
known=$(cat "$FAKE/lists")
case $* in *Dir::State::lists=*) known=$(cat "$FAKE/archive" 2>/dev/null) ;; esac
case $* in
    *--simulate*)
        [ -n "$known" ] || exit 100
        echo "Inst rustc-web ($known Debian:12 [amd64])"
        echo "Inst rust-web-src ($known Debian:12 [all])"
        echo "Inst libc6 [2.0] (3.0 Debian:12 [amd64])"
        echo "Inst libllvm22 (1:22.1 Debian:12 [amd64])" ;;
    *update*) [ -f "$FAKE/archive" ] || { echo 'E: no network' >&2; exit 100; } ;;
    *download*)
        [ "$known" = "$(cat "$FAKE/archive" 2>/dev/null)" ] || { echo 'E: not found' >&2; exit 100; }
        : >"rustc-web_${known}_amd64.deb"
        : >"rust-web-src_${known}_all.deb"
        : >"libllvm22_1%3a22.1_amd64.deb" ;;
esac
"#;

const APT_CACHE: &str = r#"
known=$(cat "$FAKE/lists")
case $* in *Dir::State::lists=*) known=$(cat "$FAKE/archive") ;; esac
printf 'rustc-web:\n  Installed: (none)\n  Candidate: %s\n' "${known:-(none)}"
"#;

/// A dpkg-deb for which every package contains the files of both the compiler's and the sources' package.
const DPKG_DEB: &str = r#"
mkdir -p "$FAKE/deb/usr/bin" "$FAKE/deb/usr/share" "$FAKE/deb/usr/lib/rustlib" "$FAKE/deb/usr/src/rustc-1/library"
: >"$FAKE/deb/usr/lib/rustlib/x"
: >"$FAKE/deb/usr/src/rustc-1/library/x"
cp "$FAKE/bin/rustc" "$FAKE/deb/usr/bin/rustc"
cd "$FAKE/deb" && tar -c .
"#;

const DPKG: &str = r#"
case $1 in
    --print-architecture) echo amd64 ;;
    --compare-versions)
        newest=$(printf '%s\n' "$2" "$4" | sort -V | tail -n 1)
        case $3 in
            ge) [ "$newest" = "$2" ] ;;
            gt) [ "$newest" = "$2" ] && [ "$2" != "$4" ] ;;
        esac ;;
esac
"#;

/// A machine with cargo and a rustc that has everything but the wasm target; without rustup and apt.
struct Machine {
    dir: TempDir,
}

impl Machine {
    fn new(host: &str) -> Self {
        let machine = Self { dir: TempDir::new() };
        fs::create_dir(machine.path("bin")).expect("a folder");
        for tool in REAL {
            // Links the tools that exist. macOS has neither flock nor timeout, and the script works without them.
            if let Some(path) = real(tool) {
                symlink(path, machine.path("bin").join(tool)).expect("a link");
            }
        }
        machine.set("host", host);
        machine.set("calls", "");
        machine.fake("rustc", RUSTC);
        machine.fake("cargo", CARGO);
        machine.dir.write(format!("sysroot/lib/rustlib/{host}/bin/rust-lld"), "");
        machine.dir.write(format!("sysroot/lib/rustlib/{host}/bin/wasm-component-ld"), "");
        machine.executable(&format!("sysroot/lib/rustlib/{host}/bin/rust-lld"));
        machine.executable(&format!("sysroot/lib/rustlib/{host}/bin/wasm-component-ld"));
        machine
    }

    fn with_target(self) -> Self {
        self.dir.write("sysroot/lib/rustlib/wasm32-unknown-unknown/lib/libstd-1.rlib", "");
        self
    }

    fn with_rustup(self) -> Self {
        self.fake("rustup", RUSTUP);
        self.set("rustup-rustc", &self.path("sysroot/bin/rustc").display().to_string());
        self
    }

    /// Adds Debian's tools, with the version in the system's package lists and the version in the archive.
    fn with_debian(self, lists: &str, archive: Option<&str>) -> Self {
        for (tool, text) in
            [("apt-get", APT_GET), ("apt-cache", APT_CACHE), ("dpkg", DPKG), ("dpkg-deb", DPKG_DEB), ("cc", "")]
        {
            self.fake(tool, text);
        }
        self.set("lists", lists);
        if let Some(version) = archive {
            self.set("archive", version);
        }
        self
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    fn set(&self, file: &str, content: &str) {
        self.dir.write(file, content);
    }

    fn fake(&self, tool: &str, text: &str) {
        self.set(&format!("bin/{tool}"), &format!("{NOTE}{text}"));
        self.executable(&format!("bin/{tool}"));
    }

    fn executable(&self, file: &str) {
        fs::set_permissions(self.path(file), fs::Permissions::from_mode(0o755)).expect("an executable file");
    }

    fn run(&self, route: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.path("bin/bash"));
        command.arg(SCRIPT).args(arguments).arg(self.path("made")).current_dir(self.dir.path());
        command.env_clear().env("PATH", self.path("bin")).env("FAKE", self.dir.path()).env("SHELLY_WASM_ROUTE", route);
        // Sets the variables that cargo sets for a build script.
        command.env("RUSTC", "/not/this/rustc").env("CARGO_TARGET_DIR", "/not/here").output().expect("bash runs")
    }

    /// Returns the routes that `--which` prints, and checks that it neither changes anything nor calls a tool that might
    /// use the network.
    fn which(&self, route: &str) -> Vec<String> {
        let output = self.run(route, &["--which"]);
        assert!(output.status.success(), "{}", message(&output));
        assert!(!self.path("made").exists() || self.path("made/env.sh").exists(), "--which left something behind");
        assert_eq!(self.network_calls(), 0, "{}", self.calls());
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// Prepares the toolchain and returns the script's last message.
    fn prepare(&self, route: &str) -> String {
        let output = self.run(route, &[]);
        assert!(output.status.success(), "{}\n{}", message(&output), self.calls());
        assert!(output.stdout.is_empty(), "stdout is for cargo");
        message(&output)
    }

    fn refuse(&self, route: &str, arguments: &[&str]) -> String {
        let output = self.run(route, arguments);
        assert!(!output.status.success() && output.stdout.is_empty(), "{}", message(&output));
        message(&output)
    }

    fn env(&self) -> String {
        fs::read_to_string(self.path("made/env.sh")).expect("env.sh").replace(&self.path("").display().to_string(), "/")
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).expect("calls")
    }

    fn network_calls(&self) -> usize {
        let reaches_out =
            |call: &&str| call.contains("rustup target") || call.starts_with("apt-get") || call.starts_with("cargo");
        self.calls().lines().filter(reaches_out).count()
    }

    fn forget_calls(&self) {
        self.set("calls", "");
    }
}

fn real(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn toolchain_script_uses_an_installed_target() {
    let machine = Machine::new("aarch64-apple-darwin").with_target();
    assert_eq!(machine.which("auto"), ["rustup installed"]);
    assert_eq!(machine.which("rustup"), ["rustup installed"]);
    machine.prepare("auto");
    let linker = "'/sysroot/lib/rustlib/aarch64-apple-darwin/bin/wasm-component-ld'";
    assert!(machine.env().ends_with(&format!("\nexport CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER={linker}\n")));
    assert!(!machine.env().contains("RUSTC="));
    assert_eq!(machine.network_calls(), 0);
}

#[test]
fn toolchain_script_prefers_rustup_to_debian() {
    let machine = Machine::new(LINUX).with_rustup().with_debian("1.96.0-1", Some("1.96.0-1"));
    assert_eq!(machine.which("auto"), ["rustup add", "debian make"]);
    assert_eq!(machine.which("rustup"), ["rustup add"]);
    assert_eq!(machine.which("debian"), ["debian make"]);
    machine.set("online", "");
    machine.prepare("auto");
    assert!(!machine.env().contains("RUSTC="));
    machine.forget_calls();
    assert_eq!(machine.which("auto"), ["rustup installed"]);
}

#[test]
fn toolchain_script_ignores_an_unrelated_rustup() {
    let machine = Machine::new(LINUX).with_rustup().with_debian("1.96.0-1", None);
    machine.set("rustup-rustc", "/another/toolchain/bin/rustc");
    assert_eq!(machine.which("auto"), ["debian make"]);
    let text = machine.refuse("rustup", &["--which"]);
    assert_contains(&text, &["error: no route", "rustup does not manage the rustc that is in use", "hint:"]);
}

#[test]
fn toolchain_script_without_a_route_names_every_obstacle() {
    let machine = Machine::new(LINUX);
    for arguments in [&["--which"][..], &[]] {
        let text = machine.refuse("auto", arguments);
        assert_contains(
            &text,
            &["rustup is not on PATH", "it needs apt-get, which is not on PATH", "rustup target add"],
        );
    }
    let machine = Machine::new("aarch64-unknown-linux-gnu").with_debian("1.96.0-1", Some("1.96.0-1"));
    assert_contains(
        &machine.refuse("debian", &[]),
        &["made for x86_64-unknown-linux-gnu, this is aarch64-unknown-linux-gnu"],
    );
}

// The test unpacks with GNU tar.
#[cfg(target_os = "linux")]
#[test]
fn toolchain_script_unpacks_debian_packages_once() {
    let machine = Machine::new(LINUX).with_rustup().with_debian("1.96.0-1", Some("1.96.0-1"));
    let text = machine.prepare("auto");
    assert_contains(&text, &["rustup could not add", "| error: no network", "Debian's rustc-web 1.96.0-1 is ready"]);
    assert!(machine.env().contains("export RUSTC='/made/debian/rustc'\n"), "{}", machine.env());
    let libs = machine.path("made/debian/usr/lib/rustlib/wasm32-unknown-unknown/lib");
    assert!(libs.join("libstd-1.rlib").exists() && !libs.join("libstd_for_wasm-1.rlib").exists());
    for gone in ["debs", "debian.new", "debian/usr/src", "debian/usr/share", "debian/std"] {
        assert!(!machine.path("made").join(gone).exists(), "{gone}");
    }
    assert_contains(&machine.calls(), &["libllvm22=1:22.1"]);
    assert!(!machine.calls().contains("libc6="), "a second libc:\n{}", machine.calls());

    machine.forget_calls();
    let time = |file: &str| fs::metadata(machine.path(file)).and_then(|data| data.modified()).expect("a time");
    let written = time("made/env.sh");
    assert_eq!(machine.which("auto"), ["debian made"]);
    machine.prepare("auto");
    assert_eq!(machine.network_calls(), 0, "{}", machine.calls());
    assert_eq!(time("made/env.sh"), written);
}

// The test unpacks with GNU tar.
#[cfg(target_os = "linux")]
#[test]
fn toolchain_script_replaces_outdated_lists_by_private_ones() {
    for lists in ["1.85.0-1", "1.95.1-1", ""] {
        let machine = Machine::new(LINUX).with_debian(lists, Some("1.96.0-1"));
        let text = machine.prepare("auto");
        assert_contains(&text, &["fetching Debian's package lists", "Debian's rustc-web 1.96.0-1 is ready"]);
        // The system's lists still name only the older version, which must not cause a downgrade.
        machine.forget_calls();
        machine.prepare("auto");
        assert_eq!(machine.network_calls(), 0, "{}", machine.calls());
    }
}

#[test]
fn toolchain_script_refuses_a_too_old_rustc() {
    let machine = Machine::new(LINUX).with_debian("1.85.0-1", Some("1.94.1-1"));
    let text = machine.refuse("debian", &[]);
    assert_contains(&text, &["error: no rustc-web of Rust 1.95 or newer", "apt offers 1.94.1-1", "hint:"]);
}

#[test]
fn toolchain_script_without_network_says_so() {
    let machine = Machine::new(LINUX).with_debian("1.96.0-1", None);
    let text = machine.refuse("auto", &[]);
    assert_contains(&text, &["| E: no network", "error: cannot fetch Debian's package lists", "is there network?"]);
}

// The test unpacks with GNU tar.
#[cfg(target_os = "linux")]
#[test]
fn toolchain_script_updates_to_a_newer_debian_version() {
    let machine = Machine::new(LINUX).with_debian("1.95.0-1", Some("1.95.0-1"));
    machine.prepare("auto");
    machine.set("lists", "1.96.0-1");

    // The version is known but not available: the existing toolchain is kept, and the next run does not try again.
    fs::remove_file(machine.path("archive")).expect("a file");
    let text = machine.prepare("auto");
    assert_contains(&text, &["newer than 1.95.0-1", "going on with 1.95.0-1", "rustc-web 1.95.0-1 is ready"]);
    machine.forget_calls();
    machine.prepare("auto");
    assert_eq!(machine.network_calls(), 0, "{}", machine.calls());

    // A newer version causes another attempt.
    machine.set("lists", "1.97.0-1");
    machine.set("archive", "1.97.0-1");
    let text = machine.prepare("auto");
    assert_contains(&text, &["newer than 1.95.0-1", "rustc-web 1.97.0-1 is ready"]);
}

// The test unpacks with GNU tar.
#[cfg(target_os = "linux")]
#[test]
fn toolchain_script_restarts_an_interrupted_preparation() {
    let machine = Machine::new(LINUX).with_debian("1.96.0-1", Some("1.96.0-1"));
    machine.dir.write("made/debian.new/usr/half", "");
    machine.dir.write("made/debian/rustc", "");
    machine.prepare("auto");
    assert!(!machine.path("made/debian/usr/half").exists());
}

#[test]
fn toolchain_script_requires_a_component_linker() {
    let machine = Machine::new(LINUX).with_target();
    fs::remove_file(machine.path("sysroot/lib/rustlib").join(LINUX).join("bin/wasm-component-ld")).expect("a file");
    let text = machine.refuse("auto", &[]);
    assert_contains(&text, &["error: no wasm-component-ld", "cargo install wasm-component-ld"]);
    machine.fake("wasm-component-ld", "");
    machine.prepare("auto");
    assert!(machine.env().contains("LINKER='/bin/wasm-component-ld'"), "{}", machine.env());
}

#[test]
fn toolchain_script_verifies_that_the_toolchain_builds() {
    let machine = Machine::new(LINUX).with_target();
    machine.fake("rustc", &RUSTC.replace("printf '\\0asm' >\"$2\"", "echo 'error: no such linker' >&2; exit 1"));
    let text = machine.refuse("auto", &[]);
    assert_contains(&text, &["| error: no such linker", "does not build a module"]);
    machine.fake("rustc", RUSTC);
    machine.prepare("auto");
}

#[test]
fn toolchain_script_refuses_invalid_arguments() {
    let machine = Machine::new(LINUX).with_target();
    assert_contains(&machine.refuse("snap", &[]), &["SHELLY_WASM_ROUTE=snap", "rustup, debian or auto"]);
    assert_contains(&machine.refuse("auto", &["--fast"]), &["unknown option --fast", "--help"]);
    fs::remove_file(machine.path("bin/cargo")).expect("a file");
    assert_contains(&machine.refuse("auto", &[]), &["no cargo on PATH"]);
}

#[test]
fn toolchain_script_requires_the_rust_version_of_the_guests() {
    let script = fs::read_to_string(Path::new(SCRIPT)).expect("the script");
    assert_contains(&script, &[&format!("\nreadonly MIN_RUST={}\n", env!("CARGO_PKG_RUST_VERSION"))]);
}
