use super::{
    super::super::{
        super::{MemberAssignment, MemberProfile},
        testing::*,
    },
    *,
};
use crate::{
    chat::{Part, ToolCall},
    model::{ScriptedCompleter, StopReason, Usage},
};

mod remembered;
mod schemas;
mod shown;

type Reply = Result<Completion, Fault>;

/// A team whose model gives scripted replies.
struct Team {
    coordinator: ModelCoordinator,
    members: Vec<MemberProfile>,
    shared: Vec<Message>,
    /// Lets the members that work reply in the shared conversation.
    talks: bool,
    requests: Vec<CompletionRequest>,
    runs: Vec<Vec<MemberAssignment>>,
    reasons: Vec<Option<String>>,
    /// The largest state so far, in bytes.
    largest: usize,
}

impl Team {
    fn new(options: ModelCoordinatorOptions) -> Self {
        Self {
            coordinator: ModelCoordinator::new(options),
            members: profiles("ann:research bob:write"),
            shared: vec![Message::user("Write about tea.")],
            talks: false,
            requests: vec![],
            runs: vec![],
            reasons: vec![],
            largest: 0,
        }
    }

    /// Returns the actions after these replies, in words; ends with the question that has no reply.
    async fn play(&mut self, replies: impl IntoIterator<Item = Reply>) -> String {
        let (mut state, mut step, mut told) = (Vec::new(), 0, Vec::new());
        let (mut replies, mut reply) = (replies.into_iter(), None);
        loop {
            let shared = ChatSnapshot::from_messages(self.shared.clone()).unwrap();
            let moment = CoordinatorInput { step, shared: &shared, reply: reply.take(), ..moment(&self.members) };
            let next = self.coordinator.next(&cx(), &moment, state).await;
            told.push(shown(next.as_ref().map(|step| &step.action)));
            let Ok(next) = next else { break };
            self.largest = self.largest.max(next.state.len());
            match next.action {
                CoordinatorAction::Ask(ask) => {
                    assert_eq!(ask.model, self.coordinator.options.model);
                    self.requests.push(ask.request);
                    reply = replies.next();
                    if reply.is_none() {
                        break;
                    }
                }
                CoordinatorAction::Run(run) => {
                    if self.talks {
                        let says = |one: &MemberAssignment| {
                            Message::text(Role::Assistant, &*one.member, format!("I did {step}."))
                        };
                        self.shared.extend(run.iter().map(says));
                    }
                    self.runs.push(run);
                    self.reasons.push(next.reasoning);
                    step += 1;
                }
                CoordinatorAction::Done(_) => break,
            }
            state = next.state;
        }
        told.join(", ")
    }

    /// Returns the user message of the last request.
    fn user(&self) -> String {
        user(self.requests.last().unwrap())
    }

    fn system(&self) -> String {
        self.requests.last().unwrap().messages.system_prompt().unwrap()
    }
}

fn user(request: &CompletionRequest) -> String {
    assert_eq!(request.messages.len(), 2);
    request.messages.last().unwrap().message.text_content()
}

fn says(text: &str) -> Reply {
    ScriptedCompleter::text(text)
}

fn calls(calls: &[(&str, &str)]) -> Reply {
    let call = |&(name, arguments): &(&str, &str)| {
        Part::ToolCall(ToolCall { id: String::new(), name: name.into(), arguments: arguments.into(), meta: vec![] })
    };
    let (parts, usage) = (calls.iter().map(call).collect(), Usage::default());
    Ok(Completion { parts, stop: StopReason::ToolCalls, usage, model: String::new(), meta: vec![] })
}

fn offline() -> Reply {
    Err(Fault::Unavailable { message: "offline".into(), after: None })
}

fn refused() -> Reply {
    Err(Fault::invalid("no schemas here"))
}

fn with_tools() -> ModelCoordinatorOptions {
    ModelCoordinatorOptions { tools: true, ..ModelCoordinatorOptions::default() }
}

const UNUSABLE: &str = "error: the coordinator's model gave no usable answer";
const BOB: &str = r#"{"members":["bob"],"done":false}"#;

