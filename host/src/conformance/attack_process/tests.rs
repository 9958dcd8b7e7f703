use super::*;
use crate::conformance::{AttackSuite, attack::AttackSource};

/// Returns a host that is this shell script, which gets the attack's folder as `$1`.
fn program(script: &str) -> HostProgram {
    HostProgram { path: "/bin/sh".into(), arguments: ["-c", script, "sh"].map(OsString::from).to_vec() }
}

const IDLE: &str = r#"echo '{"peak_bytes":0}'"#;
const HELD: &str = r#"echo '{"verdict":"held","status":"passed","escapes":[],"detail":"ok","memory_bytes":1,"cpu_micros":2,"peak_bytes":3}'"#;

async fn played(script: &str, host: &str) -> AttackResult {
    let file = format!("tries = \"x\"\nkind = \"tool\"\nexpect = \"held\"\nhost = {host}\n");
    let attack = Attack::parse("a", &file, AttackSource::Fields(String::new())).unwrap();
    play(&attack, attack.host.unwrap(), &program(script)).await
}

#[tokio::test]
async fn a_host_that_holds_is_measured() {
    let row = played(&format!("test -f \"$1/component.wasm\" && {IDLE}; {HELD}; sleep 60"), "{}").await;
    assert_eq!((row.status, row.verdict, row.memory), (AttackStatus::Passed, Some(AttackVerdict::Held), 1), "{row:?}");
    let host = row.host.unwrap();
    assert!(host.growth() >= Some(3) && host.growth() < Some(limits::CONFORMANCE_HOST_MEMORY_BYTES), "{host:?}");
}

#[tokio::test]
async fn a_bomb_ends_its_attack_alone() {
    // The memory grows in a child process of the host.
    let grows = format!("{IDLE}; sh -c 'x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done'; sleep 60");
    for (script, host, says) in [
        (&format!("{IDLE}; sleep 60")[..], "{ seconds = 1 }", "the host took more than 1s"),
        (&format!("{IDLE}; sleep 0.2; kill -ABRT $$"), "{}", "the host's process died: signal: 6"),
        (&format!("{IDLE}; echo out of memory >&2; exit 3"), "{}", "exit status: 3: out of memory"),
        (&grows, "{ mebibytes = 64 }", "the host grew by more than 64 MiB"),
        // More output than is read.
        (
            &format!("{IDLE}; head -c 300000 /dev/zero; {HELD}; sleep 60"),
            "{ seconds = 1 }",
            "the host took more than 1s",
        ),
    ] {
        let row = played(script, host).await;
        assert_eq!((row.status, row.verdict), (AttackStatus::Escaped, None), "{row:?}");
        assert!(row.escapes[0].contains(says), "{says}: {row:?}");
    }
}

#[tokio::test]
async fn host_that_never_becomes_idle_has_no_verdict() {
    for (script, says) in [
        ("exit 1", "the process died before the attack: exit status: 1"),
        ("echo nonsense; sleep 60", "invalid report from the process of the attack: "),
        (&format!("{IDLE}; echo nonsense; sleep 60"), "invalid report from the process of the attack: "),
    ] {
        let row = played(script, "{}").await;
        assert!(row.status == AttackStatus::Failed && row.detail.contains(says), "{says}: {row:?}");
    }
    let nowhere = HostProgram { path: "/nowhere/at/all".into(), arguments: vec![] };
    let suite = AttackSuite::embedded().unwrap();
    let bounds = HostBounds { time: limits::CONFORMANCE_HOST_TIME, memory: 1 << 20 };
    let row = play(&suite.attacks()[0], bounds, &nowhere).await;
    assert!(
        row.status == AttackStatus::Failed && row.detail.contains("the process of the attack cannot be started"),
        "{row:?}"
    );
}
