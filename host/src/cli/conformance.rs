use std::{
    ffi::OsString,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use quick_xml::{Writer, events::BytesText};
use serde_json::json;

use super::{
    junit::{JunitSuite, junit_seconds},
    render::{
        self, ProgressDisplay, ProgressLevel, RunOutputFormat, TestOutputFormat, json_line, name, print,
        without_colours,
    },
    signals,
};
use crate::{
    conformance::{
        self, AttackResult, AttackStatus, AttackSuite, ConformanceReport, HostProgram, HostUsage, RecoveryCheck,
    },
    error::{ErrorKind, Report},
    event::Event,
    limits,
    plugin::PluginKind,
};

/// Run hostile plugins against this host, and check that it withstands them.
///
/// Each attack is a component that tries one thing. It passes if it ends with a verdict that its attack.toml expects and
/// the host finds no escape. Normal runs are measured before and after the attacks. The built-in attacks can be exported,
/// to test other hosts with them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host conformance
  shelly-host conformance --kind effect --kind provider
  shelly-host conformance --suite my-attacks --output junit > conformance.xml
  shelly-host conformance --export attacks

Verdicts:
  refused    the component was not loaded
  timed-out  the component exceeded its time limit
  limited    the component exceeded another limit, such as memory or output
  trapped    the component crashed, and nothing else did
  held       the component ran to its end without an escape

Exit codes: 0 if every attack passed, 1 if any attack escaped or ended with another verdict than
expected, 130 after Ctrl-C.")]
pub struct ConformanceArgs {
    /// Run only attacks of this kind; repeatable.
    #[arg(long, value_name = "KIND")]
    kind: Vec<PluginKind>,
    /// Run the attacks of this folder instead of the built-in ones.
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// Run nothing; write the attacks, with their built components, into this new folder.
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    export: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TestOutputFormat::Text)]
    output: TestOutputFormat,
    /// Play the one attack of this folder in this process, for the suite that has started it.
    #[arg(long, value_name = "DIR", hide = true)]
    play: Option<PathBuf>,
}

impl ConformanceArgs {
    pub fn execute(self) -> u8 {
        let output = self.output;
        self.run().unwrap_or_else(|report| render::failed(&report, output.into()))
    }

    fn run(self) -> Result<u8, Report> {
        let shown = ProgressDisplay::new(RunOutputFormat::Text, ProgressLevel::Verbose);
        let show = Arc::new(move |event: &Event| shown.line(event).map(|line| without_colours(&line)));
        if let Some(folder) = &self.play {
            return play(folder, show);
        }
        let suite = match &self.suite {
            Some(folder) => AttackSuite::read(folder)?,
            None => AttackSuite::embedded()?,
        };
        let suite = suite.of_kinds(&self.kind);
        if suite.attacks().is_empty() {
            let suite = match &self.suite {
                Some(folder) => name(&folder.display().to_string()),
                None => "the built-in suite".into(),
            };
            return Err(
                Report::new(ErrorKind::Usage, format!("{suite} has no attack of this kind")).hint("omit --kind")
            );
        }
        if let Some(folder) = &self.export {
            suite.export(folder)?;
            print(&format!("wrote {} attacks to {}", suite.attacks().len(), name(&folder.display().to_string())))?;
            return Ok(0);
        }
        let failed = |error: std::io::Error| Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error);
        let runtime = runtime().map_err(failed)?;
        let path = std::env::current_exe().map_err(failed)?;
        let program = HostProgram { path, arguments: ["conformance", "--play"].map(OsString::from).to_vec() };
        let all = suite.attacks().len();
        let played = runtime.block_on(async {
            tokio::select! {
                results = conformance::run(&suite, show, &program, |done| count(done, all)) => results.map(Ok),
                code = signals::ended() => Ok(Err(code)),
            }
        });
        count_no_more();
        let results = match played? {
            Ok(results) => results,
            Err(code) => {
                // Ends running attacks, so that their folders are removed.
                runtime.shutdown_timeout(limits::CANCEL_GRACE);
                render::tell("cancelled\n");
                return Ok(code);
            }
        };
        // A blocked thread must not keep the process alive.
        runtime.shutdown_background();
        print(&match self.output {
            TestOutputFormat::Text => table(&results),
            TestOutputFormat::Json => json_line(&as_json(&results)),
            TestOutputFormat::Junit => junit(&results)?,
        })?;
        Ok(if results.ok() { 0 } else { ErrorKind::Run.exit_code() })
    }
}

