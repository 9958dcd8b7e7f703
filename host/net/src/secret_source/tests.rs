use std::{fs, time::Instant};

use super::*;

fn environment(name: &str) -> Option<String> {
    match name {
        "KEY" => Some(" sk-env\n".into()),
        "EMPTY" => Some(" \n".into()),
        "LONG" => Some("x".repeat(usize::try_from(limits::SECRET_BYTES).unwrap() + 1)),
        _ => None,
    }
}

async fn resolve(source: &SecretSource) -> Result<ResolvedSecret, SecretError> {
    Keyring::default().resolve(source, &environment).await
}

/// Returns the secret, or the error.
async fn value(source: SecretSource) -> Result<String, String> {
    match resolve(&source).await {
        Ok(found) => Ok(found.secret.expose().to_owned()),
        Err(error) => {
            assert!(!error.hint().is_empty());
            Err(error.to_string())
        }
    }
}

fn command(words: &[&str]) -> SecretSource {
    SecretSource::Command(words.iter().map(|word| (*word).to_owned()).collect())
}

fn shell(script: &str) -> SecretSource {
    command(&["sh", "-c", script])
}

fn ok(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn err(text: &str) -> Result<String, String> {
    Err(text.to_owned())
}

#[tokio::test]
async fn secret_is_read_from_config_and_environment() {
    let env = |name: &str| SecretSource::Env(name.into());
    for (source, expected) in [
        (SecretSource::Literal(Secret::new("sk-here\n")), ok("sk-here")),
        (SecretSource::Literal(Secret::new(" ")), err("the value in the config is empty")),
        (env("KEY"), ok("sk-env")),
        (env("NONE"), err("the environment variable `NONE` is not set")),
        (env("EMPTY"), err("the environment variable `EMPTY` is empty")),
        (env("LONG"), err("the environment variable `LONG` has more than 65536 bytes, too many for a secret")),
    ] {
        assert_eq!(value(source).await, expected);
    }
}

#[test]
fn nothing_of_a_secret_is_shown() {
    for source in [SecretSource::Literal(Secret::new("sk-secret")), command(&["vault", "--token", "sk-secret"])] {
        assert!(!format!("{source} {source:?}").contains("sk-secret"), "{source:?}");
    }
    assert_eq!(format!("{:?}", command(&["vault", "x"])), "SecretSource(the command `vault`)");
    assert_eq!(command(&["a\u{1b}[2J"]).to_string(), r"the command `a\u{1b}[2J`");
}

#[tokio::test]
async fn a_file_is_read_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let most = usize::try_from(limits::SECRET_BYTES).unwrap();
    for (content, expected) in [
        (b"sk-file\n".to_vec(), Ok("sk-file")),
        (b"\n  sk-file \r\nuser: me\n".to_vec(), Ok("sk-file")),
        (b"\xef\xbb\xbfsk-file".to_vec(), Ok("sk-file")),
        ([&b"sk-file\n"[..], &vec![b' '; most - 8]].concat(), Ok("sk-file")),
        ([&b"sk-file\n"[..], &vec![b' '; most - 7]].concat(), Err("has more than 65536 bytes, too many for a secret")),
        (b" \n".to_vec(), Err("is empty")),
        (b"sk\xff".to_vec(), Err("cannot be read: not UTF-8 text from line 1 on")),
    ] {
        let path = folder.path().join("key");
        fs::write(&path, content).unwrap();
        let expected = expected.map(str::to_owned).map_err(|why| format!("the file `{}` {why}", path.display()));
        assert_eq!(value(SecretSource::File(path)).await, expected);
    }
    let none = folder.path().join("none");
    let said = value(SecretSource::File(none)).await.unwrap_err();
    assert!(said.ends_with("cannot be read: no such file or folder"), "{said}");
    let said = value(SecretSource::File(folder.path().into())).await.unwrap_err();
    assert!(said.ends_with("cannot be read: expected a file, found a folder"), "{said}");
    let said = value(SecretSource::File("key".into())).await;
    assert_eq!(said, err("the file `key` is not given as an absolute path"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_others_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, "sk-file").unwrap();
    // Also through a link out of its folder.
    let link = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&path, link.path().join("link")).unwrap();
    for (mode, is_shared) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        for path in [path.clone(), link.path().join("link")] {
            let found = resolve(&SecretSource::File(path.clone())).await.unwrap();
            let expected = is_shared.then(|| {
                let file = path.display();
                format!(
                    "the file `{file}` contains a secret, but others on this machine can read it (mode {mode:o}); set \
                     its mode to 600"
                )
            });
            assert_eq!((found.secret.expose(), found.warning), ("sk-file", expected));
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_prints_a_secret() {
    let bytes = limits::SECRET_BYTES;
    for (source, expected) in [
        (command(&["echo", "sk-$HOME;'*"]), ok("sk-$HOME;'*")),
        (command(&["/bin/echo", "sk"]), ok("sk")),
        (shell("echo noise >&2; echo sk; echo user"), ok("sk")),
        (shell("pwd"), ok("/")),
        (shell("cat; echo sk"), ok("sk")),
        (shell("head -c 1000000 /dev/zero >&2; echo sk"), ok("sk")),
        // A background child of the program holds its pipes.
        (shell("sleep 30 >/dev/null & echo sk"), ok("sk")),
        (
            shell("echo sk-secret; echo no sk-secret here >&2; exit 3"),
            err("the command `sh` failed (exit status: 3): no *** here"),
        ),
        (shell(r"printf '\033[2J\nred' >&2; exit 1"), err(r"the command `sh` failed (exit status: 1): \u{1b}[2J red")),
        (shell("echo sk-secret; exit 1"), err("the command `sh` failed (exit status: 1)")),
        (shell("sleep 30 >/dev/null & echo bad >&2; exit 1"), err("the command `sh` failed (exit status: 1): bad")),
        (shell("kill -9 $$"), err("the command `sh` failed (signal: 9 (SIGKILL))")),
        (shell("true"), err("the command `sh` is empty")),
        (shell(r"printf '\377'"), err("the command `sh` printed text that is not UTF-8")),
        (
            shell(&format!("head -c {bytes} /dev/zero | tr '\\0' x; exit 1")),
            err("the command `sh` failed (exit status: 1)"),
        ),
        (shell("yes"), err("the command `sh` has more than 65536 bytes, too many for a secret")),
        (
            command(&["no-such-program-anywhere"]),
            err("the command `no-such-program-anywhere` cannot be run: no such program"),
        ),
        (command(&["/"]), err("the command `/` cannot be run: permission denied")),
        (command(&["./vault"]), err("the command `./vault` is not given as an absolute path")),
        (command(&[]), err("the command for a secret has 0 words; write a program and up to 63 arguments")),
        (command(&["echo"; limits::SECRET_COMMAND_WORDS]), ok(&["echo"; limits::SECRET_COMMAND_WORDS - 1].join(" "))),
        (
            command(&["echo"; limits::SECRET_COMMAND_WORDS + 1]),
            err("the command for a secret has 65 words; write a program and up to 63 arguments"),
        ),
    ] {
        assert_eq!(value(source.clone()).await, expected, "{source:?}");
    }
    let said = value(shell("head -c 5000 /dev/zero | tr '\\0' x >&2; exit 1")).await.unwrap_err();
    assert!(said.ends_with('…') && said.len() < limits::SECRET_COMMAND_ERROR_BYTES + 100, "{}", said.len());
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_command_that_does_not_end_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // Written by the shell's child, because more than the shell has to be killed.
    let script = format!("sh -c 'echo $$ > {0}.part; mv {0}.part {0}; sleep 600; true'; true", pid.display());
    let begun = Instant::now();
    // The paused clock advances once nothing else is left to do, so the start of the program is awaited in a thread.
    let is_there = {
        let pid = pid.clone();
        tokio::task::spawn_blocking(move || while !pid.exists() && begun.elapsed() < limits::CONNECT_TIME {})
    };
    let (said, _) = futures_util::future::join(value(shell(&script)), is_there).await;
    assert_eq!(said, err("the command `sh` did not end within 60s"));
    assert!(begun.elapsed() < limits::SECRET_COMMAND_TIME);
    let pid: i32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let is_gone = || {
        // A zombie counts as ended.
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        rustix::process::test_kill_process(pid).is_err() || stat.contains(") Z ")
    };
    while !is_gone() {
        assert!(begun.elapsed() < limits::CONNECT_TIME, "its child lives");
        std::thread::yield_now();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_secret_is_looked_up_once_unless_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (log, key) = (folder.path().join("log"), folder.path().join("key"));
    let source = shell(&format!("echo x >> {}; cat {}", log.display(), key.display()));
    let keyring = Keyring::default();
    assert!(keyring.resolve(&source, &environment).await.is_err());
    fs::write(&key, "sk").unwrap();
    let one = || keyring.resolve(&source, &environment);
    let (first, second) = futures_util::future::join(one(), one()).await;
    assert_eq!((first.unwrap().secret, second.unwrap().secret), (Secret::new("sk"), Secret::new("sk")));
    assert_eq!(keyring.clone().resolve(&source, &environment).await.unwrap().secret, Secret::new("sk"));
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 2, "once in vain, once for all");
    assert!(!format!("{keyring:?}").contains("sk"));

    for number in 0..=limits::SECRETS_KEPT {
        keyring.place(&SecretSource::File(number.to_string().into()));
    }
    assert_eq!(keyring.kept.lock().unwrap().len(), limits::SECRETS_KEPT);
}

#[test]
fn noted_secrets_are_known_by_their_names_and_bounded() {
    let keyring = Keyring::default();
    for number in 0..=limits::SECRETS_KEPT {
        keyring.clone().note(format!("{number:04}"), Secret::new(format!("secret-{number}")));
    }
    keyring.note("0000", Secret::new("another"));
    let known: Vec<_> = keyring.kept().collect();
    assert_eq!((known.len(), &known[0]), (limits::SECRETS_KEPT, &("0000".to_owned(), Secret::new("another"))));
}
