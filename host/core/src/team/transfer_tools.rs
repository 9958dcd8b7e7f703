//! The tools with which one member of a team hands over to another.

use std::{collections::HashMap, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;

use super::Member;
use crate::{
    chat::{ToolResultContent, ToolSpec},
    limits,
    tool::{self, FnTool, RunControl, TaskHandoff, Tool, ToolBox, ToolConcurrency, ToolCx, ToolOutput},
};

/// What a member says when it gives way.
#[derive(Deserialize, JsonSchema)]
struct TransferArgs {
    /// Why, in one sentence.
    #[serde(default)]
    reason: String,
    /// What the other member must know that was not said yet.
    #[serde(default)]
    context: String,
}

/// The transfer tools of each member, cached while the list of members stays the same.
#[derive(Default)]
pub(super) struct TransferTools(HashMap<Arc<str>, (Vec<Arc<str>>, ToolBox)>);

impl TransferTools {
    /// Returns a tool for each of the other members.
    pub fn of(&mut self, member: &Member, there: &[Arc<Member>]) -> ToolBox {
        let names: Vec<_> = there.iter().map(|other| Arc::clone(&other.name)).collect();
        if let Some((made_for, tools)) = self.0.get(&member.name)
            && *made_for == names
        {
            return tools.clone();
        }
        let mut tools = ToolBox::new();
        for other in there.iter().filter(|other| other.name != member.name) {
            let name = tool_name(&other.name, &tools);
            // Cannot fail: the name is not taken.
            let _ = tools.register(transfer(name, other, member.runner.may_replace_answers()));
        }
        self.0.insert(Arc::clone(&member.name), (names, tools.clone()));
        tools
    }
}

/// Returns a tool name such as `transfer_to_flight-desk` for `flight desk`: characters that no vendor accepts become `-`,
/// and a number makes a taken name unique.
fn tool_name(member: &str, taken: &ToolBox) -> String {
    let mut name = ToolSpec::name_like(&format!("transfer_to_{member}"));
    name.truncate(ROOM);
    let mut free = name.clone();
    for number in 2.. {
        if !taken.contains(&free) {
            break;
        }
        free = format!("{name}-{number}");
    }
    free
}

/// The number of characters of a tool's name before its number: vendors accept 64 in all.
const ROOM: usize = 58;

/// Creates the tool that hands over to `to`. `quiet`: middleware around the member's runs may still change the handoff
/// message.
fn transfer(name: String, to: &Member, quiet: bool) -> Arc<dyn Tool> {
    let (target, description) = (Arc::clone(&to.name), &to.description);
    let what = format!("Transfers the conversation to {target}, which continues in your place. {description}");
    let spec: Arc<ToolSpec> = tool::spec::<TransferArgs>(&name, what.trim()).into();
    let tool = FnTool::with_spec(spec, move |_: ToolCx, TransferArgs { reason, context }| {
        let target = Arc::clone(&target);
        async move {
            let cut = |text: String| text.chars().take(limits::DELEGATION_CONTEXT_CHARS).collect();
            let text = ToolResultContent::Text(format!("{target} continues."));
            let to = TaskHandoff { agent: target.to_string(), reason: cut(reason), context: cut(context) };
            Ok(ToolOutput::Control(vec![text], RunControl::Handoff(to)))
        }
    });
    let tool = tool.uncounted().repeatable().with_hidden_arguments(quiet);
    Arc::new(tool.with_concurrency(ToolConcurrency::Independent))
}
