use super::delegate_args::{DELEGATE_TOOL, DelegateCall};
use crate::{
    agent::context::{AgentCall, AgentCalls, RunState},
    capability::Budget,
    chat::ToolCall,
    limits,
    tool::ToolCx,
};

/// Returns the calls that run agents in the reply with the call `id`.
pub(super) fn agent_calls_of_reply(me: &RunState, cx: &ToolCx, id: &str) -> AgentCalls {
    let reply = cx.chat.iter().rev().find(|entry| entry.message.tool_calls().any(|call| call.id == id));
    let calls = reply.into_iter().flat_map(|entry| entry.message.tool_calls()).take(limits::CALLS_PER_REPLY);
    AgentCalls { reply: reply.map(|entry| entry.id), calls: calls.filter_map(|call| agent_call(me, call)).collect() }
}

/// Returns the budgets and tasks of a call if it runs agents. A call that had begun before the run was interrupted asks for
/// nothing more.
fn agent_call(me: &RunState, call: &ToolCall) -> Option<AgentCall> {
    let id = call.id.clone();
    let has_begun = me.children.recorded_call(&call.id).is_some();
    let is_agent = |name: &str| {
        let tools = me.caller.as_ref().map(|caller| &caller.tools);
        tools.is_some_and(|tools| tools.iter().any(|tool| tool.spec().name == name && tool.runs_agents()))
    };
    if call.name == DELEGATE_TOOL && me.delegates_to().is_some() {
        let delegate = Some(call).filter(|_| !has_begun).and_then(|call| DelegateCall::read(me, &call.arguments));
        // A call that cannot be read fails.
        let requests = delegate.map(|delegate| delegate.requests).unwrap_or_default();
        let (budgets, tasks) =
            requests.into_iter().map(|request| (request.budget, (request.agent, request.task))).unzip();
        return Some(AgentCall { id, budgets, tasks });
    }
    let budgets = if has_begun { Vec::new() } else { vec![Budget::default()] };
    is_agent(&call.name).then_some(AgentCall { id, budgets, tasks: Vec::new() })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc, time::Duration};

    use crate::{
        agent::{
            Agent, AgentEntry, AgentGroup, AgentRegistry, AgentTool, AgentToolOptions, InteractionMode,
            journal::JournalRecord,
            testing::{MemoryRecorder, recorded_group},
        },
        capability::Budget,
        chat::{Chat, Message, ToolCall},
        error::Fault,
        event::RunCx,
        model::ScriptedCompleter,
        tool::{ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget},
    };
    use async_trait::async_trait;

    /// A middleware that lets calls pass in the order of these ids.
    struct CallOrder(Vec<&'static str>);

    #[async_trait]
    impl ToolMiddleware for CallOrder {
        fn name(&self) -> &str {
            "call-order"
        }

        async fn before(&self, _: &RunCx, call: &ToolCall, _: &ToolTarget) -> Result<ToolCallDecision, Fault> {
            let at = self.0.iter().position(|id| *id == call.id).unwrap();
            tokio::time::sleep(Duration::from_secs(at as u64)).await;
            Ok(ToolCallDecision { verdict: ToolCallVerdict::Allow, arguments: None, state: Vec::new() })
        }
    }

    /// Returns the id, instance name and tokens of each task, by call, if the calls begin in this order.
    async fn delegated(order: &[&'static str]) -> BTreeMap<String, Vec<(Option<String>, String, Option<u64>)>> {
        let registry = AgentRegistry::new();
        let done = || ScriptedCompleter::new([ScriptedCompleter::text("done")]);
        registry.register(AgentEntry::new("bob", ""), move || Agent::new("bob", "", Arc::new(done())));
        let recorder = Arc::<MemoryRecorder>::default();
        let group: Arc<AgentGroup> = recorded_group(&recorder, &registry);
        let task = |task: &str| format!(r#"{{"agent":"bob","task":"{task}","context":"It is old."}}"#);
        let one = format!(r#"{{"tasks":[{}]}}"#, task("Paint"));
        let two = format!(r#"{{"tasks":[{},{}]}}"#, task("Clean"), task("Sweep"));
        let script = ScriptedCompleter::new([
            ScriptedCompleter::calls(&[
                ("c1", "delegate", &one),
                ("c2", "delegate", &two),
                ("c3", "ann", r#"{"task":"Go"}"#),
            ]),
            ScriptedCompleter::text("over"),
        ]);
        let ann = AgentTool::new(Agent::new("ann", "", Arc::new(done())), AgentToolOptions::default()).unwrap();
        let lead = Agent::new("lead", "", Arc::new(script)).with_tool(ann).with_agent_group(group, 1);
        let mut lead = lead.with_tool_middleware(CallOrder(order.to_vec()));
        lead.options.interaction = InteractionMode::Interactive;
        let lead = lead.with_budget(Budget { tokens: Some(100_000), ..Budget::default() });
        lead.run(&RunCx::new("lead"), &Chat::recorded(), vec![Message::user("go")]).await.unwrap();
        let delegated = recorder.records().into_iter().filter_map(|(_, record)| match record {
            JournalRecord::Delegated { call, tasks, .. } => {
                let tasks = tasks.into_iter().map(|task| (task.id, task.instance.to_string(), task.bounds.tokens));
                Some((call, tasks.collect()))
            }
            _ => None,
        });
        delegated.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_a_reply_share_by_their_order_in_it() {
        let first = delegated(&["c1", "c2", "c3"]).await;
        let names =
            |call: &str| first[call].iter().map(|(id, instance, _)| (id.as_deref(), &**instance)).collect::<Vec<_>>();
        assert_eq!(names("c1"), [(Some("d-1"), "bob-paint-1")]);
        assert_eq!(names("c2"), [(Some("d-2"), "bob-clean-2"), (Some("d-3"), "bob-sweep-3")]);
        let shares: Vec<_> = first.values().flatten().map(|(_, _, tokens)| tokens.unwrap()).collect();
        assert_eq!(shares.len(), 4);
        assert!(shares.iter().all(|share| *share == shares[0] && *share > 10_000), "{shares:?}");
        for order in [["c2", "c1", "c3"], ["c3", "c2", "c1"], ["c2", "c3", "c1"]] {
            assert_eq!(delegated(&order).await, first, "{order:?}");
        }
    }
}
