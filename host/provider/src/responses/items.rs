//! The items of a reply, and the assignment of events to them.

use shelly_core::{error::Fault, limits};

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ResponsesItemKind {
    Message,
    Reasoning,
    Call,
    Other,
}

/// The reference of an event to its item.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResponsesItemRef<'a> {
    /// The index in the output.
    pub index: Option<i64>,
    /// The id of the item; empty if the event has none.
    pub id: &'a str,
}

/// The items so far, in order of arrival.
#[derive(Debug, Default)]
pub struct ResponsesItems(Vec<ResponsesItemState>);

#[derive(Debug)]
struct ResponsesItemState {
    kind: ResponsesItemKind,
    index: Option<i64>,
    id: String,
    /// The index of the call in the assembly, and its id; only for call items.
    call: usize,
    call_id: String,
    /// `true` if words of the item, or of its current part, have arrived.
    is_said: bool,
    is_part_said: bool,
    has_ended: bool,
    /// `true` if the opaque state that the server expects back was stored.
    is_kept: bool,
}

/// The state of an item before it receives words.
#[derive(Debug, PartialEq)]
pub struct ResponsesPartStart {
    /// `true` if no words of the part had arrived.
    pub is_new_part: bool,
    /// `true` if no words of the item had arrived.
    pub is_first_part: bool,
}

impl ResponsesItems {
    /// Adds an item; `call` is the index of its call in the assembly.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] beyond [`limits::RESPONSES_ITEMS`].
    pub fn push(
        &mut self,
        kind: ResponsesItemKind,
        name: ResponsesItemRef<'_>,
        call: Option<usize>,
    ) -> Result<usize, Fault> {
        if self.0.len() == limits::RESPONSES_ITEMS {
            let message = format!("the reply has more than {} items", limits::RESPONSES_ITEMS);
            return Err(Fault::TooLarge { message });
        }
        self.0.push(ResponsesItemState {
            kind,
            index: name.index,
            id: name.id.into(),
            call: call.unwrap_or(0),
            call_id: String::new(),
            is_said: false,
            is_part_said: false,
            has_ended: false,
            is_kept: false,
        });
        Ok(self.0.len() - 1)
    }

    /// Returns the item that an event seems to refer to: the newest of its kind with its item or call id; else the newest
    /// open item with its index; else, if the event or the item has no index, the newest open item.
    pub fn find(&self, kind: ResponsesItemKind, name: ResponsesItemRef<'_>, call_id: Option<&str>) -> Option<usize> {
        let newest = |is_it: &dyn Fn(&ResponsesItemState) -> bool| {
            self.0.iter().rposition(|item| item.kind == kind && is_it(item))
        };
        newest(&|item| item.is_called(name.id, call_id))
            .or_else(|| newest(&|item| !item.has_ended && name.index.is_some() && item.index == name.index))
            .or_else(|| newest(&|item| !item.has_ended && (name.index.is_none() || item.index.is_none())))
    }

    /// Returns the newest open item of a kind with one of these ids.
    pub fn find_open(&self, kind: ResponsesItemKind, id: &str, call_id: Option<&str>) -> Option<usize> {
        self.0.iter().rposition(|item| item.kind == kind && !item.has_ended && item.is_called(id, call_id))
    }

    /// Sets the call id of an item.
    pub fn call_id(&mut self, at: usize, id: &str) {
        self.0[at].call_id = id.into();
    }

    /// Returns the index in the assembly of an item's call.
    pub fn call(&self, at: usize) -> usize {
        self.0[at].call
    }

    /// Marks the beginning of a new part of an item.
    pub fn begin_part(&mut self, kind: ResponsesItemKind, name: ResponsesItemRef<'_>) {
        if let Some(at) = self.find(kind, name, None) {
            self.0[at].is_part_said = false;
        }
    }

    /// Marks that words of an item have arrived. Returns the state before.
    pub fn say(&mut self, at: usize) -> ResponsesPartStart {
        let item = &mut self.0[at];
        let said = ResponsesPartStart { is_new_part: !item.is_part_said, is_first_part: !item.is_said };
        (item.is_part_said, item.is_said) = (true, true);
        said
    }

    /// Marks the end of an item; later words count as repeated. Returns `true` if words of it had arrived before.
    pub fn end(&mut self, at: usize) -> bool {
        let item = &mut self.0[at];
        (item.is_part_said, item.has_ended) = (true, true);
        std::mem::replace(&mut item.is_said, true)
    }

    /// Returns `true` if an item has ended.
    pub fn has_ended(&self, at: usize) -> bool {
        self.0[at].has_ended
    }

    /// Marks the opaque state of an item as stored. Returns `true` if it was not stored before.
    pub fn keep(&mut self, at: usize) -> bool {
        !std::mem::replace(&mut self.0[at].is_kept, true)
    }

    /// Returns a cursor that finds the items again in a list of all items.
    pub fn in_order(&self) -> ResponsesItemCursor {
        ResponsesItemCursor { known: self.0.len(), next: [0; 4] }
    }
}

impl ResponsesItemState {
    fn is_called(&self, id: &str, call_id: Option<&str>) -> bool {
        let is = |own: &str, id: &str| !own.is_empty() && own == id;
        is(&self.id, id) || is(&self.call_id, id) || call_id.is_some_and(|id| is(&self.call_id, id))
    }
}

/// A cursor over a list of all items. A listed item without a known id is taken for the next of its kind.
#[derive(Debug)]
pub struct ResponsesItemCursor {
    known: usize,
    next: [usize; 4],
}

impl ResponsesItemCursor {
    /// Returns the next listed item if it has arrived before.
    pub fn next(
        &mut self,
        items: &ResponsesItems,
        kind: ResponsesItemKind,
        id: &str,
        call_id: Option<&str>,
    ) -> Option<usize> {
        let next = &mut self.next[kind as usize];
        let known = &items.0[..self.known];
        let is_next = |at: &usize| known[*at].kind == kind;
        let named = (*next..known.len()).filter(is_next).find(|at| known[*at].is_called(id, call_id));
        let found = named.or_else(|| (*next..known.len()).find(is_next));
        *next = found.map_or(known.len(), |at| at + 1);
        found
    }
}
