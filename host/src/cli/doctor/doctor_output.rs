//! Formats findings for people and as JSON.

use std::path::Path;

use serde_json::json;

use super::finding::{DoctorFinding, DoctorStatus};
use crate::{
    cli::{
        build_info::BuildInfo,
        render::{json_line, name, one_line},
    },
    error::count,
    limits,
};

/// The version of the JSON object. It changes when a field changes its meaning or goes; new fields may come at any time.
pub const FORMAT: u32 = 1;

/// The columns of the status and of the check's name.
const WIDTHS: (usize, usize) = (7, 13);

/// Formats a finding as lines: the status, the check and the message, and below it the details and the hint.
pub fn finding_as_text(finding: &DoctorFinding) -> String {
    let DoctorFinding { check, status, message, details, hint } = finding;
    let (status_width, check_width) = WIDTHS;
    let line = |text: &str| one_line(text, limits::DOCTOR_LINE_CHARS);
    let mut lines = vec![format!("{:status_width$}  {check:check_width$}  {}", status.word(), line(message))];
    let indent = " ".repeat(status_width + 2 + check_width + 2);
    lines.extend(shown_details(details).iter().map(|detail| format!("{indent}{}", line(detail))));
    lines.extend(hint.iter().map(|hint| format!("{indent}hint: {}", line(hint))));
    lines.join("\n")
}

/// Returns the details that are shown, with a line that counts the others.
fn shown_details(details: &[String]) -> Vec<String> {
    let mut shown: Vec<_> = details.iter().take(limits::DOCTOR_DETAILS).cloned().collect();
    let more = details.len() - shown.len();
    shown.extend((more > 0).then(|| format!("and {more} more")));
    shown
}

/// Formats the last lines of the text: the number of problems and notes, and the report that was written.
pub fn verdict(findings: &[DoctorFinding], bundle: Option<&Path>) -> String {
    let of = |status| findings.iter().filter(|finding| finding.status == status).count() as u64;
    let (problems, notes) = (of(DoctorStatus::Problem), of(DoctorStatus::Note));
    let problems = if problems == 0 { "no problems".into() } else { count(problems, "problem", "problems") };
    let notes = if notes == 0 { String::new() } else { format!(", {}", count(notes, "note", "notes")) };
    let written = bundle.map_or(String::new(), |path| {
        format!("\nthe report is in {}: read it before you share it", name(&path.display().to_string()))
    });
    format!("{problems}{notes}{written}")
}

/// Formats all findings as a line of JSON.
pub fn findings_as_json(build: &BuildInfo, findings: &[DoctorFinding], bundle: Option<&Path>) -> String {
    let of = |status| findings.iter().filter(|finding| finding.status == status).count();
    let findings: Vec<_> = findings
        .iter()
        .map(|finding| DoctorFinding { details: shown_details(&finding.details), ..finding.clone() })
        .collect();
    json_line(&json!({
        "format": FORMAT,
        "ok": of(DoctorStatus::Problem) == 0,
        "problems": of(DoctorStatus::Problem),
        "notes": of(DoctorStatus::Note),
        "build": build,
        "findings": findings,
        "bundle": bundle.map(|path| path.display().to_string()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{build_info::BUILD, doctor::finding::UnnamedFinding};

    fn findings() -> Vec<DoctorFinding> {
        let plain = UnnamedFinding::ok("all is well").of_check("version");
        let note =
            UnnamedFinding::note("odd\nerror: forged \u{1b}[2J").details(["one", "two\nthree"]).of_check("config");
        vec![plain, note, UnnamedFinding::problem("gone").hint("bring it back").of_check("mcp-servers")]
    }

    #[test]
    fn finding_is_lines_that_cannot_forge_others() {
        let text: Vec<_> = findings().iter().map(finding_as_text).collect();
        assert_eq!(text[0], "ok       version        all is well");
        let odd = "note     config         odd error: forged \\u{1b}[2J\n                        one\n                        two three";
        assert_eq!(text[1], odd);
        assert_eq!(text[2], "problem  mcp-servers    gone\n                        hint: bring it back");
        assert_eq!(verdict(&findings(), None), "1 problem, 1 note");
        let calm = verdict(&findings()[..1], Some(Path::new("r.txt")));
        assert_eq!(calm, "no problems\nthe report is in r.txt: read it before you share it");
    }

    #[test]
    fn json_counts_and_lists_findings_with_all_fields() {
        let value: serde_json::Value = serde_json::from_str(&findings_as_json(&BUILD, &findings(), None)).unwrap();
        assert_eq!((&value["format"], &value["ok"]), (&json!(1), &json!(false)));
        assert_eq!((&value["problems"], &value["notes"], &value["bundle"]), (&json!(1), &json!(1), &json!(null)));
        assert_eq!(value["build"]["version"], env!("CARGO_PKG_VERSION"));
        let last = &value["findings"][2];
        let expected = json!({"check": "mcp-servers", "status": "problem", "message": "gone", "details": [], "hint": "bring it back"});
        assert_eq!(*last, expected);
    }

    #[test]
    fn details_beyond_the_bound_are_counted() {
        let many = (0..limits::DOCTOR_DETAILS + 3).map(|at| at.to_string());
        let text = finding_as_text(&UnnamedFinding::ok("many").details(many).of_check("plugins"));
        assert_eq!(text.lines().count(), limits::DOCTOR_DETAILS + 2);
        assert!(text.ends_with("and 3 more"), "{text}");
    }
}
