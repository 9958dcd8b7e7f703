//! Servers that are programs: a shell script plays one.
#![cfg(unix)]

use std::{path::PathBuf, time::Instant};

use serde_json::json;

use super::*;
use crate::McpStdioTarget;
use shelly_core::limits;
use shelly_net::Secret;

/// Returns a shell script that is a server up to its first call; the result of the call is the output of `answer`.
fn server(answer: &str) -> String {
    format!(
        r#"
say() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$1" "$2"; }}
while read -r line; do
  case "$line" in
    *'"initialize"'*) say 0 '{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"sh","version":"1"}}}}' ;;
    *'"tools/list"'*) say 1 '{{"tools":[{{"name":"t","inputSchema":{{"type":"object"}}}}]}}' ;;
    *'"tools/call"'*) say 2 "{{\"content\":[{{\"type\":\"text\",\"text\":\"$({answer})\"}}]}}" ;;
  esac
done
"#
    )
}

fn program(script: &str, folder: &std::path::Path) -> ServerConfig {
    let environment =
        vec![("PATH".to_owned(), Secret::new("/usr/bin:/bin")), ("TOKEN".to_owned(), Secret::new("sk-very-secret"))];
    let program = McpStdioTarget {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment,
        folder: folder.to_owned(),
    };
    let revisions = ProtocolRevisions::Handshake;
    ServerConfig { revisions, ..ServerConfig::new("sh", McpTarget::Program(program)) }
}

#[tokio::test]
async fn server_program_gets_only_its_folder_and_environment() {
    let folder = tempfile::tempdir().unwrap();
    let script = server(r#"pwd | tr -d '\n'; env | grep -v '^_=\|^PWD=\|^SHLVL=\|^OLDPWD=' | sort | tr '\n' ' '"#);
    let client = McpClient::connect(program(&script, folder.path()), McpClientFeatures::default()).await.unwrap();
    let (is_error, text) = said(&toolbox(&client), "sh__t", &json!({})).await;
    let folder = folder.path().canonicalize().unwrap();
    assert_eq!((is_error, text), (false, format!("{}PATH=/usr/bin:/bin TOKEN=sk-very-secret ", folder.display())));
}

/// Waits until a process is gone or a zombie.
async fn until_gone(pid: &str) {
    let (stat, begun) = (PathBuf::from(format!("/proc/{pid}/stat")), Instant::now());
    let gone = tokio::task::spawn_blocking(move || {
        loop {
            let lives = std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
            if !lives || begun.elapsed() > limits::CONNECT_TIME {
                return !lives;
            }
        }
    });
    assert!(gone.await.unwrap());
}

#[tokio::test]
async fn a_program_ends_with_all_that_it_has_started() {
    let folder = tempfile::tempdir().unwrap();
    for is_closed in [false, true] {
        let script = format!("sleep 1000 & child=$!\n{}", server("printf '%s %s' $$ $child"));
        let client = McpClient::connect(program(&script, folder.path()), McpClientFeatures::default()).await.unwrap();
        let (_, pids) = said(&toolbox(&client), "sh__t", &json!({})).await;
        if is_closed {
            client.close().await;
        }
        drop(client);
        for pid in pids.split(' ') {
            until_gone(pid).await;
        }
    }
}

#[tokio::test]
async fn a_program_that_is_closed_may_finish() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{}\necho finished > mark", server("true"));
    let client = McpClient::connect(program(&script, folder.path()), McpClientFeatures::default()).await.unwrap();
    client.close().await;
    assert_eq!(std::fs::read_to_string(folder.path().join("mark")).unwrap(), "finished\n");
}

#[tokio::test]
async fn failed_program_error_includes_its_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let many = "i=0; while [ $i -lt 20 ]; do echo line $i >&2; i=$((i+1)); done; exit 3";
    for (script, why) in [
        (
            "echo 'no config for sk-very-secret' >&2; exit 3",
            "its program exited (exit status: 3); its standard error: no config for ***",
        ),
        (many, "(exit status: 3); its standard error: line 10 / line 11 / line 12 /"),
        ("exit 0", "its program exited (exit status: 0)"),
        ("kill -9 $$", "its program exited (signal: 9 (SIGKILL))"),
        (
            "printf 'x%.0s' $(seq 600) >&2; exit 1",
            &format!("its standard error: {}…", "x".repeat(limits::MCP_STDERR_LINE_BYTES)),
        ),
    ] {
        let error = McpClient::connect(program(script, folder.path()), McpClientFeatures::default())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot reach the MCP server `sh`: ") && error.contains(why), "{error}");
    }
    let plain = program("", folder.path());
    let with = |change: &dyn Fn(&mut McpStdioTarget)| {
        let McpTarget::Program(mut program) = plain.target.clone() else { unreachable!() };
        change(&mut program);
        ServerConfig { target: McpTarget::Program(program), ..plain.clone() }
    };
    let with_home = with(&|program| {
        program.arguments[1] = "echo \"there is no $HOME/x for $TOKEN\" >&2; exit 3".into();
        program.environment.push(("HOME".into(), Secret::new("/home/somebody")));
    });
    let error = McpClient::connect(with_home, McpClientFeatures::default()).await.unwrap_err().to_string();
    assert!(error.ends_with("its standard error: there is no /home/somebody/x for ***"), "{error}");
    for (config, why) in [
        (
            with(&|program| program.program = "no-such-program".into()),
            "`sh`: `no-such-program`: no such file or folder",
        ),
        (with(&|program| program.folder = "/no/such".into()), "`sh`: `sh`: the working folder /no/such does not exist"),
    ] {
        let error = McpClient::connect(config, McpClientFeatures::default()).await.unwrap_err().to_string();
        assert_eq!(error, format!("cannot start the MCP server {why}"));
    }
}

#[tokio::test]
async fn a_program_that_floods_its_error_output_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = server("head -c 1000000 /dev/zero | tr '\\0' 'x' >&2; printf done");
    let client = McpClient::connect(program(&script, folder.path()), McpClientFeatures::default()).await.unwrap();
    assert_eq!(said(&toolbox(&client), "sh__t", &json!({})).await, (false, "done".into()));
}
