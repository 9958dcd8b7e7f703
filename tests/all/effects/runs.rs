//! Effects turn by turn, and in whole runs of an agent.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use shelly_host::{
    agent::{Agent, EffectAction, EffectEdit, EffectPhase, Wake},
    chat::{Chat, ToolHints},
    error::Fault,
    plugin::PluginEffect,
    tool,
};

use super::{Stage, Turn, chat, plugin};
use crate::script::{Mind, Ran};

/// Returns the kind of an effect's edits as a letter: a note, a stop, hidden tools.
pub fn letter(edits: &[EffectEdit]) -> char {
    match edits {
        [] => '.',
        [EffectEdit::Note(_)] => 'n',
        [EffectEdit::Stop { .. }] => 's',
        [EffectEdit::HideTools(_)] => 'h',
        other => panic!("{other:?}"),
    }
}

/// Plays the turns and returns the effect's action before each of them, the first one included, as a letter a turn (`-`
/// where it sleeps), and its notes. The notes are added to the chat.
pub async fn course(component: &str, params: Value, turns: &[Turn<'_>]) -> (String, Vec<String>) {
    let mut stage = Stage::of(component, params).await;
    let (chat, mut wake, mut said, mut notes) = (chat("go", &[]), None::<Wake>, String::new(), Vec::new());
    for iteration in 0..=turns.len() {
        if iteration > 0 {
            turns[iteration - 1].add(&chat, iteration);
        }
        stage.moment.iteration = u32::try_from(iteration).unwrap();
        if wake.is_some_and(|wake| wake.iteration.is_none_or(|at| at > stage.moment.iteration)) {
            said.push('-');
            continue;
        }
        let step = stage.step(&chat).await.unwrap();
        wake = step.wake;
        let EffectAction::Edits(edits) = step.action else { panic!("it asks") };
        said.push(letter(&edits));
        for edit in edits {
            if let EffectEdit::Note(note) | EffectEdit::Stop { message: note, .. } = edit {
                chat.note("effect", note.clone());
                notes.push(note);
            }
        }
    }
    (said, notes)
}

/// Asserts that the effect acts on this chat, but not in the other phase, and not before the first turn.
pub async fn acts_only_before_a_later_turn(component: &str, params: Value, chat: &Chat) {
    for (phase, iteration, acts) in [
        (EffectPhase::AfterModel, 20, false),
        (EffectPhase::AfterModel, 0, false),
        (EffectPhase::BeforeModel, 0, false),
        (EffectPhase::BeforeModel, 20, true),
    ] {
        let mut stage = Stage::of(component, params.clone()).await;
        (stage.moment.phase, stage.moment.iteration) = (phase, iteration);
        let edits = stage.edits(chat).await;
        assert_eq!(!edits.is_empty(), acts, "{phase:?} {iteration}: {edits:?}");
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// An agent with one effect; its tool `look` says nothing new, and its tool `fail` fails.
pub async fn agent(component: &str, params: Value, mind: Mind) -> Agent {
    let effect = PluginEffect::new(&plugin(component, params).await).unwrap();
    let hints = ToolHints { read_only: true, ..ToolHints::default() };
    let look = tool::function("look", "Looks.", |_, _: NoArguments| async { Ok("nothing new".to_owned()) });
    let fail =
        tool::function("fail", "Fails.", |_, _: NoArguments| async { Err::<String, _>(Fault::other("it is broken")) });
    let mut agent = Agent::new("helper", "", Arc::new(mind))
        .with_tool(look.with_hints(hints))
        .with_tool(fail.with_hints(hints))
        .with_effect(effect);
    agent.options.behavioral_hints = false;
    agent
}

/// The notes that stand in a conversation.
pub fn notes(chat: &Chat) -> Vec<String> {
    chat.snapshot().iter().filter(|entry| entry.note).map(|entry| entry.message.text_content()).collect()
}

/// Returns the number of times that the tool has run, without calls that were answered otherwise.
pub fn looks(ran: &Ran) -> usize {
    ran.results().iter().filter(|result| *result == "nothing new").count()
}
