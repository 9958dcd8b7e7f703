//! Every power, refused once: an edit without its power is not made, and the run goes on.

use std::sync::Arc;

use shelly_host::{
    agent::Effect,
    capability::{Grant, Power},
    event::Event,
    model::ScriptedCompleter,
    plugin::PluginEffect,
};

use super::{
    agent, engine,
    guest::{Guest, Image},
    pack, run,
};

const ALL: [Power; 11] = [
    Power::SeeMessages,
    Power::SeeArguments,
    Power::SeeResults,
    Power::Note,
    Power::EditResults,
    Power::Rewrite,
    Power::SystemPrompt,
    Power::HideTools,
    Power::ProvideTools,
    Power::AskModel,
    Power::Stop,
];

/// An effect that answers this in each turn, granted all powers but this one.
async fn without(power: Option<Power>, guest: &Guest) -> Arc<dyn Effect> {
    let granted = ALL.iter().filter(|one| Some(**one) != power).map(|one| format!("\"{one}\"")).collect::<Vec<_>>();
    let manifest = format!(
        "on_failure = \"skip\"\nwants = {{ powers = [{}] }}\neffect = {{ phases = [\"before-model\"] }}",
        granted.join(", ")
    );
    let plugin = pack(&["effect"], &manifest, &guest.component()).load(engine()).await.unwrap();
    Arc::new(PluginEffect::new(&plugin).unwrap())
}

/// The edits that were made, and why others were refused.
fn edits(events: &[Event]) -> (Vec<&str>, Vec<(&str, &str)>) {
    let made = events.iter().filter_map(|event| match event {
        Event::EffectEdited { edit, .. } => Some(edit.name()),
        _ => None,
    });
    let refused = events.iter().filter_map(|event| match event {
        Event::EffectRefused { edit, reason, .. } => Some((edit.name(), reason.as_str())),
        _ => None,
    });
    (made.collect(), refused.collect())
}

#[tokio::test]
async fn effect_edit_requires_its_power() {
    fn edit(words: &[u32]) -> Guest {
        Guest::of(&["effect"]).answer("eval", |image| image.step(&[], &[words.to_vec()]))
    }
    let mut note = Guest::of(&["effect"]);
    let [at, length] = note.image().text("Take care.");
    let note = note.answer("eval", |image| image.step(&[], &[vec![0, 0, at, length]]));
    for (power, guest, name) in [
        (Power::Note, &note, "note"),
        // The result of a call that is not there, and messages that are not there.
        (Power::EditResults, &edit(&[1]), "replace-result"),
        (Power::Rewrite, &edit(&[2, 0, 77, 0, 77]), "replace"),
        (Power::SeeMessages, &edit(&[2, 0, 77, 0, 77]), "replace"),
        (Power::SeeArguments, &edit(&[2, 0, 77, 0, 77]), "replace"),
        (Power::SeeResults, &edit(&[2, 0, 77, 0, 77]), "replace"),
        // The instructions, which are the first message.
        (Power::SystemPrompt, &edit(&[2]), "replace"),
        (Power::HideTools, &edit(&[3]), "hide-tools"),
        (Power::Stop, &edit(&[4]), "stop"),
    ] {
        let missing = format!("power `{power}` is not granted; add it to `powers` of the plugin's entry in the config");
        for lacks in [Some(power), None] {
            let (model, mut helper) = agent([ScriptedCompleter::text("done")]);
            helper.effects.push(without(lacks, guest).await);
            let (answer, chat, events) = run(&helper).await;
            let (made, refused) = edits(&events);
            if lacks.is_some() {
                assert_eq!(answer.unwrap().message.text_content(), "done", "{power}");
                assert_eq!((made.len(), refused), (0, vec![(name, &*missing)]), "{power}");
                assert_eq!((chat.snapshot().len(), model.requests().len()), (3, 1), "{power}");
            } else {
                // With it, it is done, or it is something else that it fails for.
                assert_eq!(answer.is_err(), power == Power::Stop, "{power}");
                assert!(refused.iter().all(|(_, reason)| *reason != missing), "{power}: {refused:?}");
                assert_eq!(made.len() + refused.len() + usize::from(power == Power::Stop), 1, "{power}: {events:?}");
            }
        }
    }
}

#[tokio::test]
async fn effect_without_ask_model_cannot_ask_a_model() {
    for (lacks, asked) in [(Some(Power::AskModel), false), (None, true)] {
        let (model, mut helper) = agent((0..20).map(|_| ScriptedCompleter::text("done")));
        helper.effects.push(without(lacks, &Guest::of(&["effect"]).answer("eval", Image::ask)).await);
        let (answer, chat, events) = run(&helper).await;
        // It asks again and again, which is passed over in the end.
        assert_eq!(answer.unwrap().message.text_content(), "done");
        assert_eq!((model.requests().len() > 1, chat.snapshot().len()), (asked, 3));
        let failed = |event: &&Event| matches!(event, Event::EffectFailed { skipped: true, .. });
        assert_eq!(events.iter().filter(failed).count(), 1);
    }
}

#[tokio::test]
async fn effect_without_provide_tools_offers_no_tools() {
    let manifest = "wants = { powers = [\"provide-tools\"] }\neffect = { phases = [\"before-model\"] }";
    let packed = pack(&["effect", "tool"], manifest, &Guest::of(&["effect", "tool"]).component());
    let folder = packed.place.path().join("plugins/hostile");
    for (powers, offers) in [([].into(), false), ([Power::ProvideTools].into(), true)] {
        let plugin = super::load_from(&folder, Grant { powers, ..Grant::default() }).await.unwrap();
        assert_eq!(plugin.offers_tools(), offers);
    }
}
