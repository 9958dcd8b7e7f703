//! The results of test cases: text as each case ends, or one JSON value or JUnit XML at the end.

use std::{io, path::PathBuf, time::Duration};

use quick_xml::{Writer, events::BytesText};
use serde_json::{Value, json};

use crate::{
    cli::{
        ask::coloured,
        junit::{JunitSuite, junit_seconds},
        render::{
            DIM, GREEN, PLAIN, RED, TestOutputFormat, YELLOW, call_time, escaped, json_line, name, path_name, print,
            print_coloured,
        },
    },
    error::{ErrorKind, Report, count},
    trial::{CaseMismatch, CaseOutcome},
};

/// The result of a test case.
pub(super) struct CaseResult {
    pub file: PathBuf,
    pub name: String,
    pub outcome: CaseOutcome,
    /// `true` if the `expect` of the case was written anew, so that the case passes.
    pub is_updated: bool,
}

impl CaseResult {
    fn is_failed(&self) -> bool {
        !self.outcome.is_passed() && !self.is_updated
    }

    /// Returns the reasons of the failure as text, with diffs. It may have text of the plugin.
    fn reasons(&self) -> String {
        self.outcome.mismatches.iter().map(CaseMismatch::text).collect()
    }

    /// Returns the line of the case, and of a failed one the reasons and the log.
    fn lines(&self) -> String {
        let (shown, time) = (name(&self.name), call_time(self.outcome.elapsed));
        let verdict = match (self.is_failed(), self.is_updated) {
            (true, _) => format!("{RED}FAILED{PLAIN}  "),
            (false, true) => format!("{YELLOW}updated{PLAIN} "),
            (false, false) => format!("{GREEN}ok{PLAIN}      "),
        };
        if !self.is_failed() {
            return format!("{verdict} {shown}  {DIM}{time}{PLAIN}\n");
        }
        let log = self.outcome.record.log.iter().map(|entry| {
            let level = json!(entry.level);
            format!("  {DIM}log {}:{PLAIN} {}\n", level.as_str().unwrap_or_default(), name(&entry.message))
        });
        let (place, log) = (path_name(&self.file), log.collect::<String>());
        format!("{verdict} {shown}  {DIM}{place}, {time}{PLAIN}\n{}{log}", coloured(&self.reasons()))
    }

    fn to_json(&self) -> Value {
        let mismatch = |mismatch: &CaseMismatch| match mismatch {
            CaseMismatch::Value { key, expected, actual } => {
                json!({ "key": key, "expected": expected, "actual": actual, "diff": mismatch.text() })
            }
            CaseMismatch::Failure(words) => json!({ "failure": words }),
        };
        json!({
            "file": self.file.display().to_string(),
            "name": self.name,
            "ok": !self.is_failed(),
            "updated": self.is_updated,
            "duration_ms": self.outcome.elapsed.as_micros() as f64 / 1_000.0,
            "mismatches": self.outcome.mismatches.iter().map(mismatch).collect::<Vec<_>>(),
            "log": self.outcome.record.log,
        })
    }

    fn write_junit(&self, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let (file, shown, time) = (path_name(&self.file), name(&self.name), junit_seconds(self.outcome.elapsed));
        let attributes = [("classname", xml_text(&file)), ("name", xml_text(&shown)), ("time", time)];
        let attributes = attributes.iter().map(|(key, value)| (*key, value.as_str()));
        let case = writer.create_element("testcase").with_attributes(attributes);
        if !self.is_failed() {
            return case.write_empty().map(drop);
        }
        let keys: Vec<_> = self.outcome.mismatches.iter().map(mismatch_name).collect();
        let message = xml_text(&keys.join("; "));
        let reasons = xml_text(&escaped(&self.reasons()));
        let written = case.write_inner_content(|writer| {
            let failure = writer.create_element("failure").with_attribute(("message", message.as_str()));
            failure.write_text_content(BytesText::new(&reasons)).map(drop)
        });
        written.map(drop)
    }
}

/// Returns a mismatch on one line.
fn mismatch_name(mismatch: &CaseMismatch) -> String {
    match mismatch {
        CaseMismatch::Value { key, .. } => format!("`expect.{key}` differs"),
        CaseMismatch::Failure(words) => name(words),
    }
}

/// Escapes the two characters that XML does not allow and that do not act on a terminal.
fn xml_text(text: &str) -> String {
    text.replace('\u{fffe}', "\\u{fffe}").replace('\u{ffff}', "\\u{ffff}")
}

/// The results of all test cases of a plugin.
pub(super) struct TestResults {
    output: TestOutputFormat,
    plugin: String,
    results: Vec<CaseResult>,
}

impl TestResults {
    pub fn new(output: TestOutputFormat, plugin: &str) -> Self {
        Self { output, plugin: plugin.to_owned(), results: Vec::new() }
    }

