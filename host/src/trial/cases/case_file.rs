use std::{collections::BTreeSet, path::PathBuf};

use indexmap::IndexMap;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;

use super::{
    case_folder::is_inside,
    case_host::CaseHostFixture,
    expectation::CaseExpectation,
    plugin_case::{CaseInput, CaseToolCall, PluginCase},
};
use crate::{
    config::{LimitsConfig, PluginUse, parse_yaml},
    error::{ErrorKind, Report},
    limits,
    plugin::{PluginKind, PluginManifest},
    trial::{
        fixture::{RequestFixture, StepFixture},
        step_trial::step_kind,
    },
};

/// The name of a file of cases in messages.
const CASES: &str = "the file of cases";

/// A file of test cases.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseFile {
    /// The path.
    pub path: PathBuf,
    /// The text of the file.
    pub text: String,
    /// The cases, in the order of the file.
    pub cases: Vec<PluginCase>,
}

impl CaseFile {
    /// Parses the text of a file of cases in YAML or JSON. The manifest of the tested plugin says of which kind its steps
    /// are.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file, the position or the case, and how to correct it.
    pub fn parse(path: PathBuf, text: String, manifest: &PluginManifest) -> Result<Self, Report> {
        let source = path.display().to_string();
        let most = limits::TRIAL_INPUT_BYTES;
        if text.len() > most {
            let message = format!("{CASES} has {} bytes, the maximum is {most}", text.len());
            return Err(usage(message).hint("distribute the cases among several files").in_file(source));
        }
        let cases = match kind_of_steps(&text, &source, manifest)? {
            // Without a step, the type of its input does not matter.
            None | Some(PluginKind::Effect) => cases(&text, &source, StepFixture::Effect),
            Some(PluginKind::RunMiddleware) => cases(&text, &source, StepFixture::RunMiddleware),
            Some(PluginKind::ModelMiddleware) => cases(&text, &source, StepFixture::ModelMiddleware),
            Some(PluginKind::ToolMiddleware) => cases(&text, &source, StepFixture::ToolMiddleware),
            Some(PluginKind::Coordinator) => cases(&text, &source, StepFixture::Coordinator),
            Some(kind @ (PluginKind::Tool | PluginKind::Functions | PluginKind::Provider)) => {
                Err(usage(format!("a plugin of kind `{kind}` has no steps")).in_file(&source))
            }
        };
        let cases = cases?;
        let mut names = BTreeSet::new();
        if let Some(again) = cases.iter().find(|case| !names.insert(&case.name)) {
            let message = format!("two cases have the name `{}`", again.name);
            return Err(usage(message).hint("give each case of a file a name of its own").in_file(source));
        }
        Ok(Self { path, text, cases })
    }
}

/// The keys of a case that determine the type of its `step`. They are read first.
#[derive(Deserialize)]
struct CaseHead {
    kind: Option<String>,
    step: Option<IgnoredAny>,
}

/// A case as the file has it. `S` is the type of a step's input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseEntry<S> {
    name: String,
    kind: Option<String>,
    call: Option<CaseToolCall>,
    step: Option<S>,
    complete: Option<RequestFixture>,
    #[serde(default)]
    grants: PluginUse,
    #[serde(default)]
    params: IndexMap<String, Value>,
    #[serde(default)]
    limits: LimitsConfig,
    #[serde(default)]
    host: CaseHostFixture,
    expect: Option<CaseExpectation>,
}

/// Returns the kind of the steps in a file; `None` if it has no steps. All steps of a file are of one kind, so that the file
/// is parsed with the type of their input, and an error names the line.
fn kind_of_steps(text: &str, source: &str, manifest: &PluginManifest) -> Result<Option<PluginKind>, Report> {
    let heads: Vec<CaseHead> = parse_yaml(text, CASES, source)?;
    let mut kinds = BTreeSet::new();
    for head in heads.iter().filter(|head| head.step.is_some()) {
        let wanted = head.kind.as_deref().map(str::parse::<PluginKind>).transpose();
        let wanted = wanted.map_err(|unknown| usage(unknown).in_file(source))?;
        kinds.insert(step_kind(manifest, wanted).map_err(|report| report.in_file(source))?);
    }
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    match names.len() {
        0 | 1 => Ok(kinds.first().copied()),
        _ => Err(usage(format!("the cases call steps of the kinds {}", names.join(", ")))
            .hint("write a file for each kind")
            .in_file(source)),
    }
}

fn cases<S: DeserializeOwned>(
    text: &str,
    source: &str,
    step: impl Fn(S) -> StepFixture,
) -> Result<Vec<PluginCase>, Report> {
    let entries: Vec<CaseEntry<S>> = parse_yaml(text, CASES, source)?;
    entries
        .into_iter()
        .map(|entry| {
            let place = format!("{source}, case `{}`", entry.name);
            entry.case(&step).map_err(|report| report.in_file(place))
        })
        .collect()
}

