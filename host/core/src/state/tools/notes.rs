use schemars::JsonSchema;
use serde::Deserialize;

use super::hints::{CHANGES, READS};
use crate::{
    chat::{ToolHints, ToolResultContent},
    state::NoteStore,
    tool::{ConcurrencyDomain, ToolBox, ToolConcurrency, ToolOutput, function},
};

#[derive(Deserialize, JsonSchema)]
struct NoteWriteArgs {
    /// The name of the note: 1 to 64 of A-Z, a-z, 0-9, _ and -.
    name: String,
    /// The whole note, Markdown; its first line is shown in lists.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
struct NoteReadArgs {
    /// The name of the note.
    name: String,
}

/// Nothing.
#[derive(Deserialize, JsonSchema)]
struct NoteListArgs {}

/// Returns the tools `write_note`, `read_note` and `list_notes`.
pub fn note_tools(notes: &NoteStore) -> ToolBox {
    let [of_write, of_read, of_list] = [(); 3].map(|()| notes.clone());
    let write = function(
        "write_note",
        "Writes a note that outlasts this run and that other agents can read. An existing note of that name is \
         replaced.",
        move |_, args: NoteWriteArgs| {
            let notes = of_write.clone();
            async move {
                notes.write(&args.name, &args.content).await?;
                Ok("ok")
            }
        },
    );
    let read = function("read_note", "Reads a note.", move |_, args: NoteReadArgs| {
        let notes = of_read.clone();
        async move { Ok(notes.read(&args.name).await?) }
    });
    let list = function("list_notes", "Lists the notes with the first line of each.", move |_, _: NoteListArgs| {
        let notes = of_list.clone();
        async move {
            let list = notes.list().await?;
            let mut output = ToolOutput::json(&list.notes)?;
            if let (ToolOutput::Reply(content), 1..) = (&mut output, list.left_off) {
                content.push(ToolResultContent::Text(format!("[{} more notes are not listed]", list.left_off)));
            }
            Ok(output)
        }
    });
    // Notes may be files, which other tools access.
    let concurrency = |hints| ToolConcurrency::touching(hints, [ConcurrencyDomain::Files]);
    ToolBox::new()
        .with(write.with_hints(ToolHints { idempotent: true, ..CHANGES }).with_concurrency(concurrency(CHANGES)))
        .with(read.with_hints(READS).with_concurrency(concurrency(READS)))
        .with(list.with_hints(READS).with_concurrency(concurrency(READS)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::tests::call, *};
    use crate::limits;

    #[tokio::test]
    async fn a_model_writes_reads_and_lists_notes() {
        let folder = tempfile::tempdir().unwrap();
        let tools = note_tools(&NoteStore::new(folder.path()));
        assert_eq!(tools.names().collect::<Vec<_>>(), ["write_note", "read_note", "list_notes"]);
        let schema = tools.iter().last().unwrap().spec().input_schema.get().to_owned();
        assert_eq!(schema, r#"{"type":"object","properties":{}}"#);
        let whole = "é".repeat(limits::NOTES_FILE_BYTES / 2);
        for (tool, arguments, answer) in [
            ("list_notes", json!({}), "[]"),
            ("write_note", json!({"name": "plan", "content": "# Plan\n1. go"}), "ok"),
            ("read_note", json!({"name": "plan"}), "# Plan\n1. go"),
            ("list_notes", json!({}), r##"[{"name":"plan","first_line":"# Plan"}]"##),
            ("read_note", json!({"name": "no"}), "error: there is no note `no`; list the notes to see their names"),
            (
                "write_note",
                json!({"name": "../x", "content": ""}),
                "error: invalid note name `../x`; use 1 to 64 of A-Z, a-z, 0-9, _ and -",
            ),
            ("write_note", json!({"name": "plan", "content": whole}), "ok"),
            ("read_note", json!({"name": "plan"}), &whole),
        ] {
            assert_eq!(call(&tools, "ann", tool, arguments).await, answer);
        }
        for n in 0..limits::NOTES_FILES {
            std::fs::write(folder.path().join(format!("{n}.md")), "").unwrap();
        }
        let listed = call(&tools, "ann", "list_notes", json!({})).await;
        assert!(listed.ends_with("]\n[1 more notes are not listed]"), "{listed}");
    }
}
