//! Agent tools whose agent is built anew for each call.

use shelly_host::{
    agent::{AgentRefusal, AgentTool, AgentToolOptions},
    capability::{Ceiling, CeilingBound},
    event::Event,
};

use super::{agent, caller, task};
use crate::script::{Mind, run, text};

#[tokio::test]
async fn agent_tool_instance_obeys_the_ceiling_of_its_caller() {
    let bob = |ceiling: &Ceiling| match ceiling.admits("secrets") {
        true => Ok(agent("whatever", Mind::new(|asked| text(&format!("{} may", asked.agent))))),
        false => Err(AgentRefusal("it needs `secrets`".into())),
    };
    for (agents, expected) in [
        (None, "lead/bob#1 may"),
        (Some("secrets"), "lead/bob#1 may"),
        (Some("bob"), "agent `bob` failed: agent `bob` cannot be started by this agent"),
    ] {
        let mut lead = caller(vec![("bob", task("go"))])
            .with_tool(AgentTool::made("bob", "", bob, AgentToolOptions::default()).unwrap());
        let agents = agents.map(|name| [name.to_owned()].into_iter().collect());
        lead.delegable = Ceiling::of("lead", CeilingBound { agents, ..CeilingBound::default() });
        let ran = run(&lead, "go").await;
        assert_eq!(ran.results(), [expected]);
        let warned = ran.events.iter().any(
            |event| matches!(event, Event::Warning { message } if message == "lead cannot start agent `bob`: it needs `secrets`"),
        );
        assert_eq!(warned, expected.contains("failed"));
    }
}
