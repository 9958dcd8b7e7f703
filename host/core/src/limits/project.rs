//! Limits of skills and of a project's context.

use std::time::Duration;

/// The maximum bytes of one `SKILL.md`. About 16,000 tokens: longer procedures belong in separate files, read on demand.
pub const SKILL_BYTES: u64 = 64 << 10;
/// The maximum number of skills in one directory, and of all places together. Each costs a line of the system prompt.
pub const SKILLS: usize = 256;
/// The maximum characters of a skill's name: a model must reproduce it exactly.
pub const SKILL_NAME_CHARS: usize = 64;
/// The maximum characters of a skill's description. Other tools accept 1,024.
pub const SKILL_DESCRIPTION_CHARS: usize = 2_048;
/// The maximum characters of the description of a skill in `.agents/skills`, as the Agent Skills format says.
pub const SHARED_SKILL_DESCRIPTION_CHARS: usize = 1_024;
/// The maximum characters of a skill's licence, of its requirements, and of the name of a tool that it is written for. The
/// Agent Skills format says so of the requirements.
pub const SKILL_NOTE_CHARS: usize = 500;
/// The maximum number of tools that a skill says it is written for: a model reads them with the skill.
pub const SKILL_ALLOWED_TOOLS: usize = 64;
/// The number of skills that are left out which a run names; `skill check` names all.
pub const SKILL_WARNINGS: usize = 5;
/// The maximum bytes of a file that `load_skill` returns. Longer ones are read in parts, with tools for files.
pub const SKILL_FILE_BYTES: u64 = 64 << 10;
/// The maximum characters of the path of a file that `load_skill` returns.
pub const SKILL_PATH_CHARS: usize = 256;
/// The maximum bytes of all skills of one directory in the system prompt: those without a description.
pub const INLINE_SKILLS_BYTES: usize = 128 << 10;
/// The maximum characters of a project's context in the system prompt, including its frame and the index. About 8,000
/// tokens, sent with every request.
pub const CONTEXT_CHARS: usize = 32_000;
/// The default number of bytes read of one file of a project's context; the rest is cut.
pub const CONTEXT_FILE_BYTES: u64 = 512 << 10;
/// The largest number of bytes read of such a file that a config can set: each file is held in memory before it is cut to
/// [`CONTEXT_CHARS`].
pub const CONTEXT_FILE_CEILING: u64 = 16 << 20;
/// The maximum number of files of one folder in a project's context: the first by name.
pub const CONTEXT_FILES: usize = 64;
/// The maximum bytes of a permissions file.
pub const PERMISSIONS_BYTES: u64 = 1 << 20;
/// The maximum number of files and folders examined for a project's index. Ten times the size of most repositories.
pub const INDEX_ENTRIES: usize = 200_000;
/// The maximum depth of folders examined for a project's index.
pub const INDEX_DEPTH: usize = 16;
/// The time for a project's index: a slow disk must not keep an agent from starting.
pub const INDEX_TIME: Duration = Duration::from_secs(2);
/// The maximum characters of a project's index. About 2,000 tokens.
pub const INDEX_CHARS: usize = 8_000;
/// The maximum number of subfolders of one folder named in a project's index: the first by name.
pub const INDEX_FOLDERS_NAMED: usize = 48;
/// The maximum bytes of one `.gitignore` read for a project's index; a longer one is not used.
pub const IGNORE_FILE_BYTES: u64 = 64 << 10;
/// The bytes read of the small files that describe a git repository's state, and of the end of its log.
pub const GIT_FILE_BYTES: u64 = 64 << 10;
