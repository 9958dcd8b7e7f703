//! The base of WASI without any power: what a guest finds there, and what it cannot do with it.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shelly_host::{
    capability::{FileAccess, Grant},
    event::{Event, EventSink, LogLevel},
    limits,
    plugin::{Certificate, CertifiedImport, ImportState, Limits, Plugin, PluginPackage, PluginSettings},
};

use super::{all, call, call_watched, engine, pack, settings, told};
use crate::support::Place;

fn package() -> Arc<PluginPackage> {
    Arc::new(PluginPackage::read(Path::new(crate::guest::PROBE_WASI).parent().unwrap()).unwrap())
}

async fn probe(grant: Grant, limits: Limits) -> Arc<Plugin> {
    let settings = PluginSettings { limits, ..settings(grant) };
    Arc::new(Plugin::load(engine(), &package(), &settings).await.map_err(|error| told(&error)).unwrap())
}

async fn powerless() -> Arc<Plugin> {
    probe(Grant::default(), Limits::default()).await
}

fn count(count: u64) -> String {
    json!({ "count": count }).to_string()
}

/// Returns the result of `see`, and whether clocks or random sources gave the guest anything real.
async fn seen(plugin: &Arc<Plugin>) -> (Value, bool) {
    let (events, stream) = EventSink::channel();
    let (result, events) = tokio::join!(call_watched(plugin, "see", "{}", events), all(stream));
    assert!(!result.is_error, "{}", result.text());
    let was_given = events.iter().any(|event| matches!(event, Event::PluginCall { given, .. } if !given.is_empty()));
    (serde_json::from_str(&result.text()).unwrap(), was_given)
}

#[tokio::test]
async fn ungranted_wasi_reaches_nothing() {
    let plugin = powerless().await;
    let (first, was_given) = seen(&plugin).await;
    assert!(!was_given, "neither time nor chance");
    let step = limits::FROZEN_STEP.as_nanos() as u64;
    for (key, expected) in [
        ("variables", json!([])),
        ("arguments", json!([])),
        ("cwd", Value::Null),
        ("stdin_is_at_its_end", json!(true)),
        ("terminals", json!([false, false, false])),
        ("wall_clock", json!([0, 0])),
        ("readings", json!([0, step])),
        ("folders", json!([])),
        ("tcp", json!("access-denied")),
        ("udp", json!("access-denied")),
        ("lookup", json!("permanent-resolver-failure")),
    ] {
        assert_eq!(first[key], expected, "{key}");
    }
    // The next call sees the same, numbers too: it cannot even tell that there was another one.
    assert_eq!(seen(&plugin).await.0, first);
}

#[tokio::test]
async fn granted_wasi_clock_random_and_files_are_real() {
    let place = Place::new();
    let files = [(place.path(), FileAccess::Read)].into_iter().collect();
    let plugin = probe(Grant { files, clock: true, random: true, ..Grant::default() }, Limits::default()).await;
    let ((first, was_given), (second, _)) = (seen(&plugin).await, seen(&plugin).await);
    assert!(was_given, "what it was given is told");
    let [from, to] = [&first, &second].map(|seen| seen["wall_clock"][0].as_u64().unwrap());
    assert!(from > 1_700_000_000 && (from..from + 60).contains(&to), "{from} {to}");
    assert_ne!(first["random"], second["random"]);
    assert_ne!(first["random_bytes"], second["random_bytes"]);
    assert_eq!(first["folders"], json!(["."]));
    // No grant gives these.
    for key in ["variables", "arguments", "cwd", "terminals", "tcp", "udp", "lookup"] {
        assert_eq!(first[key], seen(&powerless().await).await.0[key], "{key}");
    }
    // One at a time.
    let clock = probe(Grant { clock: true, ..Grant::default() }, Limits::default()).await;
    let [first, second] = [seen(&clock).await.0, seen(&clock).await.0];
    assert!(first["wall_clock"][0].as_u64().unwrap() > 0);
    assert_eq!(first["random"], second["random"]);
}

/// Returns the log entries of a call, and its result.
async fn logged(plugin: &Arc<Plugin>, tool: &str, arguments: &str) -> (Vec<(LogLevel, String)>, String) {
    let (events, stream) = EventSink::channel();
    let (result, events) = tokio::join!(call_watched(plugin, tool, arguments, events), all(stream));
    let logged = events.into_iter().filter_map(|event| match event {
        Event::PluginLog { level, message, .. } => Some((level, message)),
        _ => None,
    });
    (logged.collect(), result.text())
}

