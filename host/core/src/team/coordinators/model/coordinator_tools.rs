//! The tools of a model that coordinates. Calls are answered from the [`CoordinatorInput`], which does not change
//! meanwhile.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::{
        super::{CoordinatorInput, MemberProfile},
        quote::quoted,
    },
    coordinator_lookup::CoordinatorLookup,
    coordinator_prompt,
};
use crate::{
    chat::{ChatEntry, ToolSpec},
    limits, tool,
};

pub const STATUS: &str = "get_team_status";
pub const OLDER: &str = "get_shared_summary";
pub const ASSIGN: &str = "assign_task";
pub const FINISH: &str = "finish";

#[derive(Deserialize, JsonSchema)]
pub struct TeamStatusArgs {}

#[derive(Deserialize, JsonSchema)]
pub struct OlderMessagesArgs {
    /// The page to show; page 1, the default, has the newest of these messages.
    #[serde(default)]
    pub page: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
pub struct AssignArgs {
    /// The members who work next. They work in parallel: name more than one only if they do not depend on each other.
    pub assignments: Vec<AssignmentArg>,
    /// Why, in one sentence.
    #[serde(default)]
    pub reasoning: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub struct AssignmentArg {
    /// The member's name.
    #[schemars(with = "String")]
    pub member: Value,
    /// What the member is to do now; it sees the conversation, and only this member sees the task. If left out, the
    /// member continues by itself.
    #[serde(default)]
    pub task: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub struct FinishArgs {
    /// The team's answer; the last message of the conversation if left out.
    #[serde(default)]
    pub answer: Option<String>,
    /// Why, in one sentence.
    #[serde(default)]
    pub reasoning: Option<String>,
}

/// Returns the tools; without the lookup tools if no further lookup is allowed.
pub fn specs(members: &[MemberProfile], may_look: bool) -> Arc<[Arc<ToolSpec>]> {
    static OTHERS: LazyLock<[Arc<ToolSpec>; 3]> = LazyLock::new(|| {
        [
            tool::spec::<FinishArgs>(FINISH, "Ends the work of the team, once the task is done."),
            tool::spec::<TeamStatusArgs>(STATUS, "Shows each member with its role, its outcome and its last message."),
            tool::spec::<OlderMessagesArgs>(OLDER, "Shows the messages before those that you are shown, in pages."),
        ]
        .map(Arc::new)
    });
    let others = &OTHERS[..if may_look { 3 } else { 1 }];
    std::iter::once(Arc::new(assign(members))).chain(others.iter().cloned()).collect()
}

/// Returns the tool that chooses the members, with the names of the current members in its schema.
fn assign(members: &[MemberProfile]) -> ToolSpec {
    let mut spec = tool::spec::<AssignArgs>(ASSIGN, "Decides who works next, and on what.");
    let mut schema: Value = serde_json::from_str(spec.input_schema.get()).expect("a schema is JSON");
    list_names(&mut schema, &name_schema(members));
    spec.input_schema = serde_json::value::to_raw_value(&schema).expect("a schema is JSON").into();
    spec
}

/// Returns the JSON Schema of a member's name: an enumeration of the current names, unless they exceed what vendors accept.
pub fn name_schema(members: &[MemberProfile]) -> Value {
    let chars: usize = members.iter().map(|member| member.name.chars().count()).sum();
    match members.len() <= limits::COORDINATOR_ENUM_NAMES && chars <= limits::COORDINATOR_ENUM_CHARS {
        true => json!({"type": "string", "enum": members.iter().map(|member| &*member.name).collect::<Vec<_>>()}),
        false => json!({"type": "string"}),
    }
}

/// Adds the schema of the names to each property `member` in a schema.
fn list_names(schema: &mut Value, names: &Value) {
    let Value::Object(keys) = schema else { return };
    for (key, value) in keys {
        match (key.as_str(), value) {
            ("member", Value::Object(member)) => {
                member.extend(names.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
            }
            (_, value) => list_names(value, names),
        }
    }
}

impl CoordinatorLookup {
    /// Returns the call in words.
    pub fn call(self) -> String {
        match self {
            Self::Status => STATUS.into(),
            Self::Older(page) => format!("{OLDER}, page {page}"),
        }
    }

    /// Returns the requested information. `older` are the messages before those that are shown.
    pub fn at(self, moment: &CoordinatorInput<'_>, older: &[&ChatEntry]) -> String {
        match self {
            Self::Status => status(moment),
            Self::Older(page) => self::older(moment, older, page),
        }
    }
}

fn status(moment: &CoordinatorInput<'_>) -> String {
    let mut wrote: HashMap<&str, (usize, &ChatEntry)> = HashMap::new();
    for entry in moment.shared.iter().rev().filter(|entry| coordinator_prompt::is_shown(entry)) {
        if let Some(member) = entry.message.member() {
            wrote.entry(member).or_insert((0, entry)).0 += 1;
        }
    }
    let chars = limits::COORDINATOR_LOOKUP_CHARS / moment.members.len().max(1);
    let one = |member: &MemberProfile| {
        let who = format!("{:?} (role: {:?})", &*member.name, &*member.role);
        match wrote.get(&*member.name) {
            None => format!("{who} has said nothing yet."),
            Some((1, last)) => format!("{who} has said:\n{}", quoted(&coordinator_prompt::words(last), chars)),
            Some((count, last)) => {
                format!(
                    "{who} has written {count} messages, the last one:\n{}",
                    quoted(&coordinator_prompt::words(last), chars)
                )
            }
        }
    };
    let told: Vec<_> = moment.members.iter().map(one).collect();
    format!("{}{}", told.join("\n"), coordinator_prompt::reports(moment))
}

fn older(moment: &CoordinatorInput<'_>, older: &[&ChatEntry], page: u32) -> String {
    let pages = older.len().div_ceil(limits::COORDINATOR_PAGE);
    if older.is_empty() {
        return "There are no messages before those that you are shown.".into();
    }
    let at = usize::try_from(page.max(1)).unwrap_or(usize::MAX);
    if at > pages {
        return format!("There is no page {at}: the last page is {pages}.");
    }
    let end = older.len() - (at - 1) * limits::COORDINATOR_PAGE;
    let start = end.saturating_sub(limits::COORDINATOR_PAGE);
    let chars = limits::COORDINATOR_LOOKUP_CHARS / limits::COORDINATOR_PAGE;
    let shown: Vec<_> = older[start..end].iter().map(|entry| coordinator_prompt::shown(moment, entry, chars)).collect();
    format!("Messages {} to {end} of {}, page {at} of {pages}:\n{}", start + 1, older.len(), shown.join("\n"))
}
