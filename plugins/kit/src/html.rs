//! HTML, parsed like in a browser, however broken it is.

use std::rc::Rc;

use htmd::{HtmlToMarkdown, Node};
use shelly_plugin::Error;

/// The maximum depth of nested elements: the Markdown writer is recursive. Browsers stop at 512.
const MAX_DEPTH: usize = 256;

/// Converts HTML to Markdown: headings, lists, tables, links, code; without the head, scripts and styles.
///
/// # Errors
///
/// [`Error::TooLarge`] if the elements are nested too deep. A guest that uses this function needs a deep stack
/// (`deep_stack.rs`).
pub fn to_markdown(html: &str) -> Result<String, Error> {
    let converter =
        HtmlToMarkdown::builder().skip_tags(vec!["head", "script", "style", "noscript", "template"]).build();
    let tree = converter.html_to_tree(html).map_err(Error::other)?;
    check_depth(&tree)?;
    Ok(converter.tree_to_markdown(&tree).trim().to_owned())
}

/// Checks the depth without recursion.
fn check_depth(tree: &Rc<Node>) -> Result<(), Error> {
    let mut left = vec![(Rc::clone(tree), 0)];
    while let Some((node, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return Err(Error::TooLarge(format!("`html` has more than {MAX_DEPTH} nested elements")));
        }
        left.extend(node.children.borrow().iter().map(|child| (Rc::clone(child), depth + 1)));
    }
    Ok(())
}
