//! The names under which a model refers to handles of one instance: `counter#1-5f3a09c2`. The number counts within the
//! run, and the random suffix makes a handle of an earlier run invalid.

use std::{collections::HashMap, sync::Arc};

use wasmtime::component::ResourceAny;

use shelly_core::{hex, limits};

/// The handles of one run.
pub struct ResourceHandles {
    /// The random suffix of all names.
    tag: String,
    /// The number of the newest handle.
    given: u32,
    live: HashMap<u32, ResourceHandle>,
    /// Losses of all handles so far: the highest number that was lost, and the reason. Only the latest are kept.
    lost: Vec<(u32, String)>,
}

/// A handle and its resource.
struct ResourceHandle {
    resource: Arc<str>,
    is: ResourceAny,
}

/// The error for more handles than one instance may give out.
#[derive(Debug)]
pub struct TooManyHandles;

impl Default for ResourceHandles {
    fn default() -> Self {
        let mut random = [0; 4];
        // Without randomness a handle of an earlier run could pass for one of this run; it would still have the right
        // resource.
        getrandom::fill(&mut random).unwrap_or_default();
        let tag = hex::encode(random);
        Self { tag, given: 0, live: HashMap::new(), lost: Vec::new() }
    }
}

impl ResourceHandles {
    /// Registers a handle that the component returned, and returns its name.
    pub fn give(&mut self, resource: &Arc<str>, is: ResourceAny) -> Result<String, TooManyHandles> {
        if self.live.len() >= limits::FUNCTION_HANDLES {
            return Err(TooManyHandles);
        }
        self.given = self.given.saturating_add(1);
        self.live.insert(self.given, ResourceHandle { resource: Arc::clone(resource), is });
        Ok(format!("{resource}#{}-{}", self.given, self.tag))
    }

    /// Returns the handle of this name and its number, if it belongs to this resource.
    ///
    /// # Errors
    ///
    /// The reason for the model why there is none.
    pub fn find(&self, name: &str, resource: &str) -> Result<(u32, ResourceAny), String> {
        let shown = shelly_core::error::cut(name, limits::NAME_SHOWN_CHARS);
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
                "`{shown}` is not a handle of this run: handles are lost when a run ends or is interrupted; create a \
                 new one"
            ));
        }
        match self.live.get(&number) {
            Some(handle) if *handle.resource == *resource => Ok((number, handle.is)),
            Some(handle) => Err(format!("expected a handle of `{resource}`, got one of `{}`", handle.resource)),
            None if number == 0 || number > self.given => Err(format!("there is no handle `{shown}`")),
            None => Err(match self.lost.iter().find(|(most, _)| number <= *most) {
                Some((_, why)) => format!("`{shown}` was lost when {why}; create a new one"),
                None => format!("`{shown}` no longer exists: it was passed on or released"),
            }),
        }
    }

    /// Removes a handle whose ownership was passed to the component.
    pub fn take(&mut self, number: u32) {
        self.live.remove(&number);
    }

    /// Returns `true` if there are no live handles.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Invalidates all handles, because their instance is gone.
    pub fn lose(&mut self, why: impl Into<String>) {
        const TOLD: usize = 16;
        self.live.clear();
        if self.lost.len() == TOLD {
            self.lost.remove(0);
        }
        self.lost.push((self.given, why.into()));
    }
}