#[tokio::test]
async fn wasi_output_becomes_bounded_log_lines() {
    let plugin = powerless().await;
    let print = |text: &str, times| json!({ "text": text, "times": times }).to_string();
    let (lines, _) = logged(&plugin, "print", &print("one\r\n\ntwo \u{1b}[31m\nthree", 1)).await;
    let expected = [LogLevel::Info, LogLevel::Warn]
        .map(|level| ["one", "two \u{1b}[31m", "three"].map(|line| (level, line.to_owned())));
    // What has no end is told when the call has come to its own.
    let mut sorted = lines.clone();
    sorted.sort_by_key(|(level, _)| *level);
    assert_eq!(sorted, expected.concat(), "{lines:?}");

    let long = "x".repeat(3 * limits::LOG_ENTRY_BYTES);
    let (lines, _) = logged(&plugin, "print", &print(&format!("{long}\nnext\n"), 1)).await;
    assert!(lines[0].1.len() <= limits::LOG_ENTRY_BYTES && lines[0].1.ends_with('…'), "{}", lines[0].1.len());
    assert_eq!(lines[1].1, "next");

    let most = limits::LOG_ENTRIES as usize;
    let (lines, said) = logged(&plugin, "print", &print("a line\n", most + 500)).await;
    assert_eq!((lines.len(), said.as_str()), (most + 1, "printed"));
    assert_eq!(lines[most].1, "501 more log entries were dropped");
    let few = Limits { log_bytes: 20, ..Limits::default() };
    let (lines, _) = logged(&probe(Grant::default(), few).await, "print", &print("a line\n", 9)).await;
    assert_eq!(lines.iter().filter(|(_, line)| line == "a line").count(), 3);

    // Without waiting, and more than it may.
    let (_, said) = logged(&plugin, "output", &count(limits::STDOUT_WRITE_BYTES as u64)).await;
    assert_eq!(said, "written");
    let (_, said) = logged(&plugin, "output", &count(limits::STDOUT_WRITE_BYTES as u64 + 1)).await;
    assert!(said.contains("more to its standard output at once than"), "{said}");
}

#[tokio::test]
async fn wasi_exit_fails_only_its_call_and_logs_last_output() {
    let plugin = powerless().await;
    for code in [0, 1, 7] {
        let (lines, said) = logged(&plugin, "exit", &count(code)).await;
        assert_eq!(lines, [(LogLevel::Info, "last words".into())]);
        let ended = format!("plugin `probe-wasi` exited with code {code} before it answered");
        assert!(said.contains(&ended), "{said}");
        assert!(!call(&plugin, "see", "{}").await.is_error);
    }
}

#[tokio::test]
async fn wasi_waits_are_real_and_bounded_by_the_call_time() {
    let plugin = powerless().await;
    let started = Instant::now();
    let slept: u64 = call(&plugin, "sleep", &count(30)).await.text().parse().unwrap();
    assert!(slept >= 30 && started.elapsed() >= Duration::from_millis(30), "{slept} {:?}", started.elapsed());
    // Who looks at the clock that stands still has waited soon.
    let looks: u64 = call(&plugin, "spin", &count(1_000)).await.text().parse().unwrap();
    assert_eq!(looks, 999);

    let hasty = probe(Grant::default(), Limits { tool_time: Duration::from_millis(200), ..Limits::default() }).await;
    for hour in [3_600_000, u64::MAX] {
        let result = call(&hasty, "sleep", &count(hour)).await;
        assert!(result.is_error && result.text().contains("timed out after 0.2 seconds"), "{}", result.text());
        assert!(!call(&hasty, "see", "{}").await.is_error);
    }
}

