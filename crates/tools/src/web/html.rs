//! HTML as Markdown, within bounds.

use std::rc::Rc;

use htmd::{HtmlToMarkdown, Node};

/// How many bytes of HTML are read.
const BYTES: usize = 1 << 20;
/// How deep elements may nest: what writes Markdown is recursive.
const DEPTH: usize = 200;
/// What is no content.
const SKIPPED: [&str; 10] = [
    "head", "script", "style", "noscript", "template", "iframe", "object", "svg", "canvas", "form",
];

/// The content of a page as Markdown; where it nests too deep, its texts alone.
pub(super) fn markdown(html: &str) -> String {
    let mut end = html.len().min(BYTES);
    while !html.is_char_boundary(end) {
        end -= 1;
    }
    let converter = HtmlToMarkdown::builder()
        .skip_tags(SKIPPED.to_vec())
        .build();
    let Ok(tree) = converter.html_to_tree(&html[..end]) else {
        return html[..end].to_owned();
    };
    let text = match depth(&tree) > DEPTH {
        true => texts(&tree),
        false => converter.tree_to_markdown(&tree),
    };
    without_gaps(&text)
}

/// How deep a tree is, found without recursion.
fn depth(tree: &Rc<Node>) -> usize {
    let (mut open, mut deepest) = (vec![(tree.clone(), 1)], 0);
    while let Some((node, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(
            node.children
                .borrow()
                .iter()
                .map(|child| (child.clone(), depth + 1)),
        );
    }
    deepest
}

fn texts(tree: &Rc<Node>) -> String {
    let mut found = String::new();
    let mut open = vec![tree.clone()];
    while let Some(node) = open.pop() {
        // `NodeData` is not part of what htmd shows: a text is what is written as itself.
        if node.children.borrow().is_empty() {
            found.push_str(&HtmlToMarkdown::new().tree_to_markdown(&node));
            found.push('\n');
        }
        open.extend(node.children.borrow().iter().rev().cloned());
    }
    found
}

/// With at most one empty line between others.
fn without_gaps(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept.truncate(kept.trim_end().len());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_markdown_without_what_is_no_content() {
        let page = "<html><head><title>T</title></head><body><h1>A</h1><script>bad()</script>\
                    <p>b <a href='/c'>c</a></p><ul><li>d</li></ul></body></html>";
        assert_eq!(markdown(page), "# A\n\nb [c](/c)\n\n*   d");
    }

    #[test]
    fn a_page_that_nests_without_end_is_its_texts() {
        let page = "<div>".repeat(200_000) + "deep" + &"<b>".repeat(50_000) + "er";
        assert!(markdown(&page).contains("deep"));
        assert!(markdown(&("<".repeat(500_000) + "x")).len() < 2 << 20);
    }
}
