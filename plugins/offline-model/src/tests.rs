//! Tests of whole conversations: the model runs with tools that are functions, until it answers.

use serde_json::{Value, json};
use shelly_plugin::{
    Content, Message, Part, ToolHints,
    types::{Completion, Request, Role, StopReason, ToolCall, ToolChoice, ToolResult, ToolSpec},
};

use crate::{complete, task};

/// A tool of the table below: name, description, parameters (required unless they end with `?`), function.
type Fake = (&'static str, &'static str, &'static [(&'static str, &'static str)], fn(&Value) -> Result<String, String>);

const OURS: &[Fake] = &[
    (
        "read_file",
        "Reads a text file and gives back its text.",
        &[("path", "string"), ("first_line?", "integer"), ("last_line?", "integer")],
        read,
    ),
    ("list_files", "Lists the files and folders in a folder, one a line.", &[("path?", "string")], list),
    (
        "count_text",
        "Counts the words, lines, characters and bytes of a text. Pass the whole text, not a file name.",
        &[("text", "string")],
        count,
    ),
    (
        "longest_lines",
        "Finds the longest lines of a text, with their line numbers and their lengths in characters. Pass the text, not a file name.",
        &[("text", "string"), ("count", "integer")],
        longest,
    ),
];

/// The equivalent tools under other names, with other parameters.
const OTHERS: &[Fake] = &[
    ("write_file", "Writes a text file.", &[("path", "string"), ("content", "string")], |_| panic!("not asked for")),
    (
        "lineStatistics",
        "Returns the longest lines in a document.",
        &[("document", "string"), ("limit", "integer")],
        |a| longest(&json!({"text": a["document"], "count": a["limit"]})),
    ),
    ("fs_cat", "Returns the contents of one file.", &[("filename", "string")], |a| {
        read(&json!({"path": a["filename"]}))
    }),
    ("fs_ls", "Returns the names in a directory.", &[("directory", "string")], |a| {
        list(&json!({"path": a["directory"]}))
    }),
    ("wc", "Counts lines and words of the given input.", &[("input", "string")], |a| {
        Ok(format!("{} words", a["input"].as_str().unwrap().split_whitespace().count()))
    }),
];

/// The tools of the toolboxes `filesystem` and `search` that matter here, and one that asks the person.
const DEFAULTS: &[Fake] = &[
    ("ask_user", "Asks the person who uses this program a question.", &[("question", "string")], |_| panic!("asked")),
    ("fs_read", "Reads a file (at most 10 MiB): returns its text unchanged.", &[("path", "string")], read),
    (
        "fs_read_lines",
        "Reads lines of a text file, each after its number and a tab. Also returns how many lines the file has.",
        &[("path", "string"), ("offset?", "integer"), ("limit?", "integer")],
        |_| Ok("`a.txt`, lines 1 to 1 of 2\n     1\tone\n".into()),
    ),
    (
        "fs_write",
        "Writes a whole file: creates it, or replaces its content. To change a part of a file use fs_edit.",
        &[("path", "string"), ("content", "string")],
        |_| panic!("not asked for"),
    ),
    (
        "fs_list",
        "Lists the entries of a folder, without those of folders below it, as JSON: name, type, size in bytes.",
        &[("path", "string")],
        |_| Ok(r#"[{"name":"src","type":"folder"},{"name":"a.txt","type":"file","size":4}]"#.into()),
    ),
    (
        "search_content",
        "Searches the text of files for a regular expression. Returns the matching lines with their numbers.",
        &[("pattern", "string"), ("directory?", "string"), ("glob?", "string")],
        |arguments| Ok(arguments.to_string()),
    ),
    (
        "search_files",
        "Finds files by their names. Returns their paths in order, one per line.",
        &[("pattern", "string"), ("directory?", "string")],
        |_| panic!("not asked for"),
    ),
];

fn read(arguments: &Value) -> Result<String, String> {
    match arguments["path"].as_str().unwrap() {
        "README.md" => Ok("# Title\n\nA longer line here\nshort\n".into()),
        "a.txt" => Ok("one\n".into()),
        "docs/b.txt" => Ok("one two\nthree\n".into()),
        "LICENSE" => Ok("x".repeat(3000)),
        path => Err(format!("`{path}` does not exist")),
    }
}

fn list(arguments: &Value) -> Result<String, String> {
    match arguments["path"].as_str().unwrap_or(".") {
        "." => Ok("README.md (40 bytes)\nsrc/\n".into()),
        "src" | "src/" => Ok("main.rs (10 bytes)\n".into()),
        path => Err(format!("`{path}` does not exist")),
    }
}

fn count(arguments: &Value) -> Result<String, String> {
    let text = arguments["text"].as_str().unwrap();
    Ok(json!({
        "words": text.split_whitespace().count(), "lines": text.lines().count(),
        "characters": text.chars().count(), "bytes": text.len(),
    })
    .to_string())
}

fn longest(arguments: &Value) -> Result<String, String> {
    let mut lines: Vec<(usize, &str)> = arguments["text"].as_str().unwrap().lines().enumerate().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.1.len()));
    lines.truncate(arguments["count"].as_u64().unwrap() as usize);
    let lines: Vec<Value> =
        lines.iter().map(|(n, text)| json!({"number": n + 1, "characters": text.len(), "text": text})).collect();
    Ok(json!({ "lines": lines }).to_string())
}