impl<S> CaseEntry<S> {
    fn case(self, step: impl Fn(S) -> StepFixture) -> Result<PluginCase, Report> {
        let Self { name, kind, call, step: step_input, complete, grants, params, limits, host, expect } = self;
        if name.trim().is_empty() {
            return Err(usage("a case has an empty name".into()).hint("write as `name` what the case shows"));
        }
        if kind.is_some() && step_input.is_none() {
            return Err(usage("`kind` is only for a case with `step`".into()).hint("remove `kind`"));
        }
        let input = match (call, step_input, complete) {
            (Some(call), None, None) => CaseInput::Call(call),
            (None, Some(input), None) => CaseInput::Step(Box::new(step(input))),
            (None, None, Some(request)) => CaseInput::Complete(Box::new(request)),
            (None, None, None) => {
                return Err(usage("the case calls nothing".into()).hint("write `call`, `step` or `complete`"));
            }
            _ => {
                let message = "the case has several of `call`, `step` and `complete`".into();
                return Err(usage(message).hint("write a case for each"));
            }
        };
        if let Some(folder) = grants.files.iter().find(|folder| !is_inside(&folder.path)) {
            let message = format!("grants.files: `{}` is not below the folder of the case", folder.path.display());
            return Err(usage(message).hint("write a relative path without `..`; `host.files` puts files there"));
        }
        host.check()?;
        let mut uses = grants;
        uses.params.extend(params);
        uses.limits = limits.over(&uses.limits);
        Ok(PluginCase { name, expect: expect.unwrap_or_default(), input, uses, host })
    }
}

fn usage(message: String) -> Report {
    Report::new(ErrorKind::Usage, message)
}

/// Parses a file of cases for a plugin of these kinds.
#[cfg(test)]
pub(super) fn parsed(text: &str, kinds: &str) -> Result<CaseFile, Report> {
    let phases = if kinds.contains("effect") { "[effect]\nphases = [\"before-model\"]\n" } else { "" };
    let manifest = format!("id = \"p\"\ncomponent = \"p.wasm\"\nkinds = [{kinds}]\n{phases}");
    let manifest = PluginManifest::parse(&manifest).unwrap();
    CaseFile::parse("cases/a.yaml".into(), text.into(), &manifest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cases_are_read_with_their_grants_and_inputs() {
        let text = "
- name: one
  call: {tool: t, arguments: {a: 1}}
  grants: {kv: run, params: {x: 1, y: 1}}
  params: {y: 2}
  limits: {time: 2s}
- name: two
  step: {messages: [{text: hello}]}
  expect:
    decision: edits
";
        let file = parsed(text, "\"effect\"").unwrap();
        assert_eq!(file.cases.len(), 2);
        let uses = &file.cases[0].uses;
        assert_eq!((&uses.params["x"], &uses.params["y"]), (&json!(1), &json!(2)));
        assert_eq!((uses.limits.time.map(|time| time.as_secs()), uses.kv.is_some()), (Some(2), true));
        assert!(matches!(&file.cases[1].input, CaseInput::Step(step) if matches!(**step, StepFixture::Effect(_))));
        assert!(parsed("[]", "\"tool\"").unwrap().cases.is_empty());
    }

    #[test]
    fn mistakes_in_a_file_of_cases_have_their_place() {
        let both = "\"effect\", \"run-middleware\"";
        for (text, kinds, says) in [
            ("- {name: a, cal: {tool: t}}", "\"tool\"", "there is no key `cal` (cases/a.yaml, line 1"),
            ("- name: a\n  call: {tool: t, args: {}}", "\"tool\"", "there is no key `args` (cases/a.yaml, line 2"),
            ("- name: a\n  step: {mesages: []}", "\"effect\"", "there is no key `mesages` (cases/a.yaml, line 2"),
            ("- name: a\n  grants: {cloc: true}", "\"tool\"", "there is no key `cloc` (cases/a.yaml, line 2"),
            ("name: a", "\"tool\"", "expected"),
            ("- {name: a}", "\"tool\"", "the case calls nothing (cases/a.yaml, case `a`)"),
            ("- {name: ' ', call: {tool: t}}", "\"tool\"", "a case has an empty name"),
            ("- {name: a, call: {tool: t}, complete: {}}", "\"tool\"", "the case has several of"),
            ("- {name: a, call: {tool: t}, kind: effect}", "\"tool\"", "`kind` is only for a case with `step`"),
            ("- {name: a, step: {}}", "\"tool\"", "plugin `p` has no steps"),
            ("- {name: a, step: {}}", both, "plugin `p` has several kinds with steps"),
            ("- {name: a, step: {}, kind: efect}", both, "unknown kind `efect`"),
            (
                "- {name: a, step: {}, kind: effect}\n- {name: b, step: {}, kind: run-middleware}",
                both,
                "the cases call steps of the kinds effect, run-middleware (cases/a.yaml)",
            ),
            ("- {name: a, call: {tool: t}}\n- {name: a, call: {tool: u}}", "\"tool\"", "two cases have the name `a`"),
            (
                "- {name: a, call: {tool: t}, grants: {files: [{path: /etc}]}}",
                "\"tool\"",
                "grants.files: `/etc` is not below the folder of the case",
            ),
            ("- {name: a, call: {tool: t}, host: {files: {../x: ''}}}", "\"tool\"", "host.files: `../x` is not below"),
        ] {
            let report = parsed(text, kinds).unwrap_err();
            assert!(report.message.starts_with(says), "{text}: {report}");
            assert!(report.message.contains("cases/a.yaml"), "{report}");
        }
        let long = format!("- name: {}", "x".repeat(limits::TRIAL_INPUT_BYTES));
        let report = parsed(&long, "\"tool\"").unwrap_err();
        assert_eq!(report.message, "the file of cases has 4194312 bytes, the maximum is 4194304 (cases/a.yaml)");
    }
}
