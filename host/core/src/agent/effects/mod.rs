//! The effects of a run: called in each turn, with the state that the host keeps for them.

mod edit_texts;
mod effect_editor;
mod effect_memory;
mod running_effects;

pub use effect_editor::{EffectEditOutcome, EffectEditor, check_edits};
pub(crate) use running_effects::{EffectSelection, EffectTarget, Effects};