fn spec(fake: &Fake) -> ToolSpec {
    let properties: serde_json::Map<String, Value> =
        fake.2.iter().map(|(name, kind)| (name.trim_end_matches('?').to_owned(), json!({ "type": kind }))).collect();
    let required: Vec<&str> = fake.2.iter().map(|param| param.0).filter(|name| !name.ends_with('?')).collect();
    ToolSpec {
        name: fake.0.into(),
        description: fake.1.into(),
        input_schema: json!({ "type": "object", "properties": properties, "required": required }).to_string(),
        output_schema: None,
        hints: ToolHints::empty(),
        meta: Vec::new(),
    }
}

fn request(messages: Vec<Message>, fakes: &[Fake]) -> Request {
    Request {
        messages,
        tools: fakes.iter().map(spec).collect(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        response_schema: None,
        meta: Vec::new(),
    }
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message { parts, ..Message::new(role, "") }
}

/// Runs a task to its end. Returns the names of the called tools, a list for each turn, and the answer.
fn play(task: &str, fakes: &[Fake]) -> (Vec<Vec<String>>, String) {
    let mut messages = vec![Message::new(Role::System, "Be brief."), Message::new(Role::User, task)];
    let mut turns = Vec::new();
    loop {
        let Completion { parts, stop, model, .. } = complete(&request(messages.clone(), fakes));
        assert_eq!(model, "offline-model");
        let calls: Vec<_> = parts
            .iter()
            .filter_map(|part| if let Part::ToolCall(call) = part { Some(call.clone()) } else { None })
            .collect();
        let reply = message(Role::Assistant, parts);
        if calls.is_empty() {
            assert_eq!(stop, StopReason::EndTurn);
            return (turns, reply.text());
        }
        assert_eq!(stop, StopReason::ToolCalls);
        messages.push(reply);
        turns.push(calls.iter().map(|call| call.name.clone()).collect());
        assert!(turns.len() < 10, "it loops: {turns:?}");
        for call in calls {
            let fake = fakes.iter().find(|fake| fake.0 == call.name).expect("only listed tools are called");
            let result = fake.3(&serde_json::from_str(&call.arguments).unwrap());
            let (text, is_error) = match result {
                Ok(text) => (text, false),
                Err(text) => (text, true),
            };
            let content = vec![if text.starts_with('{') { Content::Json(text) } else { Content::Text(text) }];
            messages
                .push(message(Role::Tool, vec![Part::ToolResult(ToolResult { call_id: call.id, content, is_error })]));
        }
    }
}

#[test]
fn offline_model_solves_tasks_with_the_offered_tools() {
    type Case<'a> = (&'a str, &'a [Fake], &'a [&'a [&'a str]], &'a str);
    let cases: &[Case] = &[
        (
            "How many words are in README.md, and which are its five longest lines?",
            OURS,
            &[&["read_file"], &["count_text", "longest_lines"]],
            "README.md has 7 words.\n\nThe 4 longest lines of README.md are:\n\n- line 3, 18 characters: A longer line here\n- line 1, 7 characters: # Title\n- line 4, 5 characters: short\n- line 2, 0 characters:",
        ),
        (
            "Which are the 2 longest lines in README.md?",
            OURS,
            &[&["read_file"], &["longest_lines"]],
            "The 2 longest lines of README.md are:\n\n- line 3, 18 characters: A longer line here\n- line 1, 7 characters: # Title",
        ),
        (
            "Find the longest line of `README.md`.",
            OURS,
            &[&["read_file"], &["longest_lines"]],
            "The longest line of README.md is:\n\n- line 3, 18 characters: A longer line here",
        ),
        (
            "How many lines do a.txt and docs/b.txt have?",
            OURS,
            &[&["read_file", "read_file"], &["count_text", "count_text"]],
            "a.txt has 1 line.\n\ndocs/b.txt has 2 lines.",
        ),
        (
            "Count the words and characters of a.txt, please.",
            OURS,
            &[&["read_file"], &["count_text"]],
            "a.txt has 1 word and 4 characters.",
        ),
        ("How many words are in \"one two three\"?", OURS, &[&["count_text"]], "\"one two three\" has 3 words."),
        ("What files are in src?", OURS, &[&["list_files"]], "src has one entry:\n\nmain.rs (10 bytes)"),
        ("List the files here", OURS, &[&["list_files"]], "The folder has 2 entries:\n\nREADME.md (40 bytes)\nsrc/"),
        ("How many files are in the src folder?", OURS, &[&["list_files"]], "src has one entry:\n\nmain.rs (10 bytes)"),
        ("What is in src/?", OURS, &[&["list_files"]], "src/ has one entry:\n\nmain.rs (10 bytes)"),
        ("What does a.txt say?", OURS, &[&["read_file"]], "a.txt says:\n\none"),
        ("Show me docs/b.txt", OURS, &[&["read_file"]], "docs/b.txt says:\n\none two\nthree"),
        (
            "how many words are in notes.txt?",
            OURS,
            &[&["read_file"]],
            "I could not read notes.txt: `notes.txt` does not exist",
        ),
        (
            "How many words do a.txt and notes.txt have?",
            OURS,
            &[&["read_file", "read_file"], &["count_text"]],
            "a.txt has 1 word.\n\nI could not read notes.txt: `notes.txt` does not exist",
        ),
        (
            "How many words are in README.md, and which are its two longest lines?",
            OTHERS,
            &[&["fs_cat"], &["wc", "lineStatistics"]],
            "`wc` says of README.md: 7 words\n\nThe 2 longest lines of README.md are:\n\n- line 3, 18 characters: A longer line here\n- line 1, 7 characters: # Title",
        ),
        (
            "List the files in src and count the words of a.txt.",
            OURS,
            &[&["list_files", "read_file"], &["count_text"]],
            "src has one entry:\n\nmain.rs (10 bytes)\n\na.txt has 1 word.",
        ),
        ("Tell me how many words the LICENSE has!", OURS, &[&["read_file"], &["count_text"]], "LICENSE has 1 word."),
        (
            "What's the longest line in docs/b.txt?",
            OURS,
            &[&["read_file"], &["longest_lines"]],
            "The longest line of docs/b.txt is:\n\n- line 1, 7 characters: one two",
        ),
        (
            "Please read a.txt and tell me how many characters it has.",
            OURS,
            &[&["read_file"], &["count_text"]],
            "a.txt says:\n\none\n\na.txt has 4 characters.",
        ),
        (
            "Which 2 lines in docs/b.txt are longest?",
            OURS,
            &[&["read_file"], &["longest_lines"]],
            "The 2 longest lines of docs/b.txt are:\n\n- line 1, 7 characters: one two\n- line 2, 5 characters: three",
        ),
        (
            "List all files and tell me how many there are",
            OURS,
            &[&["list_files"]],
            "The folder has 2 entries:\n\nREADME.md (40 bytes)\nsrc/",
        ),
        (
            "Use `count_text` on \"one two\"",
            OURS,
            &[&["count_text"]],
            "`count_text` says of \"one two\": {\"bytes\":7,\"characters\":7,\"lines\":1,\"words\":2}",
        ),
        ("Word count of a.txt", OURS, &[&["read_file"], &["count_text"]], "a.txt has 1 word."),
        ("What files are in src?", OTHERS, &[&["fs_ls"]], "src has one entry:\n\nmain.rs (10 bytes)"),
        ("What does a.txt say?", OTHERS, &[&["fs_cat"]], "a.txt says:\n\none"),
        ("How many words are in README.md?", DEFAULTS, &[&["fs_read"]], "README.md has 7 words."),
        ("How many lines are in README.md?", DEFAULTS, &[&["fs_read"]], "README.md has 4 lines."),
        (
            "How many words are in README.md, and which are its two longest lines?",
            DEFAULTS,
            &[&["fs_read"]],
            "README.md has 7 words.\n\nThe 2 longest lines of README.md are:\n\n- line 3, 18 characters: A longer line here\n- line 1, 7 characters: # Title",
        ),
        ("How many characters are in \"one two\"?", &[DEFAULTS[0]], &[], "\"one two\" has 7 characters."),
        ("What does a.txt say?", DEFAULTS, &[&["fs_read"]], "a.txt says:\n\none"),
        (
            "How many words are in a.txt?",
            &[DEFAULTS[2]],
            &[&["fs_read_lines"]],
            "a.txt has 1 word.\n\nI could read only the beginning of a.txt: [`a.txt`, lines 1 to 1 of 2]",
        ),
        ("List the files here", DEFAULTS, &[&["fs_list"]], "The folder has 2 entries:\n\nsrc/\na.txt (4 bytes)"),
        (
            "Which files contain \"f(x)\"?",
            DEFAULTS,
            &[&["search_content"]],
            "Where I find \"f(x)\":\n\n{\"pattern\":\"f\\\\(x\\\\)\"}",
        ),
        (
            "Find \"one\" in a.txt.",
            DEFAULTS,
            &[&["search_content"]],
            "Where I find \"one\" in a.txt:\n\n{\"glob\":\"a.txt\",\"pattern\":\"one\"}",
        ),
    ];
    for (task, fakes, turns, answer) in cases {
        let (made, said) = play(task, fakes);
        assert_eq!(
            (made, said.as_str()),
            (turns.iter().map(|turn| turn.iter().map(|name| (*name).to_owned()).collect()).collect(), *answer),
            "for {task}: {:#?}",
            task::parse(task, &[])
        );
    }
}

