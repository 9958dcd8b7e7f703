use serde_json::{Map, Value, json};

use super::{case_file::CaseFile, yaml_block::yaml_block};
use crate::{
    config::list_entry_lines,
    error::{ErrorKind, Report},
    plugin::PluginManifest,
};

/// The key that is written.
const EXPECT: &str = "expect";

/// Returns the text of a file of cases with a new `expect` for some of them, given by their positions. The rest of a YAML
/// file stays as it is, comments included; only comments within a replaced `expect` are lost. A JSON file is formatted anew.
///
/// # Errors
///
/// A [`Report`] if an `expect` cannot be replaced alone, because it shares its lines with other keys.
pub fn updated_text(
    file: &CaseFile,
    updates: &[(usize, Map<String, Value>)],
    manifest: &PluginManifest,
) -> Result<String, Report> {
    let text = match serde_json::from_str::<Value>(&file.text) {
        Ok(json) => Some(updated_json(json, updates)),
        Err(_) => updated_yaml(&file.text, updates),
    };
    let is_expected = |text: &String| is_update(file, text, updates, manifest);
    text.filter(is_expected).ok_or_else(|| {
        let names: Vec<_> = updates.iter().map(|(at, _)| format!("`{}`", file.cases[*at].name)).collect();
        Report::new(ErrorKind::Usage, format!("cannot write `{EXPECT}` of {}", names.join(", ")))
            .hint(format!(
                "begin each case with `- name:`, and write its other keys, also `{EXPECT}:`, on lines of their own"
            ))
            .in_file(file.path.display())
    })
}

fn updated_json(mut cases: Value, updates: &[(usize, Map<String, Value>)]) -> String {
    for (at, update) in updates {
        if let Some(Value::Object(case)) = cases.get_mut(*at) {
            case.insert(EXPECT.into(), update.clone().into());
        }
    }
    serde_json::to_string_pretty(&cases).unwrap_or_default() + "\n"
}

/// Replaces the lines of each `expect`, or adds them at the end of the case. Returns `None` if a case has no lines of its own.
fn updated_yaml(text: &str, updates: &[(usize, Map<String, Value>)]) -> Option<String> {
    let places = list_entry_lines(text, EXPECT)?;
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut blocks = Vec::new();
    for (at, update) in updates {
        let place = places.get(*at)?;
        let index = |line: u64| usize::try_from(line).ok()?.checked_sub(1);
        let first = index(place.entry)?;
        let end = places.get(*at + 1).map_or(Some(lines.len()), |next| index(next.entry))?;
        let margin = key_column(lines.get(first)?)?;
        // Empty lines and comments before the next case belong to that case.
        let belongs = |at: &usize| {
            let line = lines[*at];
            !(line.trim().is_empty() || is_comment(line) && depth(line) < margin)
        };
        let (from, to) = match place.key {
            Some(key) => {
                let from = index(key)?;
                let next = (from + 1..end).find(|at| ends_block(lines[*at], margin)).unwrap_or(end);
                (from, (from..next).rev().find(belongs)? + 1)
            }
            None => {
                let behind = (first..end).rev().find(belongs)? + 1;
                (behind, behind)
            }
        };
        let head = match place.key {
            // The key may stand behind the dash of its case.
            Some(_) => lines[from].split(EXPECT).next()?.to_owned(),
            None => " ".repeat(margin),
        };
        if head.len() != margin || !head.trim_start_matches(' ').trim_start_matches('-').trim().is_empty() {
            return None;
        }
        let value =
            if update.is_empty() { " {}\n".to_owned() } else { format!("\n{}", yaml_block(update, margin + 2)) };
        blocks.push((from, to, format!("{head}{EXPECT}:{value}")));
    }
    // From the last to the first, so that the positions of the others stay.
    blocks.sort_by_key(|(from, ..)| std::cmp::Reverse(*from));
    for (from, to, block) in &blocks {
        drop(lines.splice(*from..*to, [block.as_str()]));
    }
    // The last line of the file may have no end.
    let mut updated = String::new();
    for line in lines {
        if !updated.is_empty() && !updated.ends_with('\n') {
            updated.push('\n');
        }
        updated.push_str(line);
    }
    Some(updated)
}