#[tokio::test]
async fn wasi_handles_and_requests_are_bounded() {
    let plugin = powerless().await;
    // Two handles a timer.
    let most = limits::PLUGIN_HANDLES as u64;
    let random = u64::from(limits::RANDOM_BYTES);
    for (tool, fine, beyond, says) in [
        ("hold", most / 2, most / 2 + 1, "crashed"),
        ("hold", 1, 1_000_000, "crashed"),
        ("wait", most, most + 1, "polls 257 handles at once, the maximum is 256"),
        ("wait", 1, 1_000_000, "store handle limit exceeded"),
        ("random", random, random + 1, "65537 random bytes were requested, the maximum is 65536"),
        ("random", 0, 1 << 30, "1073741824 random bytes were requested"),
    ] {
        let result = call(&plugin, tool, &count(fine)).await;
        assert_eq!((result.is_error, result.text()), (false, fine.to_string()), "{tool}");
        let started = Instant::now();
        let result = call(&plugin, tool, &count(beyond)).await;
        assert!(result.is_error && result.text().contains(says), "{tool} {beyond}: {}", result.text());
        assert!(started.elapsed() < Duration::from_secs(10), "{tool} {beyond}: {:?}", started.elapsed());
    }
    let few = Limits { input_bytes: 1_000, ..Limits::default() };
    let result = call(&probe(Grant::default(), few).await, "random", &count(2_000)).await;
    assert!(result.text().contains("received more than 1000 bytes"), "{}", result.text());
}

#[tokio::test]
async fn undeclared_wasi_import_is_refused_by_name() {
    let bytes = std::fs::read(crate::guest::PROBE_WASI).unwrap();
    for (wants, line) in [("", "wasi = \"powerless\""), ("wants = { files = \"read\" }", "wasi = \"powerless\"")] {
        let error = told(pack(&["tool"], wants, &bytes).package.as_ref().unwrap_err());
        assert!(error.contains("but its plugin.toml does not request it") && error.contains(line), "{error}");
    }
    let wants = "wants = { wasi = \"powerless\" }";
    // Every version of the series is taken, and no other.
    for version in [&b"@0.2.10"[..], b"@0.2.99"] {
        let packed = pack(&["tool"], wants, &super::load::replace(&bytes, b"@0.2.12", version));
        let plugin = packed.load(engine()).await.unwrap();
        assert!(!call(&plugin, "see", "{}").await.is_error);
    }
    let error = pack(&["tool"], wants, &super::load::replace(&bytes, b"@0.2.12", b"@0.3.12"));
    let error = told(error.package.as_ref().unwrap_err());
    assert!(error.contains("@0.3.12`, which this version of shelly-host does not provide"), "{error}");
}

#[tokio::test]
async fn lone_component_declares_wasi_by_its_imports() {
    let place = Place::new();
    let path = place.file("alone.wasm", std::fs::read(crate::guest::PROBE_WASI).unwrap());
    let package = Arc::new(PluginPackage::read_file(&path).unwrap());
    let wants = &package.manifest.wants;
    assert!(package.manifest.wasi && wants.clock && wants.random && wants.files == Some(FileAccess::Read));
    let nothing = settings(Grant::default());
    assert!(nothing.lacking(&package.manifest).is_empty(), "nobody has said that it needs them");
    let plugin = Arc::new(Plugin::load(engine(), &package, &nothing).await.map_err(|error| told(&error)).unwrap());
    assert_eq!(seen(&plugin).await.0["folders"], json!([]));
    let granted = settings(Grant { clock: true, ..Grant::default() });
    let plugin = Arc::new(Plugin::load(engine(), &package, &granted).await.map_err(|error| told(&error)).unwrap());
    assert!(seen(&plugin).await.0["wall_clock"][0].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn certificate_marks_powerless_wasi_imports() {
    for (grant, has_clock) in [(Grant::default(), false), (Grant { clock: true, ..Grant::default() }, true)] {
        let certificate = Certificate::issue(engine(), &package(), &settings(grant)).await;
        assert!(certificate.runs, "{:?}", certificate.error);
        let of_wasi = |import: &&CertifiedImport| import.name.starts_with("wasi:");
        assert!(certificate.imports.iter().filter(of_wasi).count() > 15, "{:?}", certificate.imports);
        for import in &certificate.imports {
            let (package, _) = import.name.split_once('/').unwrap();
            let (state, capability) = match package {
                "wasi:clocks" if has_clock => (ImportState::Satisfied, Some("clock")),
                "wasi:clocks" => (ImportState::Powerless, Some("clock")),
                "wasi:random" => (ImportState::Powerless, Some("random")),
                "wasi:filesystem" => (ImportState::Powerless, Some("files")),
                "wasi:cli" | "wasi:io" | "wasi:sockets" => (ImportState::Powerless, None),
                _ => (ImportState::Satisfied, None),
            };
            assert_eq!((import.state, import.capability), (state, capability), "{}", import.name);
        }
    }
}
