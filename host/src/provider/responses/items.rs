//! The items of a reply, and which of them an event is about.

use crate::{error::Fault, limits};

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ResponsesItemKind {
    Message,
    Reasoning,
    Call,
    Other,
}

/// How an event names its item.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResponsesItemRef<'a> {
    /// Which of the output.
    pub index: Option<i64>,
    /// Empty if it is not said.
    pub id: &'a str,
}

/// The items so far, in the order in which they came.
#[derive(Debug, Default)]
pub struct ResponsesItems(Vec<ResponsesItemState>);

#[derive(Debug)]
struct ResponsesItemState {
    kind: ResponsesItemKind,
    index: Option<i64>,
    id: String,
    /// Of a call: its number and id.
    call: usize,
    call_id: String,
    /// Whether some of its words have come, and of its part under way.
    is_said: bool,
    is_part_said: bool,
    has_ended: bool,
    /// Whether what its server wants back is kept.
    is_kept: bool,
}

/// What had come before of an item that says something.
#[derive(Debug, PartialEq)]
pub struct ResponsesPartStart {
    /// Nothing of its part.
    pub is_new_part: bool,
    /// Nothing of the item.
    pub is_first_part: bool,
}

impl ResponsesItems {
    /// Adds one; `call` is the number of its call.
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

    /// The item that an event seems to be about: the newest of its kind with its id, or that of its call; else the newest
    /// under way with its index; else, if the event or the item has no index, the newest of all under way.
    pub fn find(&self, kind: ResponsesItemKind, name: ResponsesItemRef<'_>, call_id: Option<&str>) -> Option<usize> {
        let newest = |is_it: &dyn Fn(&ResponsesItemState) -> bool| {
            self.0.iter().rposition(|item| item.kind == kind && is_it(item))
        };
        newest(&|item| item.is_called(name.id, call_id))
            .or_else(|| newest(&|item| !item.has_ended && name.index.is_some() && item.index == name.index))
            .or_else(|| newest(&|item| !item.has_ended && (name.index.is_none() || item.index.is_none())))
    }

    /// The newest of a kind under way that has one of these ids.
    pub fn find_open(&self, kind: ResponsesItemKind, id: &str, call_id: Option<&str>) -> Option<usize> {
        self.0.iter().rposition(|item| item.kind == kind && !item.has_ended && item.is_called(id, call_id))
    }

    /// Gives the item of a call the id of the call.
    pub fn call_id(&mut self, at: usize, id: &str) {
        self.0[at].call_id = id.into();
    }

    /// The number of an item's call.
    pub fn call(&self, at: usize) -> usize {
        self.0[at].call
    }

    /// A new part of an item begins.
    pub fn begin_part(&mut self, kind: ResponsesItemKind, name: ResponsesItemRef<'_>) {
        if let Some(at) = self.find(kind, name, None) {
            self.0[at].is_part_said = false;
        }
    }

    /// An item says something. Returns what had come before.
    pub fn say(&mut self, at: usize) -> ResponsesPartStart {
        let item = &mut self.0[at];
        let said = ResponsesPartStart { is_new_part: !item.is_part_said, is_first_part: !item.is_said };
        (item.is_part_said, item.is_said) = (true, true);
        said
    }

    /// An item ends: nothing that it says from now on is new. Returns whether it had said something.
    pub fn end(&mut self, at: usize) -> bool {
        let item = &mut self.0[at];
        (item.is_part_said, item.has_ended) = (true, true);
        std::mem::replace(&mut item.is_said, true)
    }

    /// Whether an item has ended.
    pub fn has_ended(&self, at: usize) -> bool {
        self.0[at].has_ended
    }

    /// What the server wants back of an item is kept. Returns whether it was not before.
    pub fn keep(&mut self, at: usize) -> bool {
        !std::mem::replace(&mut self.0[at].is_kept, true)
    }

    /// To find the items again in a list of all.
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

/// Goes through a list of all items: one that has no known id is the next of its kind.
#[derive(Debug)]
pub struct ResponsesItemCursor {
    known: usize,
    next: [usize; 4],
}

impl ResponsesItemCursor {
    /// The item that is listed next, if it has come before.
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