#[test]
fn offline_model_states_tasks_it_cannot_do() {
    let cases: &[(&str, &[Fake], &str)] = &[
        ("hello", OURS, "I am offline-model"),
        ("", OURS, "I am offline-model"),
        (
            "Write me a poem about the sea.",
            OURS,
            "The tools I see: `read_file`, `list_files`, `count_text`, `longest_lines`.",
        ),
        ("What is the meaning of life?", &[], "I see no tools, so I can read no file."),
        ("Which is the shortest line in a.txt?", OURS, "I see no tool for \"Which is the shortest line in\"."),
        ("How many vowels are in a.txt?", OURS, "I see no tool for \"How many vowels are in\"."),
        ("How many different words are in a.txt?", DEFAULTS, "I see no tool for \"How many different words are in\"."),
        ("How many words are in a.txt?", &[OURS[2]], "I see no tool that reads files."),
        ("What files are in src?", &[OURS[0]], "I see no tool that lists folders."),
        ("How many words does it have?", OURS, "`count_text` would do it, but you name no file and quote no text."),
        ("How many words does it have?", DEFAULTS, "I can do that, but you name no file and quote no text."),
        ("Where is \"one\"?", OURS, "I see no tool that searches files."),
        ("What does a.txt say?", &[DEFAULTS[0]], "The only tool I see is `ask_user`, so I can read no file."),
    ];
    for (task, fakes, expected) in cases {
        let (turns, said) = play(task, fakes);
        assert!(turns.is_empty(), "for {task}: {turns:?}");
        assert!(said.contains(expected), "for {task}: {said}");
        assert!(said.contains("I am offline-model"), "for {task}: {said}");
    }
}