/// Builds the runtime in which attacks run.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // Idle pool threads must end before threads are counted.
    builder.enable_all().thread_keep_alive(limits::CONFORMANCE_PAUSE).build()
}

/// Runs the single attack of a folder, and writes the lines that the suite reads.
fn play(folder: &Path, show: conformance::EventFormatter) -> Result<u8, Report> {
    let runtime =
        runtime().map_err(|error| Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error))?;
    let mut printed = Ok(());
    let played = runtime.block_on(conformance::play_alone(folder, show, |line| {
        if printed.is_ok() {
            printed = print(line);
        }
    }));
    // A blocked thread must not keep the process alive.
    runtime.shutdown_background();
    played.and(printed).map(|()| 0)
}

/// Shows the number of attacks that were played, on one line, if standard error is a terminal.
fn count(done: usize, all: usize) {
    if std::io::stderr().is_terminal() {
        render::tell(&format!("\r{done} of {all} attacks run"));
    }
}

/// Clears that line.
fn count_no_more() {
    if std::io::stderr().is_terminal() {
        render::tell("\r\x1b[K");
    }
}

fn as_json(results: &ConformanceReport) -> serde_json::Value {
    let of = |status| results.attacks.iter().filter(|row| row.status == status).count();
    let mut value = json!(results);
    value["ok"] = results.ok().into();
    value["counts"] = json!({
        "passed": of(AttackStatus::Passed),
        "unexpected": of(AttackStatus::Unexpected),
        "escaped": of(AttackStatus::Escaped),
        "failed": of(AttackStatus::Failed),
    });
    value
}

fn table(results: &ConformanceReport) -> String {
    let width = results.attacks.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut lines =
        vec![format!("{:10}  {:9}  {:>8}  {:>8}  {:width$}  TRIES", "", "VERDICT", "TIME", "MEMORY", "ATTACK")];
    for row in &results.attacks {
        let AttackResult { status, verdict, duration, tries, .. } = row;
        let verdict = verdict.map_or("-", |verdict| verdict.name());
        let time = format!("{} ms", duration.as_millis());
        let grown = row.host.as_ref().and_then(HostUsage::growth).map(|bytes| format!("{} MiB", bytes >> 20));
        let memory = grown.as_deref().unwrap_or("-");
        let (status, attack, tries) = (status.name(), name(&row.name), name(tries));
        let line = format!("{status:10}  {verdict:9}  {time:>8}  {memory:>8}  {attack:width$}  {tries}");
        lines.push(line.trim_end().to_owned());
        lines.extend(why(row).into_iter().map(|why| format!("{:10}  {}", "", name(&why))));
    }
    lines.push(String::new());
    lines.push(format!("{:10}  {:16}  {:>14}  {:>14}  {:>14}", "", "RECOVERY", "BEFORE", "AFTER", "BOUND"));
    for row in &results.recovery {
        let shown = |value: Option<u64>| value.map_or("not measured".into(), |value| amount(value, row.unit));
        let (before, after) = (shown(row.before), shown(row.after));
        let bound = match row.what {
            conformance::CALLS_AT_ONCE => "no fewer".into(),
            _ => shown(row.bound),
        };
        lines.push(format!("{:10}  {:16}  {before:>14}  {after:>14}  {bound:>14}", state(row), row.what));
    }
    let passed = results.attacks.iter().filter(|row| row.status == AttackStatus::Passed).count();
    let (all, seconds) = (results.attacks.len(), results.duration.as_secs_f32());
    let verdict = if results.ok() { "passed" } else { "failed" };
    lines.push(format!("\n{passed} of {all} attacks passed, {seconds:.1} s: conformance {verdict}"));
    lines.join("\n")
}

