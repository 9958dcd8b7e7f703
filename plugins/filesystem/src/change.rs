//! Tools that change files: they return proposals, which the host shows and carries out.

use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use shelly_plugin::{
    Call, Error, Reply, Tool, ToolHints,
    fs::{self, File, Kind},
    types::{FileAct, FileChange},
};

use crate::{
    Halt, answer, edit, folder, found, inside, invalid, name_of, parent,
    read::{file, text},
    there,
};

/// The maximum size of a file that can be written: the contract's 8 MiB.
const WRITTEN: usize = 8 << 20;

/// The number of bytes that are read at once: as many as the host returns at once.
const CHUNK: u64 = 64 << 10;

/// The maximum size of a file that is hashed before it is overwritten: 256 MiB, a few seconds.
const REPLACED: u64 = 256 << 20;

const CHANGES: ToolHints = ToolHints::CLOSED_WORLD;
const ADDS: ToolHints = ToolHints::CLOSED_WORLD.union(ToolHints::NON_DESTRUCTIVE);

/// Returns a SHA-256 in hexadecimal.
fn hex(hash: Sha256) -> String {
    base16ct::lower::encode_string(&hash.finalize())
}

pub(crate) struct Write;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WriteArgs {
    /// The file. Missing folders above it are created.
    path: String,
    /// The whole content of the file.
    content: String,
}

impl Tool for Write {
    const NAME: &'static str = "fs_write";
    const DESCRIPTION: &'static str =
        "Writes a whole file: creates it, or replaces its content. To change a part of a file use fs_edit.";
    const HINTS: ToolHints = CHANGES;
    type Args = WriteArgs;

    fn call(args: WriteArgs, _call: &Call) -> Result<Reply, Error> {
        answer(write(args))
    }
}