#[test]
fn introduction_offers_only_what_the_tools_can_do() {
    let cases: &[(&[Fake], &str)] = &[
        (OURS, "How many words are in README.md, and which are its five longest lines?"),
        (DEFAULTS, "How many words are in README.md, and which are its five longest lines?"),
        (&[DEFAULTS[0]], "How many words are in \"one two three\"?"),
        (&[DEFAULTS[0], DEFAULTS[4]], "What files are in this folder?"),
        (&[DEFAULTS[5]], "Where is \"TODO\"?"),
        (&[], "How many words are in \"one two three\"?"),
    ];
    for (fakes, task) in cases {
        let said = play("hello", fakes).1;
        assert_eq!(said.split_once(" Try: ").unwrap().1, *task, "{said}");
        let names = |ability: &str, tool: &str| {
            assert_eq!(said.contains(ability), fakes.iter().any(|fake| fake.0 == tool), "{ability}: {said}");
        };
        names("search files", "search_content");
        if fakes.iter().all(|fake| fake.0 != "read_file") {
            names("quote a file", "fs_read");
            names("list a folder", "fs_list");
        }
        assert!(!play(task, fakes).1.contains("I am offline-model"), "{task}");
    }
}

#[test]
fn member_of_a_team_works_on_the_task_of_the_person() {
    let of = |sender: &str, text: &str| Message { sender: sender.into(), ..Message::new(Role::User, text) };
    let messages = vec![of("user", "How many words are in a.txt?"), of("team", "Make the plan.")];
    let completion = complete(&request(messages.clone(), DEFAULTS));
    assert!(matches!(&completion.parts[..], [Part::ToolCall(call)] if call.arguments == r#"{"path":"a.txt"}"#));
    let completion = complete(&request([messages, vec![of("team", "What does docs/b.txt say?")]].concat(), DEFAULTS));
    assert!(matches!(&completion.parts[..], [Part::ToolCall(call)] if call.arguments == r#"{"path":"docs/b.txt"}"#));
}

#[test]
fn agent_with_others_delegates_what_no_tool_counts() {
    let delegate: Fake = ("delegate", "Gives tasks to other agents.", &[("tasks", "array")], |_| Ok(String::new()));
    let prompt = "<available_agents>\n- counter: counts words in files\n</available_agents>";
    let messages = vec![Message::new(Role::System, prompt), Message::new(Role::User, "How many words are in a.txt?")];
    let tools = [DEFAULTS[1], delegate];
    let completion = complete(&request(messages.clone(), &tools));
    assert!(matches!(&completion.parts[..], [Part::ToolCall(call)] if call.name == "delegate"));
    let completion = complete(&request(messages[1..].to_vec(), &tools));
    assert!(matches!(&completion.parts[..], [Part::ToolCall(call)] if call.name == "fs_read"), "nobody is there");
}

#[test]
fn offline_model_quotes_long_text_in_part() {
    let (turns, said) = play("What does LICENSE say?", OURS);
    assert_eq!(turns, [["read_file"]]);
    assert!(said.ends_with("(These are the first 1000 of 3000 characters.)"), "{said}");
}

#[test]
fn offline_model_does_not_count_a_cut_result() {
    let call = |id: &str, name: &str, arguments: Value| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: arguments.to_string(),
            meta: Vec::new(),
        })
    };
    let result = |id: &str, content: &[&str]| {
        let content = content.iter().map(|text| Content::from(*text)).collect();
        message(Role::Tool, vec![Part::ToolResult(ToolResult { call_id: id.into(), content, is_error: false })])
    };
    let messages = vec![
        Message::new(Role::User, "How many words are in a.txt?"),
        message(Role::Assistant, vec![call("1", "read_file", json!({ "path": "a.txt" }))]),
        result("1", &["one two", "[9 more characters were cut]"]),
        message(Role::Assistant, vec![call("2", "count_text", json!({ "text": "one two" }))]),
        result("2", &[r#"{"words":2}"#]),
    ];
    let first = complete(&request(messages[..3].to_vec(), OURS));
    assert!(matches!(&first.parts[..], [Part::ToolCall(call)] if call.arguments == r#"{"text":"one two"}"#));
    let second = complete(&request(messages, OURS));
    let expected = "a.txt has 2 words.\n\nI could read only the beginning of a.txt: [9 more characters were cut]";
    assert_eq!(second.parts, [expected.into()]);
}

#[test]
fn offline_model_reads_a_cut_result_page_by_page() {
    let turns_pages: Fake =
        ("read_result", "Reads on in a result.", &[("call", "string"), ("offset", "integer")], |_| Ok(String::new()));
    let tools: Vec<Fake> = OURS.iter().copied().chain([turns_pages]).collect();
    let mut messages = vec![Message::new(Role::User, "How many words are in a.txt and docs/b.txt?")];
    let mut ask = |results: &[&[&str]]| {
        let last = messages.last().cloned();
        let made = last.iter().flat_map(|message| message.parts.clone()).filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.id),
            _ => None,
        });
        for (call_id, content) in made.collect::<Vec<_>>().into_iter().zip(results) {
            let content = content.iter().map(|text| Content::from(*text)).collect();
            messages
                .push(message(Role::Tool, vec![Part::ToolResult(ToolResult { call_id, content, is_error: false })]));
        }
        let reply = complete(&request(messages.clone(), &tools));
        messages.push(message(Role::Assistant, reply.parts.clone()));
        let calls = reply.parts.iter().map(|part| match part {
            Part::ToolCall(call) => format!("{} {}", call.name, call.arguments),
            other => format!("{other:?}"),
        });
        calls.collect::<Vec<_>>()
    };
    assert_eq!(ask(&[]), [r#"read_file {"path":"a.txt"}"#, r#"read_file {"path":"docs/b.txt"}"#]);
    let cut = r#"[9 more characters: call read_result with {"call":"x","offset":5}]"#;
    let one = ask(&[&["one t", cut], &["all of it"]]);
    assert_eq!(one, [r#"read_result {"call":"x","offset":5}"#], "a page goes alone");
    let two = ask(&[&["[characters 5 to 9 of 14; continue with offset 9]\nwo\nt"]]);
    assert_eq!(two, [r#"read_result {"call":"x","offset":9}"#]);
    let all = ask(&[&["[characters 9 to 14 of 14, to the end]\nhree\n"]]);
    assert_eq!(all, [r#"count_text {"text":"one two\nthree\n"}"#, r#"count_text {"text":"all of it"}"#]);
}

#[test]
fn offline_model_recognises_paths_in_a_task() {
    let cases: &[(&str, &[&str])] = &[
        ("Compare a.txt, docs/b.md and (src/main.rs).", &["a.txt", "docs/b.md", "src/main.rs"]),
        ("It costs 3.5 dollars, e.g. for https://example.com/a.txt", &[]),
        ("Look at `Makefile` and 'my notes.txt'!", &["Makefile", "my notes.txt"]),
        ("What is README.md's longest line?", &["README.md"]),
        ("Read ./a.b.tar.gz. Then stop.", &["./a.b.tar.gz"]),
        ("the file .gitignore", &[".gitignore"]),
    ];
    for (text, expected) in cases {
        assert_eq!(task::parse(text, &[]).paths, *expected, "for {text}");
    }
}

#[test]
fn offline_model_ignores_notes_and_answers_the_newest_task() {
    let mut note = Message::new(Role::User, "You have read a.txt often. Read docs/b.txt?");
    note.meta.push(("shelly.note".into(), "true".into()));
    let messages = vec![Message::new(Role::User, "What does a.txt say?"), note];
    let completion = complete(&request(messages, OURS));
    assert!(matches!(&completion.parts[..], [Part::ToolCall(call)] if call.arguments == r#"{"path":"a.txt"}"#));

    let messages = vec![
        Message::new(Role::User, "What does a.txt say?"),
        Message::new(Role::Assistant, "a.txt says: one"),
        Message::new(Role::User, "thanks"),
    ];
    let completion = complete(&request(messages, OURS));
    assert!(matches!(&completion.parts[..], [Part::Text(text)] if text.starts_with("I am offline-model")));
}

#[test]
fn offline_model_honours_tool_choice_and_max_tokens() {
    let mut forbidden = request(vec![Message::new(Role::User, "What does a.txt say?")], OURS);
    forbidden.tool_choice = ToolChoice::Never;
    assert_eq!(complete(&forbidden).parts, ["I was not allowed to read a.txt.".into()]);

    let mut short = request(vec![Message::new(Role::User, "hello")], OURS);
    short.max_output_tokens = Some(2);
    let completion = complete(&short);
    assert_eq!(
        (completion.parts, completion.stop, completion.usage.output_tokens),
        (vec!["I am off".into()], StopReason::MaxTokens, 2)
    );
}

#[test]
fn offline_model_answers_when_tool_results_are_missing() {
    // The results do not belong to the calls, as if the host had lost the right ones.
    let call = |id: &str| {
        Part::ToolCall(ToolCall { id: id.into(), name: "x".into(), arguments: "{}".into(), meta: Vec::new() })
    };
    let mut messages = vec![Message::new(Role::User, "What does a.txt say?")];
    messages.extend((0..4).map(|n| message(Role::Assistant, vec![call(&n.to_string())])));
    assert_eq!(complete(&request(messages, OURS)).stop, StopReason::EndTurn);
}
