//! Saves the memory of effects in the journal and restores it when their run is resumed.

use std::collections::VecDeque;

use super::running_effects::{Effects, RunningEffect};
use crate::agent::journal::{EffectMemory, EffectModelReply};

impl Effects<'_> {
    /// Restores the memory that effects had when their run was interrupted. `told` holds the answers that models had given
    /// them in that phase. The list of effects may have changed since: effects at their old position come first, then each
    /// memory goes to an effect of its name that has none yet. Memory is dropped if no effect has its name, or if that
    /// effect's parameters changed.
    pub fn restore(&mut self, mut memories: Vec<EffectMemory>, told: VecDeque<EffectModelReply>) {
        self.told = told;
        let mut is_back = vec![false; self.running.len()];
        memories.sort_by_key(|memory| memory.at);
        let effects: Vec<_> = self.running.iter().map(|running| running.effect).collect();
        let fits = |at: usize, memory: &EffectMemory| {
            effects.get(at).is_some_and(|effect| {
                effect.name() == memory.name && memory.setup.as_deref().is_none_or(|was| effect.setup() == Some(was))
            })
        };
        let (there, moved): (Vec<_>, Vec<_>) = memories.into_iter().partition(|memory| fits(memory.at, memory));
        for memory in there.into_iter().chain(moved) {
            let free = |at: &usize| fits(*at, &memory) && !is_back[*at];
            let at = Some(memory.at).filter(free).or_else(|| (0..effects.len()).find(free));
            let Some(at) = at else {
                // Answers to questions of an effect whose memory is dropped are not needed.
                self.told.retain(|told| !told.is_for(memory.at, &memory.name));
                continue;
            };
            is_back[at] = true;
            let running = &mut self.running[at];
            (running.state, running.wake, running.hidden) = (memory.state, memory.wake, memory.hidden);
            running.seen = memory.seen;
        }
    }

    /// Returns the memory of each effect whose memory has changed since the last call.
    pub fn memories(&mut self) -> Vec<EffectMemory> {
        self.told.clear();
        let memory = |(at, running): (usize, &mut RunningEffect<'_>)| {
            std::mem::take(&mut running.changed).then(|| EffectMemory {
                name: running.effect.name().to_owned(),
                at,
                setup: running.effect.setup().map(str::to_owned),
                state: running.state.clone(),
                wake: running.wake,
                hidden: running.hidden.clone(),
                seen: running.seen.clone(),
            })
        };
        self.running.iter_mut().enumerate().filter_map(memory).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use async_trait::async_trait;

    use super::*;
    use crate::{
        agent::{Effect, EffectFn, EffectInput, EffectPhase, EffectStep},
        capability::Powers,
        chat::{ChatSnapshot, ToolSpec},
        error::Fault,
        event::RunCx,
    };

    fn effect(name: &str) -> Arc<dyn Effect> {
        Arc::new(EffectFn::new(name, EffectPhase::BeforeModel, [], |_, _| Ok(vec![])))
    }

    #[test]
    fn effects_regain_their_memory_after_the_list_changed() {
        let memory = |(at, name): (usize, &&str)| {
            let (name, hidden) = ((*name).to_owned(), vec![format!("{name}{at}")]);
            EffectMemory { name, at, hidden, ..EffectMemory::default() }
        };
        for (before, now, hidden) in [
            (&["a", "b"][..], &["a", "b"][..], &["a0", "b1"][..]),
            (&["a", "b"], &["b", "a"], &["b1", "a0"]),
            (&["a", "b"], &["x", "b"], &["", "b1"]),
            (&["x", "a"], &["a"], &["a1"]),
            // Of two effects with one name, each gets back its own memory.
            (&["a", "a"], &["a"], &["a0"]),
            (&["a", "x", "a"], &["a", "a"], &["a0", "a2"]),
            (&["x", "a", "a"], &["a", "a"], &["a2", "a1"]),
            (&["a"], &["a", "a"], &["a0", ""]),
            (&[], &["a"], &[""]),
        ] {
            let list: Vec<_> = now.iter().copied().map(effect).collect();
            let mut effects = Effects::new(&list);
            effects.restore(before.iter().enumerate().map(memory).collect(), VecDeque::new());
            let back: Vec<_> = effects.running.iter().map(|running| running.hidden.concat()).collect();
            assert_eq!(back, hidden, "{before:?} {now:?}");
        }
    }

    /// An effect with settable parameters.
    struct Set(Option<&'static str>);

    #[async_trait]
    impl Effect for Set {
        fn name(&self) -> &str {
            "set"
        }

        fn phases(&self) -> &[EffectPhase] {
            &[]
        }

        fn powers(&self) -> &Powers {
            static NONE: LazyLock<Powers> = LazyLock::new(Powers::default);
            &NONE
        }

        fn setup(&self) -> Option<&str> {
            self.0
        }

        async fn eval(
            &self,
            _: &RunCx,
            _: &EffectInput,
            _: &ChatSnapshot,
            _: &Arc<[Arc<ToolSpec>]>,
            _: Vec<u8>,
        ) -> Result<EffectStep, Fault> {
            Err(Fault::other("it is not called"))
        }
    }

    #[test]
    fn effect_memory_of_other_params_is_not_restored() {
        let set = |setup: &Option<&'static str>| Arc::new(Set(*setup)) as Arc<dyn Effect>;
        for (before, now, hidden) in [
            (&[Some("1")][..], &[Some("1")][..], &["0"][..]),
            (&[Some("1")], &[Some("2")], &[""]),
            // Older versions wrote no parameters.
            (&[None], &[Some("2")], &["0"]),
            (&[Some("1")], &[None], &[""]),
            (&[Some("1"), Some("2")], &[Some("2"), Some("1")], &["1", "0"]),
            (&[Some("1"), Some("2")], &[Some("3"), Some("2")], &["", "1"]),
            (&[Some("1"), Some("2")], &[Some("2"), Some("3")], &["1", ""]),
        ] {
            let list: Vec<_> = now.iter().map(set).collect();
            let mut effects = Effects::new(&list);
            let memory = |(at, setup): (usize, &Option<&str>)| {
                let (setup, hidden) = (setup.map(str::to_owned), vec![at.to_string()]);
                EffectMemory { name: "set".into(), at, setup, hidden, ..EffectMemory::default() }
            };
            effects.restore(before.iter().enumerate().map(memory).collect(), VecDeque::new());
            let back: Vec<_> = effects.running.iter().map(|running| running.hidden.concat()).collect();
            assert_eq!(back, hidden, "{before:?} {now:?}");
        }
    }
}