fn state(row: &RecoveryCheck) -> &'static str {
    match row.before {
        None => "-",
        Some(_) if row.ok => "ok",
        Some(_) => "worse",
    }
}

fn amount(value: u64, unit: &str) -> String {
    match unit {
        "bytes" => render::size(value),
        "" => value.to_string(),
        unit => format!("{value} {unit}"),
    }
}

/// Returns the reasons why an attack did not pass.
fn why(row: &AttackResult) -> Vec<String> {
    let mut why = row.escapes.clone();
    if row.status == AttackStatus::Unexpected {
        let expected: Vec<_> = row.expected.iter().map(|verdict| verdict.name()).collect();
        let naming = row.names.as_ref().map_or(String::new(), |names| format!(", with an error that names `{names}`"));
        why.push(format!("expected: {}{naming}", expected.join(" or ")));
    }
    if row.status != AttackStatus::Passed && !row.detail.is_empty() {
        why.push(format!("ended with: {}", row.detail));
    }
    why
}

/// Writes the time and memory that the host used for an attack, as properties of its test case.
fn properties(writer: &mut Writer<Vec<u8>>, host: &HostUsage) -> std::io::Result<()> {
    let millis = |time: std::time::Duration| Some(time.as_millis().to_string());
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string());
    for (name, value) in [
        ("host_duration_ms", millis(host.duration)),
        ("host_duration_bound_ms", millis(host.duration_bound)),
        ("host_idle_bytes", bytes(host.idle_bytes)),
        ("host_peak_bytes", bytes(host.peak_bytes)),
        ("host_growth_bound_bytes", bytes(Some(host.growth_bound_bytes))),
    ] {
        let Some(value) = value else { continue };
        let property = writer.create_element("property");
        property.with_attributes([("name", name), ("value", value.as_str())]).write_empty()?;
    }
    Ok(())
}

/// Writes one test suite with a case for each attack and one for each measured value.
fn junit(results: &ConformanceReport) -> Result<String, Report> {
    let wrong = results.attacks.iter().filter(|row| row.status != AttackStatus::Passed).count();
    let worse = results.recovery.iter().filter(|row| !row.ok).count();
    let suite = JunitSuite {
        name: "conformance",
        tests: results.attacks.len() + results.recovery.len(),
        failures: wrong + worse,
        duration: results.duration,
    };
    suite.to_xml(|writer| {
        for row in &results.attacks {
            let time = junit_seconds(row.duration);
            let attributes = [("classname", row.kind.name()), ("name", &name(&row.name)), ("time", &time)];
            let case = writer.create_element("testcase").with_attributes(attributes);
            if row.status == AttackStatus::Passed && row.host.is_none() {
                case.write_empty()?;
            } else {
                case.write_inner_content(|writer| {
                    if let Some(host) = &row.host {
                        writer.create_element("properties").write_inner_content(|writer| properties(writer, host))?;
                    }
                    if row.status == AttackStatus::Passed {
                        return Ok(());
                    }
                    let message = format!("{}: {}", row.status.name(), name(&row.tries));
                    let why: Vec<_> = why(row).iter().map(|why| name(why)).collect();
                    let failure = writer.create_element("failure").with_attribute(("message", message.as_str()));
                    failure.write_text_content(BytesText::new(&why.join("\n")))?;
                    Ok(())
                })?;
            }
        }
        for row in &results.recovery {
            let case = writer.create_element("testcase");
            let case = case.with_attributes([("classname", "recovery"), ("name", row.what)]);
            match (row.before, row.after) {
                (Some(before), Some(after)) if !row.ok => {
                    case.write_inner_content(|writer| {
                        let message = format!("{} before, {} after", amount(before, row.unit), amount(after, row.unit));
                        writer.create_element("failure").with_attribute(("message", message.as_str())).write_empty()?;
                        Ok(())
                    })?;
                }
                (Some(_), Some(_)) => drop(case.write_empty()?),
                _ => {
                    case.write_inner_content(|writer| {
                        writer.create_element("skipped").write_empty()?;
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    })
}