fn write(args: WriteArgs) -> Result<Reply, Halt> {
    let path = inside(&args.path)?;
    let content = args.content.into_bytes();
    let digest = match fs::metadata(&path) {
        Ok(metadata) if metadata.kind == Kind::File => Some(digest(&path)?),
        Ok(metadata) => return Err(invalid(format!("`{path}` is a {}, not a file", name_of(metadata.kind)))),
        Err(Error::NotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    if digest.is_some() && digest == Some(hex(Sha256::new_with_prefix(&content))) {
        return Ok(format!("`{path}` already has exactly this content").into());
    }
    Ok(FileChange::write(path, digest, content).into())
}

/// Returns the digest of an existing file.
fn digest(path: &str) -> Result<String, Halt> {
    let file = File::open(path)?;
    let (mut hash, mut read) = (Sha256::new(), 0);
    loop {
        let chunk = file.read_at(read, CHUNK)?;
        if chunk.is_empty() {
            return Ok(hex(hash));
        }
        hash.update(&chunk);
        read += chunk.len() as u64;
        if read > REPLACED {
            return Err(Halt::Failed(Error::TooLarge(format!(
                "`{path}` has more than {REPLACED} bytes, too many to be replaced; delete it first"
            ))));
        }
    }
}

/// Proposes the edited text of a file.
fn edited(path: &str, edit: impl FnOnce(&str) -> Result<String, String>) -> Result<Reply, Halt> {
    let bytes = file(path, WRITTEN as u64, "the file is too large to be edited")?;
    let digest = hex(Sha256::new_with_prefix(&bytes));
    let new = edit(&text(path, bytes)?).map_err(|why| invalid(format!("`{path}`: {why}")))?;
    if new.len() > WRITTEN {
        return Err(Halt::Failed(Error::TooLarge(format!(
            "`{path}` would have {} bytes, the maximum is {WRITTEN}",
            new.len()
        ))));
    }
    Ok(FileChange::write(path, Some(digest), new.into_bytes()).into())
}

pub(crate) struct Edit;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct EditArgs {
    /// The file.
    path: String,
    /// The text to be replaced, exactly as in the file, with enough text around it to occur only once.
    old_text: String,
    /// The new text.
    new_text: String,
    /// True to replace every occurrence.
    replace_all: Option<bool>,
}

impl Tool for Edit {
    const NAME: &'static str = "fs_edit";
    const DESCRIPTION: &'static str = "Replaces a text in a file with another. `old_text` must occur in it exactly \
                                       once, unless `replace_all` is set. Line ends of the file (LF or CRLF) are kept.";
    const HINTS: ToolHints = CHANGES;
    type Args = EditArgs;

    fn call(args: EditArgs, _call: &Call) -> Result<Reply, Error> {
        let all = args.replace_all.unwrap_or(false);
        answer(
            inside(&args.path)
                .and_then(|path| edited(&path, |text| edit::replace(text, &args.old_text, &args.new_text, all))),
        )
    }
}

pub(crate) struct Patch;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct PatchArgs {
    /// The file.
    path: String,
    /// The replacements, in order: each is applied to the result of those before it.
    #[schemars(length(min = 1))]
    hunks: Vec<Hunk>,
}

/// One replacement.
#[derive(Deserialize, JsonSchema)]
struct Hunk {
    /// The text to be replaced, exactly as in the file, with enough text around it to occur only once.
    old_text: String,
    /// The new text.
    new_text: String,
}

impl Tool for Patch {
    const NAME: &'static str = "fs_patch";
    const DESCRIPTION: &'static str = "Makes several replacements in one file, all or none, each like fs_edit.";
    const HINTS: ToolHints = CHANGES;
    type Args = PatchArgs;

    fn call(args: PatchArgs, _call: &Call) -> Result<Reply, Error> {
        answer(inside(&args.path).and_then(|path| edited(&path, |text| patch(text, &args.hunks))))
    }
}

fn patch(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    if hunks.is_empty() {
        return Err("`hunks` is empty; pass at least one replacement".into());
    }
    let mut new = text.to_owned();
    for (index, hunk) in hunks.iter().enumerate() {
        new = edit::replace(&new, &hunk.old_text, &hunk.new_text, false)
            .map_err(|why| format!("nothing was changed, because of `hunks[{index}]`: {why}"))?;
        if new.len() > WRITTEN {
            return Err(format!(
                "with `hunks[{index}]` the file would have {} bytes, the maximum is {WRITTEN}",
                new.len()
            ));
        }
    }
    if new == text { Err("the hunks undo each other, so nothing would change".into()) } else { Ok(new) }
}

pub(crate) struct Delete;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeleteArgs {
    /// The file or folder. If it is a link, the link itself is deleted.
    path: String,
    /// True to delete a folder with its content.
    recursive: Option<bool>,
}

impl Tool for Delete {
    const NAME: &'static str = "fs_delete";
    const DESCRIPTION: &'static str = "Deletes a file or an empty folder; with `recursive` a folder with its content.";
    const HINTS: ToolHints = CHANGES;
    type Args = DeleteArgs;

    fn call(args: DeleteArgs, _call: &Call) -> Result<Reply, Error> {
        answer(delete(&args))
    }
}

fn delete(args: &DeleteArgs) -> Result<Reply, Halt> {
    let path = inside(&args.path)?;
    must_be_inside(&path)?;
    let metadata = match found(&path)? {
        Some(metadata) => metadata,
        None => there(&path)?,
    };
    if metadata.kind == Kind::Folder && !args.recursive.unwrap_or(false) && !fs::read_dir(&path, 1)?.0.is_empty() {
        return Err(invalid(format!(
            "`{path}` is a folder that is not empty; set `recursive` to delete it with its content"
        )));
    }
    Ok(FileChange::of(path, FileAct::Remove).into())
}

/// Refuses a granted folder itself, which must stay in place.
fn must_be_inside(path: &str) -> Result<(), Halt> {
    if path == "." || fs::folders().iter().any(|folder| folder.trim_end_matches('/') == path) {
        return Err(invalid(format!(
            "`{path}` is the granted folder itself, which cannot be moved or deleted; name a path in it"
        )));
    }
    Ok(())
}

/// From where to where.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct FromTo {
    /// The existing file or folder.
    source: String,
    /// Its new path, with its name. The path must not exist yet; missing folders above it are created.
    destination: String,
}

impl FromTo {
    /// Returns both paths, after checking that the first exists and the second does not.
    fn checked(&self) -> Result<(String, String), Halt> {
        let (from, to) = (inside(&self.source)?, inside(&self.destination)?);
        let Some(metadata) = found(&from)? else {
            there(&from)?;
            return Err(invalid(format!("`{from}` no longer exists")));
        };
        if to == from {
            return Err(invalid(format!("`source` and `destination` are both `{from}`")));
        }
        if metadata.kind == Kind::Folder && lies_in(&to, &from) {
            return Err(invalid(format!("`{to}` is inside `{from}`; a folder cannot go into itself")));
        }
        match found(&to)?.map(|there| there.kind) {
            None => Ok((from, to)),
            Some(Kind::Folder) => {
                let name = from.rsplit('/').next().unwrap_or(&from);
                Err(invalid(format!(
                    "`{to}` is a folder that already exists; to put `{name}` into it use `{to}/{name}`"
                )))
            }
            Some(_) => Err(invalid(format!("`{to}` already exists; delete it first"))),
        }
    }
}

fn lies_in(path: &str, folder: &str) -> bool {
    folder == "." || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

pub(crate) struct Move;

impl Tool for Move {
    const NAME: &'static str = "fs_move";
    const DESCRIPTION: &'static str = "Moves or renames a file or a folder.";
    const HINTS: ToolHints = CHANGES;
    type Args = FromTo;

    fn call(args: FromTo, _call: &Call) -> Result<Reply, Error> {
        let change = args.checked().and_then(|(from, to)| {
            must_be_inside(&from)?;
            Ok(FileChange::of(from, FileAct::MoveTo(to)).into())
        });
        answer(change)
    }
}

pub(crate) struct Copy;

impl Tool for Copy {
    const NAME: &'static str = "fs_copy";
    const DESCRIPTION: &'static str = "Copies a file, or a folder with its content except links that lead out.";
    const HINTS: ToolHints = ADDS;
    type Args = FromTo;

    fn call(args: FromTo, _call: &Call) -> Result<Reply, Error> {
        answer(args.checked().map(|(from, to)| FileChange::of(from, FileAct::CopyTo(to)).into()))
    }
}

pub(crate) struct Mkdir;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct MkdirArgs {
    /// The folder. Missing folders above it are created too.
    path: String,
}

impl Tool for Mkdir {
    const NAME: &'static str = "fs_mkdir";
    const DESCRIPTION: &'static str = "Creates a folder.";
    const HINTS: ToolHints = ADDS.union(ToolHints::IDEMPOTENT);
    type Args = MkdirArgs;

    fn call(args: MkdirArgs, _call: &Call) -> Result<Reply, Error> {
        answer(mkdir(&args.path))
    }
}

fn mkdir(path: &str) -> Result<Reply, Halt> {
    let path = folder(path).map_err(|halt| match halt {
        // The host cannot grant the new folder, which does not exist yet, but it may grant its parent.
        Halt::Folder(path) => Halt::Folder(parent(&path).to_owned()),
        halt => halt,
    })?;
    match fs::metadata(&path) {
        Ok(metadata) if metadata.kind == Kind::Folder => Ok(format!("the folder `{path}` already exists").into()),
        Ok(metadata) => Err(invalid(format!("`{path}` already exists, as a {}", name_of(metadata.kind)))),
        Err(Error::NotFound(_)) => Ok(FileChange::of(path, FileAct::MakeFolder).into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(old: &str, new: &str) -> Hunk {
        Hunk { old_text: old.into(), new_text: new.into() }
    }

    #[test]
    fn file_digest_is_hexadecimal_sha_256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(Sha256::new_with_prefix("abc")), expected);
    }

    #[test]
    fn patch_hunks_apply_in_order_or_not_at_all() {
        let text = "a\r\nb\r\nc";
        assert_eq!(patch(text, &[hunk("a", "x"), hunk("x\nb", "y"), hunk("c", "c\n")]).as_deref(), Ok("y\r\nc\r\n"));
        let error = patch(text, &[hunk("a", "x"), hunk("a", "y")]).unwrap_err();
        assert!(
            error.starts_with("nothing was changed, because of `hunks[1]`: `old_text` is not in the file"),
            "{error}"
        );
        assert!(patch(text, &[]).unwrap_err().contains("is empty"));
        assert!(patch(text, &[hunk("a", "x"), hunk("x", "a")]).unwrap_err().contains("undo each other"));
        let half = "z".repeat(WRITTEN / 2 + 1);
        let large = patch(text, &[hunk("a", &half), hunk("b", &half)]).unwrap_err();
        assert!(large.contains("with `hunks[1]`"), "{large}");
    }

    #[test]
    fn path_containment_compares_whole_components() {
        for (path, folder, expected) in
            [("a/b", "a", true), ("a", "a", false), ("ab", "a", false), ("/a/b", "/a", true), ("x", ".", true)]
        {
            assert_eq!(lies_in(path, folder), expected, "{path} in {folder}");
        }
    }
}