/// Returns the column of the keys of a case that begins on this line; `None` if it does not begin with a dash.
fn key_column(line: &str) -> Option<usize> {
    let behind = line.trim_start_matches(' ').strip_prefix('-')?.trim_start_matches(' ');
    Some(line.len() - behind.len())
}

/// Returns `true` if a line ends the value of a key in this column.
fn ends_block(line: &str, margin: usize) -> bool {
    !line.trim().is_empty() && depth(line) <= margin
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns `true` if the text parses to the cases of the file with exactly these updates. It catches edits of YAML that went
/// wrong, such as those of anchors.
fn is_update(file: &CaseFile, text: &str, updates: &[(usize, Map<String, Value>)], manifest: &PluginManifest) -> bool {
    let Ok(mut read) = CaseFile::parse(file.path.clone(), text.to_owned(), manifest) else { return false };
    for (at, update) in updates {
        let (Some(case), Some(before)) = (read.cases.get_mut(*at), file.cases.get(*at)) else { return false };
        if json!(case.expect.values()) != json!(update) {
            return false;
        }
        case.expect.clone_from(&before.expect);
    }
    read.cases == file.cases
}

#[cfg(test)]
mod tests {
    use super::{super::case_file::parsed, *};

    fn manifest() -> PluginManifest {
        PluginManifest::parse("id = \"p\"\ncomponent = \"p.wasm\"\nkinds = [\"tool\"]\n").unwrap()
    }

    fn updated(text: &str, updates: &[(usize, Value)]) -> Result<String, Report> {
        let update = |(at, value): &(usize, Value)| (*at, value.as_object().unwrap().clone());
        let updates: Vec<_> = updates.iter().map(update).collect();
        updated_text(&parsed(text, "\"tool\"")?, &updates, &manifest())
    }

    #[test]
    fn expectations_are_replaced_and_the_rest_is_kept() {
        let text = "\
# All cases.
- name: one   # the first
  call: {tool: t}
  expect:
    result: old   # lost
    log: []

  # How it is granted.
  grants: {clock: true}

# The second.
- name: two
  call:
    tool: t

# The third.
-   expect: {result: a}
    name: three
    call: {tool: t}
- name: four
  call: {tool: t}
  expect:
    result: kept";
        let expected = "\
# All cases.
- name: one   # the first
  call: {tool: t}
  expect:
    result: |-
      new
      lines

  # How it is granted.
  grants: {clock: true}

# The second.
- name: two
  call:
    tool: t
  expect:
    result: \"2\"

# The third.
-   expect: {}
    name: three
    call: {tool: t}
- name: four
  call: {tool: t}
  expect:
    result: kept";
        let updates = [(2, json!({})), (0, json!({"result": "new\nlines"})), (1, json!({"result": "2"}))];
        assert_eq!(updated(text, &updates).unwrap(), expected);
        let last = updated(text, &[(3, json!({"contains": ["x"]}))]).unwrap();
        assert!(last.ends_with("  call: {tool: t}\n  expect:\n    contains:\n      - x\n"), "{last}");
        let added = updated("- name: a\n  call: {tool: t}", &[(0, json!({"result": "x"}))]).unwrap();
        assert_eq!(added, "- name: a\n  call: {tool: t}\n  expect:\n    result: x\n");
    }

    #[test]
    fn json_file_is_written_anew() {
        let text = r#"[{"name": "a", "call": {"tool": "t"}, "expect": {"result": "x"}}]"#;
        let written = updated(text, &[(0, json!({"result": "y"}))]).unwrap();
        let read: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(read, json!([{"name": "a", "call": {"tool": "t"}, "expect": {"result": "y"}}]));
        assert!(written.ends_with("]\n"));
    }

    #[test]
    fn case_that_shares_its_lines_is_not_updated() {
        for text in [
            "- {name: a, call: {tool: t}, expect: {result: x}}",
            "[{name: a, call: {tool: t}}]",
            "- name: a\n  call: {tool: t}\n  expect: &x {result: a}\n- name: b\n  call: {tool: t}\n  expect: *x",
        ] {
            let report = updated(text, &[(0, json!({"result": "y"}))]).unwrap_err();
            assert_eq!(report.message, "cannot write `expect` of `a` (cases/a.yaml)", "{text}");
            assert!(report.hint.unwrap().contains("on lines of their own"), "{text}");
        }
    }
}
