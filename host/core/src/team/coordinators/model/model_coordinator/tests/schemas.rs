//! Tests of the schemas for replies of a coordinating model.

use serde_json::Value;

use super::*;

async fn schemas(options: ModelCoordinatorOptions, names: &[&str]) -> (Option<Value>, Vec<Value>) {
    let mut team = Team::new(options);
    team.members = names
        .iter()
        .map(|name| MemberProfile { name: (*name).into(), role: "r".into(), description: "d".into() })
        .collect();
    team.play([]).await;
    let request = team.requests.pop().unwrap();
    let read = |json: &str| serde_json::from_str(json).unwrap();
    let reply = request.response_schema.as_deref().map(read);
    (reply, request.tools.iter().map(|tool| read(tool.input_schema.get())).collect())
}

/// Returns the schemas of the values of each property `member` or `members`.
fn names(schema: &Value) -> Vec<Value> {
    match schema {
        Value::Object(keys) => {
            let here =
                keys.get("members").map(|members| members["items"].clone()).or_else(|| keys.get("member").cloned());
            here.into_iter().chain(keys.values().flat_map(names)).collect()
        }
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn member_names_in_schemas_are_the_current_ones() {
    let there = ["ann", "the \"boss\"", "日本"];
    let (reply, _) = schemas(ModelCoordinatorOptions::default(), &there).await;
    let listed = serde_json::json!({"type": "string", "enum": there});
    assert_eq!(names(&reply.unwrap()), std::slice::from_ref(&listed));
    let (_, tools) = schemas(with_tools(), &there).await;
    let [member] = &names(&tools[0])[..] else { panic!("{tools:?}") };
    assert_eq!((&member["enum"], &member["type"]), (&listed["enum"], &listed["type"]));
    assert_eq!(member["description"], "The member's name.");
}

#[tokio::test]
async fn member_names_of_a_large_team_are_not_enumerated() {
    let many: Vec<_> = (0..=limits::COORDINATOR_ENUM_NAMES).map(|n| format!("n{n}")).collect();
    let long = ["x".repeat(limits::COORDINATOR_ENUM_CHARS), "y".into()];
    for (names_there, is_free) in [(&many[..], true), (&many[1..], false), (&long[..], true), (&long[..1], false)] {
        let there: Vec<_> = names_there.iter().map(String::as_str).collect();
        let (reply, _) = schemas(ModelCoordinatorOptions::default(), &there).await;
        assert_eq!(names(&reply.unwrap())[0]["enum"].is_null(), is_free, "{}", there.len());
        let (_, tools) = schemas(with_tools(), &there).await;
        assert_eq!(names(&tools[0])[0]["enum"].is_null(), is_free, "{}", there.len());
    }
}

#[tokio::test]
async fn decision_is_found_at_the_end_of_a_long_reply() {
    let pad = ".".repeat(limits::COORDINATOR_REPLY_BYTES);
    for (said, expected) in [
        (format!("x{pad}{BOB}"), "ask, bob, ask"),
        (format!("x{BOB}{pad}"), "ask, ask"),
        ("{\"a\":[".repeat(limits::COORDINATOR_REPLY_BYTES), "ask, ask"),
        (format!("é{}", "é{".repeat(limits::COORDINATOR_REPLY_BYTES)), "ask, ask"),
    ] {
        assert_eq!(Team::new(ModelCoordinatorOptions::default()).play([says(&said)]).await, expected, "{}", said.len());
    }
}
