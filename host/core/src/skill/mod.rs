//! Skills: procedures in folders. Each folder holds a `SKILL.md` and the files that it refers to.
//!
//! A skill with a description is listed in the prompt, and the model loads it on demand ([`LoadSkill`]); one without a
//! description is part of the system prompt. Skills in `.agents/skills`, which other programs read too, follow the [Agent
//! Skills format](https://agentskills.io/specification): they always have a description, and the name of their folder. A
//! [`SkillCatalog`] puts the skills of several places together.

mod load_skill;
mod skill_catalog;
mod skill_details;
mod skill_error;
mod skill_file;

pub use load_skill::LoadSkill;
pub use skill_catalog::SkillCatalog;
pub use skill_details::SkillDetails;
pub use skill_error::SkillError;
pub use skill_file::{FILE, Skill, SkillPlace, load_dir};
