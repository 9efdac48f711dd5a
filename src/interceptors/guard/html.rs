//! Text without markup.

/// Elements without text.
const SILENT: [&str; 2] = ["script", "style"];
/// The references that stand for characters of markup.
const REFERENCES: [(&str, &str); 6] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
];

/// Writes references as characters, and takes tags, comments, scripts and styles out of a text. A `<` that begins no tag
/// stays, so that a text without markup is unchanged.
pub(super) fn without_markup(text: &str) -> String {
    // First, since what references stand for may be markup too.
    let mut written = text.to_owned();
    for (name, character) in REFERENCES {
        if written.contains(name) {
            written = written.replace(name, character);
        }
    }
    let text = &*written;
    // Of the same length, so that places are the same in both.
    let lower = text.to_ascii_lowercase();
    let last = text.rfind('>');
    let (mut shown, mut from) = (String::with_capacity(text.len()), 0);
    while let Some(at) = text[from..].find('<').map(|at| from + at) {
        shown.push_str(&text[from..at]);
        from = match markup(&lower[at..], last.is_some_and(|last| at < last)) {
            Some(length) => {
                // What follows must not make a tag of what stands before.
                if shown.ends_with('<') || shown.ends_with("</") {
                    shown.push(' ');
                }
                at + length
            }
            None => {
                shown.push('<');
                at + 1
            }
        };
    }
    shown.push_str(&text[from..]);
    shown
}

/// How many bytes of markup a text in small letters begins with, from its `<` on; `None` where it begins with none.
/// `has_end` says whether a `>` follows. What is scanned here is also taken out, so that the time is linear.
fn markup(text: &str, has_end: bool) -> Option<usize> {
    if let Some(comment) = text.strip_prefix("<!--") {
        let end = comment.find("-->").map_or(comment.len(), |end| end + 3);
        return Some("<!--".len() + end);
    }
    let name = text[1..].strip_prefix('/').unwrap_or(&text[1..]);
    let begins = |first: char| first.is_ascii_alphabetic() || first == '!' || first == '?';
    if !has_end || !name.starts_with(begins) {
        return None;
    }
    let end = text.find('>')? + 1;
    let is = |element: &&str| {
        let after = name.strip_prefix(element);
        after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    let silent = SILENT.iter().find(|element| is(element));
    let Some(element) = silent.filter(|_| !text.starts_with("</")) else {
        return Some(end);
    };
    let Some(close) = text[end..].find(&format!("</{element}")) else {
        return Some(text.len());
    };
    let close = end + close;
    Some(
        text[close..]
            .find('>')
            .map_or(text.len(), |at| close + at + 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_goes_and_text_stays() {
        for (text, plain) in [
            ("plain", "plain"),
            ("a < b and b > c", "a < b and b > c"),
            ("x<3", "x<3"),
            ("<b>bold</b> and <i class='x'>so</i>", "bold and so"),
            ("a<!-- hidden <b> -->b", "ab"),
            ("a<!-- open", "a"),
            ("<script>alert('<b>')</script>after", "after"),
            ("<STYLE type=x>p { }</STYLE >after", "after"),
            ("<script>never closed", ""),
            ("<scripture>kept</scripture>", "kept"),
            ("&lt;b&gt; &amp;lt;", " &lt;"),
            ("1 &lt; 2 &amp; 3 &gt; 2", "1 < 2 & 3 > 2"),
            ("&lt;script&gt;alert(1)&lt;/script&gt;so", "so"),
            (
                "<<x>img src=1 onerror=alert(1)>",
                "< img src=1 onerror=alert(1)>",
            ),
            ("</<x><y>b>", "</ b>"),
            ("<br/>漢<img src=x onerror=alert(1)>字", "漢字"),
            ("unfinished <b", "unfinished <b"),
            ("<", "<"),
        ] {
            assert_eq!(without_markup(text), plain, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_has_markup_afterwards(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "<", ">", "/", "!", "!--", "-->", "?", " ", "b", "script", "style", "&lt;", "&gt;", "&amp;", "lt;",
                    "</script>", "<!--", "=", "\"",
                ]),
                0..24,
            ),
        ) {
            let text = without_markup(&pieces.concat());
            let markup = regex::Regex::new("(?s)</?[a-zA-Z!?].*>|<!--");
            proptest::prop_assert!(markup.is_ok_and(|markup| !markup.is_match(&text)), "{text}");
        }
    }
}