    /// Adds the result of a case, and prints it if the output is text.
    pub fn add(&mut self, result: CaseResult) -> Result<(), Report> {
        if self.output == TestOutputFormat::Text {
            print_coloured(&result.lines())?;
        }
        self.results.push(result);
        Ok(())
    }

    /// Prints the summary, or the whole JSON or XML. Returns the exit code.
    pub fn finish(self) -> Result<u8, Report> {
        let failed = self.results.iter().filter(|result| result.is_failed()).count();
        let code = if failed == 0 { 0 } else { ErrorKind::Run.exit_code() };
        let text = match self.output {
            TestOutputFormat::Text => self.summary(failed),
            TestOutputFormat::Json => {
                let cases: Vec<_> = self.results.iter().map(CaseResult::to_json).collect();
                json_line(&json!({ "ok": failed == 0, "exit_code": code, "plugin": self.plugin, "cases": cases }))
            }
            TestOutputFormat::Junit => {
                let (tests, duration) = (self.results.len(), self.duration());
                let suite = JunitSuite { name: &self.plugin, tests, failures: failed, duration };
                suite.to_xml(|writer| self.results.iter().try_for_each(|result| result.write_junit(writer)))?
            }
        };
        print(&text)?;
        Ok(code)
    }

    fn duration(&self) -> Duration {
        self.results.iter().map(|result| result.outcome.elapsed).sum()
    }

    fn summary(&self, failed: usize) -> String {
        let updated = self.results.iter().filter(|result| result.is_updated).count();
        let (all, time) = (count(self.results.len() as u64, "case", "cases"), call_time(self.duration()));
        let passed = self.results.len() - failed - updated;
        let mut parts = vec![format!("{passed} passed")];
        parts.extend((failed > 0).then(|| format!("{failed} failed")));
        parts.extend((updated > 0).then(|| format!("{updated} updated")));
        format!("{all}: {}, {time}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::{
        cli::render::without_colours,
        event::LogLevel,
        trial::{TrialLogEntry, TrialRecord},
    };

    fn result(name: &str, mismatches: Vec<CaseMismatch>) -> CaseResult {
        let log = vec![TrialLogEntry { level: LogLevel::Warn, message: "h\u{1b}m".into() }];
        let record = TrialRecord { log, ..TrialRecord::default() };
        let (updated, elapsed) = (Map::new(), Duration::from_millis(2));
        let outcome = CaseOutcome { mismatches, updated, can_be_updated: false, record, elapsed };
        CaseResult { file: "cases/a.yaml".into(), name: name.into(), outcome, is_updated: false }
    }

    fn differs() -> CaseMismatch {
        CaseMismatch::Value { key: "result".into(), expected: json!("<a>"), actual: json!("b\u{1b}[2J & \u{ffff}") }
    }

    #[test]
    fn failed_case_is_shown_with_diff_and_log() {
        let lines = without_colours(&result("one", vec![differs()]).lines());
        let expected = "FAILED   one  cases/a.yaml, 2.0 ms\n  --- expect.result\n  +++ expect.result\n  @@ -1 +1 @@\n  -<a>\n  \
                        +b\\u{1b}[2J & \u{ffff}\n  log warn: h\\u{1b}m\n";
        assert_eq!(lines, expected);
        let lines = without_colours(&result("two\nok", Vec::new()).lines());
        assert_eq!(lines, "ok       two ok  2.0 ms\n");
    }

    #[test]
    fn junit_report_is_valid_xml() {
        let mut results = TestResults::new(TestOutputFormat::Junit, "p");
        let words = CaseMismatch::Failure("the call <failed>".into());
        for result in [result("a \"b\"", Vec::new()), result("c", vec![differs(), words])] {
            results.add(result).unwrap();
        }
        let suite = JunitSuite { name: "p", tests: 2, failures: 1, duration: results.duration() };
        let xml = suite.to_xml(|writer| results.results.iter().try_for_each(|one| one.write_junit(writer))).unwrap();
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuite name=\"p\" tests=\"2\" failures=\"1\" time=\"0.004\">
  <testcase classname=\"cases/a.yaml\" name=\"a &quot;b&quot;\" time=\"0.002\"/>
  <testcase classname=\"cases/a.yaml\" name=\"c\" time=\"0.002\">
    <failure message=\"`expect.result` differs; the call &lt;failed&gt;\">--- expect.result
+++ expect.result
@@ -1 +1 @@
-&lt;a&gt;
+b\\u{1b}[2J &amp; \\u{ffff}
the call &lt;failed&gt;
</failure>
  </testcase>
</testsuite>";
        assert_eq!(xml, expected);
        assert_eq!(results.summary(1), "2 cases: 1 passed, 1 failed, 4.0 ms");
    }
}
