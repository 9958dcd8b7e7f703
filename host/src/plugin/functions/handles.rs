//! The handles of one instance as a model names them: `counter#1-5f3a09c2`. The number counts in the run, and what follows is
//! by chance, so that a handle out of an earlier run is nobody's.

use std::{collections::HashMap, sync::Arc};

use wasmtime::component::ResourceAny;

use crate::limits;

/// The handles of a run.
pub struct ResourceHandles {
    tag: String,
    given: u32,
    live: HashMap<u32, ResourceHandle>,
    /// Up to which number handles were lost, and why: the last ones.
    lost: Vec<(u32, String)>,
}

/// One handle.
struct ResourceHandle {
    resource: Arc<str>,
    is: ResourceAny,
}

/// More handles than one instance may give.
#[derive(Debug)]
pub struct TooManyHandles;

impl Default for ResourceHandles {
    fn default() -> Self {
        let mut random = [0; 4];
        // Without chance a handle of an earlier run could be taken for one of this run: it still has the right resource.
        getrandom::fill(&mut random).unwrap_or_default();
        let tag = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { tag, given: 0, live: HashMap::new(), lost: Vec::new() }
    }
}

impl ResourceHandles {
    /// Names a handle that the component gave.
    pub fn give(&mut self, resource: &Arc<str>, is: ResourceAny) -> Result<String, TooManyHandles> {
        if self.live.len() >= limits::FUNCTION_HANDLES {
            return Err(TooManyHandles);
        }
        self.given = self.given.saturating_add(1);
        self.live.insert(self.given, ResourceHandle { resource: Arc::clone(resource), is });
        Ok(format!("{resource}#{}-{}", self.given, self.tag))
    }

    /// The handle of this name, with its number, if it is of this resource.
    ///
    /// # Errors
    ///
    /// Why there is none, for the model.
    pub fn find(&self, name: &str, resource: &str) -> Result<(u32, ResourceAny), String> {
        let shown = crate::error::cut(name, limits::NAME_SHOWN_CHARS);
        let expected =
            || format!("expected a handle of `{resource}`, such as `{resource}#1-{}`, got \"{shown}\"", self.tag);
        let (of, rest) = name.rsplit_once('#').ok_or_else(expected)?;
        let (number, tag) = rest.split_once('-').ok_or_else(expected)?;
        let number: u32 = number.parse().map_err(|_| expected())?;
        if of != resource {
            return Err(format!("expected a handle of `{resource}`, got `{shown}`"));
        }
        if tag != self.tag {
            return Err(format!(
                "`{shown}` is no handle of this run: handles are lost when a run ends or is interrupted, make a new one"
            ));
        }
        match self.live.get(&number) {
            Some(handle) if *handle.resource == *resource => Ok((number, handle.is)),
            Some(handle) => Err(format!("expected a handle of `{resource}`, got one of `{}`", handle.resource)),
            None if number == 0 || number > self.given => Err(format!("there is no handle `{shown}`")),
            None => Err(match self.lost.iter().find(|(most, _)| number <= *most) {
                Some((_, why)) => format!("`{shown}` was lost when {why}: make a new one"),
                None => format!("`{shown}` is gone: it was given away, or let go of"),
            }),
        }
    }

    /// A handle goes to the component, for good.
    pub fn take(&mut self, number: u32) {
        self.live.remove(&number);
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// All handles are gone with their instance.
    pub fn lose(&mut self, why: impl Into<String>) {
        const TOLD: usize = 16;
        self.live.clear();
        if self.lost.len() == TOLD {
            self.lost.remove(0);
        }
        self.lost.push((self.given, why.into()));
    }
}
