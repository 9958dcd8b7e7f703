//! Lists of a server: all pages, bounded, and read item by item.

use std::collections::HashMap;

use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, PaginatedRequestParams, ServerResult},
    service::{PeerRequestOptions, ServiceError},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::error_text::shown;
use shelly_core::{
    error::{acts_on_terminal, cut},
    limits,
};

/// A tool or prompt of a server that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedItem {
    /// The server's own name of it, cut.
    pub name: String,
    /// The reason for the refusal.
    pub why: String,
}

impl RefusedItem {
    /// Returns the item of this name, whole, with the reason for its refusal.
    pub(super) fn new(name: &str, why: String) -> Self {
        Self { name: cut(name, limits::NAME_SHOWN_CHARS), why }
    }
}

/// A kind of item that servers list in pages.
pub(super) trait ListedItem: DeserializeOwned + Serialize {
    /// The word for several of them in messages, and the key of the items of a page.
    const PLURAL: &'static str;
    /// The maximum number of items of one server.
    const MOST: usize;
    /// The maximum bytes of all items of one server as JSON.
    const MOST_BYTES: usize;

    /// Returns the request for a page.
    fn page_request(params: PaginatedRequestParams) -> ClientRequest;

    /// Returns the items of a page and the cursor of the next one; `None` if the result is another one.
    fn page_of(result: ServerResult) -> Option<(Vec<Self>, Option<String>)>;

    /// Returns the server's own name of the item.
    fn name(&self) -> &str;
}

/// The items of a list. One that cannot be read does not make the others unusable.
pub(super) type ReadItems<T> = Vec<Result<T, RefusedItem>>;

/// Lists all pages.
///
/// # Errors
///
/// A message for a person that says why there is no list.
pub(super) async fn list_pages<T: ListedItem>(peer: &Peer<RoleClient>) -> Result<ReadItems<T>, String> {
    let listed = tokio::time::timeout(limits::MCP_LIST_TIME, pages(peer)).await;
    listed.map_err(|_| format!("no list within {:?}", limits::MCP_LIST_TIME))?
}

async fn pages<T: ListedItem>(peer: &Peer<RoleClient>) -> Result<ReadItems<T>, String> {
    let (mut items, mut bytes, mut cursor) = (Vec::new(), 0, None::<String>);
    for _ in 0..limits::MCP_PAGES {
        let (page, next) = page::<T>(peer, cursor.clone()).await?;
        bytes += page.iter().map(bytes_of).sum::<usize>();
        items.extend(page);
        if items.len() > T::MOST {
            return Err(format!("more than {} {}", T::MOST, T::PLURAL));
        }
        if bytes > T::MOST_BYTES {
            return Err(format!("the descriptions of the {} have more than {} bytes", T::PLURAL, T::MOST_BYTES));
        }
        match next {
            None => return Ok(items),
            Some(next) if next.len() > limits::MCP_CURSOR_BYTES => {
                return Err(format!("the cursor of the next page has more than {} bytes", limits::MCP_CURSOR_BYTES));
            }
            Some(next) if cursor.as_ref() == Some(&next) => return Err("the cursor of the next page repeats".into()),
            next => cursor = next,
        }
    }
    Err(format!("more than {} pages", limits::MCP_PAGES))
}

async fn page<T: ListedItem>(
    peer: &Peer<RoleClient>,
    cursor: Option<String>,
) -> Result<(ReadItems<T>, Option<String>), String> {
    // Not through the list methods of `rmcp`, which may return a cached page.
    let request = T::page_request(PaginatedRequestParams::default().with_cursor(cursor));
    let sent = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let answered = match sent {
        Ok(sent) => sent.await_response().await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(ServerResult::CustomResult(other)) => {
            read_page(other.0).ok_or_else(|| format!("the list of {} is invalid", T::PLURAL))
        }
        Ok(other) => {
            let (items, next) =
                T::page_of(other).ok_or_else(|| format!("the answer is not a list of {}", T::PLURAL))?;
            Ok((items.into_iter().map(Ok).collect(), next))
        }
        Err(ServiceError::McpError(error)) => Err(shown(&error.message)),
        Err(error) => Err(shown(&error.to_string())),
    }
}

/// Reads a page that `rmcp` does not know whole.
pub(super) fn read_page<T: ListedItem>(mut page: Value) -> Option<(ReadItems<T>, Option<String>)> {
    let Value::Array(items) = page.get_mut(T::PLURAL)?.take() else { return None };
    let next = page.get("nextCursor").and_then(|next| next.as_str()).map(str::to_owned);
    let read = |item: Value| {
        let name = item.get("name").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
        serde_json::from_value(item)
            .map_err(|error| RefusedItem::new(&name, shown(&format!("invalid definition: {error}"))))
    };
    Some((items.into_iter().map(read).collect(), next))
}

/// Returns the size of an item's whole description as JSON, in bytes.
fn bytes_of<T: ListedItem>(item: &Result<T, RefusedItem>) -> usize {
    item.as_ref().map_or(0, |item| serde_json::to_string(item).map_or(0, |json| json.len()))
}

/// Applies `check` to each item whose name is its own, of at most `most_bytes`, and without control characters. A refused
/// item does not affect the others.
pub(super) fn check_items<T: ListedItem, C>(
    items: ReadItems<T>,
    most_bytes: usize,
    mut check: impl FnMut(&T) -> Result<C, String>,
) -> (Vec<C>, Vec<RefusedItem>) {
    let mut named = HashMap::<String, usize>::new();
    for item in items.iter().flatten() {
        *named.entry(item.name().to_owned()).or_default() += 1;
    }
    let (mut checked, mut refused) = (Vec::new(), Vec::new());
    for item in items {
        let fits = item.and_then(|item| {
            let name = item.name();
            let fits = match named[name] > 1 {
                true => Err(format!("several {} have this name", T::PLURAL)),
                false => check_name(name, most_bytes).and_then(|()| check(&item)),
            };
            fits.map_err(|why| RefusedItem::new(name, why))
        });
        match fits {
            Ok(item) => checked.push(item),
            Err(item) => refused.push(item),
        }
    }
    (checked, refused)
}

fn check_name(name: &str, most_bytes: usize) -> Result<(), String> {
    if name.len() > most_bytes {
        return Err(format!("the name has more than {most_bytes} bytes"));
    }
    if name.contains(acts_on_terminal) {
        return Err("the name has control characters".into());
    }
    Ok(())
}