#[tokio::test]
async fn model_coordinator_decides_by_json_reply() {
    let denied = Err(Fault::Denied { message: "no key".into() });
    let twice = |text: &str| vec![says(text), says(text)];
    let there = "members: `ann`, `bob`";
    let cases: Vec<(&str, Vec<Reply>, String)> = vec![
        ("by name", vec![says(BOB)], "ask, bob, ask".into()),
        ("by place", vec![says(r#"{"members":[1],"done":false}"#)], "ask, bob, ask".into()),
        ("by place in quotes", vec![says(r#"{"members":["1"]}"#)], "ask, bob, ask".into()),
        ("several at once, in their order", vec![says(r#"{"members":["bob","ann"]}"#)], "ask, bob+ann, ask".into()),
        (
            "one after the other",
            vec![says(BOB), says(BOB), says(r#"{"done":true}"#)],
            "ask, bob, ask, bob, ask, done".into(),
        ),
        ("in a fence", vec![says(&format!("```json\n{BOB}\n```\n"))], "ask, bob, ask".into()),
        ("in a fence without a word", vec![says(&format!("```\n{BOB}\n```"))], "ask, bob, ask".into()),
        ("among words", vec![says(&format!("Well, {BOB} it is."))], "ask, bob, ask".into()),
        (
            "after others",
            vec![says(&format!("Not {{\"done\":true}}, {{x}} nor {{\"a\":1}}: {BOB}"))],
            "ask, bob, ask".into(),
        ),
        ("before one that decides nothing", vec![says(&format!("{BOB} {{\"note\":{{}}}} {{"))], "ask, bob, ask".into()),
        ("in a list", vec![says(&format!("[{BOB}]"))], "ask, bob, ask".into()),
        (
            "in a fence behind a sentence",
            vec![says(&format!("So:\n```json\n{BOB}\n```\nThat is all."))],
            "ask, bob, ask".into(),
        ),
        ("after a thought", vec![says(&format!("<think>{{\"done\":true}}?</think>\n\n{BOB}"))], "ask, bob, ask".into()),
        (
            "after a thought without its beginning",
            vec![says(&format!("Is it {{\"done\":true}}?</think>{BOB}"))],
            "ask, bob, ask".into(),
        ),
        (
            "with a tag in its words",
            vec![says(r#"{"members":["bob"],"reasoning":"no </think>"}"#)],
            "ask, bob, ask".into(),
        ),
        (
            "in a thought, then said",
            vec![says(&format!("<think>{BOB}")), says(&format!("<think>{BOB}</think>Hm.")), says(BOB)],
            format!(
                "ask, ask, {UNUSABLE}: the answer is not the requested JSON object: expected value at line 1 column 1"
            ),
        ),
        ("in other letters", vec![says(r#"{"members":[" BOB"]}"#)], "ask, bob, ask".into()),
        ("done", vec![says(r#"{"members":[],"done":true}"#)], "ask, done".into()),
        ("done, whoever is named", vec![says(r#"{"members":["zoe",99],"done":true}"#)], "ask, done".into()),
        ("no JSON, then better", vec![says("bob!"), says(BOB)], "ask, ask, bob, ask".into()),
        (
            "no JSON, twice",
            twice("bob!"),
            format!(
                "ask, ask, {UNUSABLE}: the answer is not the requested JSON object: expected value at line 1 column 1"
            ),
        ),
        (
            "nothing",
            twice(""),
            format!(
                "ask, ask, {UNUSABLE}: the answer is not the requested JSON object: EOF while parsing a value at line \
                 1 column 0"
            ),
        ),
        (
            "a stranger",
            twice(r#"{"members":["zoe"]}"#),
            format!("ask, ask, {UNUSABLE}: the answer names \"zoe\", which is not a member of the team; {there}"),
        ),
        (
            "a stranger among others",
            twice(r#"{"members":["bob","zoe"]}"#),
            format!("ask, ask, {UNUSABLE}: the answer names \"zoe\", which is not a member of the team; {there}"),
        ),
        (
            "a place where nobody is",
            twice(r#"{"members":[2]}"#),
            format!("ask, ask, {UNUSABLE}: the answer names 2, which is not a member of the team; {there}"),
        ),
        (
            "a place before the first",
            twice(r#"{"members":[-1]}"#),
            format!("ask, ask, {UNUSABLE}: the answer names -1, which is not a member of the team; {there}"),
        ),
        (
            "no name at all",
            twice(r#"{"members":[null]}"#),
            format!("ask, ask, {UNUSABLE}: the answer names null, which is not a member of the team; {there}"),
        ),
        (
            "one twice",
            twice(r#"{"members":["bob",1]}"#),
            format!("ask, ask, {UNUSABLE}: the answer names \"bob\" twice"),
        ),
        (
            "not done, and nobody",
            twice(r#"{"members":[],"done":false}"#),
            format!("ask, ask, {UNUSABLE}: the answer names no member and does not say that the task is done; {there}"),
        ),
        ("nobody, then somebody", vec![says("{}"), says(BOB)], "ask, ask, bob, ask".into()),
        (
            "each decision may be put right once",
            vec![says("?"), says(BOB), says("?"), says(BOB)],
            "ask, ask, bob, ask, ask, bob, ask".into(),
        ),
        ("it cannot be reached, and then can", vec![offline(), says(BOB)], "ask, ask, bob, ask".into()),
        ("it cannot be reached", vec![offline(), offline()], "ask, ask, error: offline".into()),
        (
            "both, in either order",
            vec![says("?"), offline(), says(BOB), offline(), says("?"), says(BOB)],
            "ask, ask, ask, bob, ask, ask, ask, bob, ask".into(),
        ),
        ("what does not pass ends it", vec![denied], "ask, error: no key".into()),
        ("a schema is refused", vec![refused(), says(BOB)], "ask, ask, bob, ask".into()),
        ("and then something else", vec![refused(), refused()], "ask, ask, error: no schemas here".into()),
    ];
    for (case, replies, expected) in cases {
        assert_eq!(Team::new(ModelCoordinatorOptions::default()).play(replies).await, expected, "{case}");
    }
}

#[tokio::test]
async fn model_coordinator_decides_by_tool_calls() {
    let assign = |arguments: &str| calls(&[("assign_task", arguments)]);
    let bob = || assign(r#"{"assignments":[{"member":"bob","task":"Write."}]}"#);
    let status = || calls(&[("get_team_status", "")]);
    let twice = |reply: Reply| vec![reply.clone(), reply];
    let long =
        format!(r#"{{"assignments":[{{"member":"bob","task":"{}"}}]}}"#, "x".repeat(limits::ASSIGNMENT_CHARS + 1));
    let cases: Vec<(&str, Vec<Reply>, String)> = vec![
        ("a task", vec![bob()], "ask, bob, ask".into()),
        ("by place", vec![assign(r#"{"assignments":[{"member":1}]}"#)], "ask, bob, ask".into()),
        (
            "two in one call",
            vec![assign(r#"{"assignments":[{"member":"bob"},{"member":"ann"}]}"#)],
            "ask, bob+ann, ask".into(),
        ),
        (
            "two in two calls",
            vec![calls(&[
                ("assign_task", r#"{"assignments":[{"member":"bob"}]}"#),
                ("assign_task", r#"{"assignments":[{"member":"ann"}]}"#),
            ])],
            "ask, bob+ann, ask".into(),
        ),
        ("in words", vec![says(BOB)], "ask, bob, ask".into()),
        ("done", vec![calls(&[("finish", "{}")])], "ask, done".into()),
        (
            "done, with an answer",
            vec![calls(&[("finish", r#"{"answer":" Tea is hot. "}"#)])],
            "ask, done: Tea is hot.".into(),
        ),
        (
            "it looks first",
            vec![status(), calls(&[("get_shared_summary", "{\"page\":2}")]), bob()],
            "ask, ask, ask, bob, ask".into(),
        ),
        (
            "it looks and decides at once",
            vec![calls(&[("get_team_status", "{}"), ("assign_task", r#"{"assignments":[{"member":"bob"}]}"#)])],
            "ask, bob, ask".into(),
        ),
        ("it only looks", vec![status(); 8], format!("{}exhausted", "ask, ".repeat(8))),
        (
            "neither",
            twice(says("Let me think.")),
            format!("ask, ask, {UNUSABLE}: the answer calls neither assign_task nor finish"),
        ),
        (
            "both",
            twice(calls(&[("finish", "{}"), ("assign_task", r#"{"assignments":[{"member":"bob"}]}"#)])),
            format!("ask, ask, {UNUSABLE}: the answer calls both assign_task and finish"),
        ),
        (
            "a tool that is none",
            twice(calls(&[("rm", "{}")])),
            format!(
                "ask, ask, {UNUSABLE}: unknown tool \"rm\"; available tools: assign_task, finish, get_team_status and \
                 get_shared_summary"
            ),
        ),
        (
            "arguments that are none",
            twice(assign("{")),
            format!(
                "ask, ask, {UNUSABLE}: the arguments of assign_task do not match the schema: EOF while parsing an \
                 object at line 1 column 1"
            ),
        ),
        ("nobody", vec![assign(r#"{"assignments":[]}"#), bob()], "ask, ask, bob, ask".into()),
        (
            "one twice",
            vec![assign(r#"{"assignments":[{"member":"bob"},{"member":"bob"}]}"#), bob()],
            "ask, ask, bob, ask".into(),
        ),
        ("a task that is too long", vec![assign(&long), bob()], "ask, ask, bob, ask".into()),
        ("being forced to call is refused", vec![refused(), bob()], "ask, ask, bob, ask".into()),
    ];
    for (case, replies, expected) in cases {
        assert_eq!(Team::new(with_tools()).play(replies).await, expected, "{case}");
    }
}

#[tokio::test]
async fn member_task_and_reasons_are_passed_on() {
    let mut team = Team::new(with_tools());
    let given =
        r#"{"assignments":[{"member":"bob","task":" Write. "},{"member":"ann","task":" "}],"reasoning":"It is time."}"#;
    team.play([calls(&[("assign_task", given)])]).await;
    assert_eq!(
        team.runs,
        [[MemberAssignment { member: "bob".into(), task: Some("Write.".into()) }, MemberAssignment::of("ann")]]
    );
    assert_eq!(team.reasons, [Some("It is time.".into())]);

    let mut team = Team::new(ModelCoordinatorOptions::default());
    let long = "r".repeat(limits::REASONING_CHARS + 1);
    team.play([says(&format!(r#"{{"members":["bob"],"reasoning":"{long}"}}"#))]).await;
    assert_eq!(team.reasons[0].as_ref().unwrap().chars().count(), limits::REASONING_CHARS);
}

#[tokio::test]
async fn after_the_last_step_only_done_is_accepted() {
    let options = || ModelCoordinatorOptions { max_rounds: 1, ..ModelCoordinatorOptions::default() };
    for (last, expected) in
        [(r#"{"done":true}"#, "ask, bob, ask, bob, ask, done"), (BOB, "ask, bob, ask, bob, ask, exhausted")]
    {
        let mut team = Team::new(options());
        assert_eq!(team.play([says(BOB), says(BOB), says(last)]).await, expected);
        assert!(
            team.user()
                .ends_with("The team may take no further step. Say whether the task is done: if not, it has failed.")
        );
        assert!(user(&team.requests[1]).ends_with("Decide: who works next, or is the task done?"));
    }
    let members = profiles("ann");
    let beyond = CoordinatorInput { step: limits::TEAM_STEPS, ..moment(&members) };
    let step = ModelCoordinator::default().next(&cx(), &beyond, vec![]).await;
    assert_eq!(shown(step.as_ref().map(|step| &step.action)), "exhausted");
    let mut nobody = Team::new(options());
    nobody.members.clear();
    assert_eq!(nobody.play([]).await, "error: the team has no members");
}
