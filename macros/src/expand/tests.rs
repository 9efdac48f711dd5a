#![allow(clippy::unwrap_used)]

use super::tool;

/// The compiler's error for `#[tool(settings)] function`, and the piece of code at which it points.
fn refusal(settings: &str, function: &str) -> (String, String) {
    let result = tool(settings.parse().unwrap(), function.parse().unwrap());
    let error = result.unwrap_err();
    (
        error.to_string(),
        error.span().source_text().unwrap_or_default(),
    )
}

#[test]
fn each_mistake_is_named_with_its_remedy_where_it_is_made() {
    let documented = |signature: &str| format!("/// Does it.\n{signature} {{}}");
    let none = || documented("fn f()");
    let cases = [
        ("", "fn f() {}".to_owned(), "write a doc comment", "f"),
        ("", "/// \nfn f() {}".to_owned(), "write a doc comment", "f"),
        ("", documented("fn f(&self)"), "tool_fn", "&self"),
        ("", documented("fn f(x: &str)"), "take `String`", "&str"),
        (
            "",
            documented("fn f(x: impl Copy)"),
            "concrete type",
            "impl Copy",
        ),
        (
            "",
            documented("fn f((a, b): (u8, u8))"),
            "plain name",
            "(a, b)",
        ),
        (
            "",
            documented("fn f<T>(x: T)"),
            "no generic parameters",
            "T",
        ),
        ("", documented("unsafe fn f()"), "a safe function", "unsafe"),
        (
            "",
            documented("fn f(#[foo] x: u8)"),
            "takes doc comments",
            "#[foo]",
        ),
        (
            "",
            documented("fn f(#[default] #[default(1)] x: u8)"),
            "already",
            "#[default(1)]",
        ),
        (
            "",
            documented("fn f(a: ToolContext, b: &ToolContext)"),
            "one `ToolContext`",
            "b: &ToolContext",
        ),
        (
            "",
            documented("fn f(#[default] a: ToolContext)"),
            "not an argument",
            "#[default]",
        ),
        (
            "",
            "/// A struct.\nstruct S;".to_owned(),
            "stands on a function",
            "struct",
        ),
        (
            "effect = \"write\"",
            none(),
            "\"read\", \"idempotent\", \"once\"",
            "\"write\"",
        ),
        (
            "efect = \"read\"",
            none(),
            "unknown setting `efect`",
            "efect",
        ),
        (
            "effect = \"read\", effect = \"read\"",
            none(),
            "twice",
            "effect",
        ),
        (
            "in_doubt = \"fail\", effect = \"read\"",
            none(),
            "`once` tools alone",
            "\"fail\"",
        ),
        (
            "reconcile = g, effect = \"read\"",
            none(),
            "`once` tools alone",
            "g",
        ),
        ("timeout = \"30\"", none(), "\"30s\"", "\"30\""),
        ("timeout = \"0s\"", none(), "\"30s\"", "\"0s\""),
        ("timeout_ms = 5", none(), "there are: name", "timeout_ms"),
        ("concurrency = 0", none(), "at least 1", "0"),
        ("name = \"a b\"", none(), "1 to 64", "\"a b\""),
        (
            "approval = \"Delete {pth}?\"",
            documented("fn f(path: String)"),
            "{path}",
            "\"Delete {pth}?\"",
        ),
    ];
    for (settings, function, message, place) in cases {
        let (said, at) = refusal(settings, &function);
        assert!(said.contains(message), "{settings} {function}: {said}");
        assert_eq!(at, place, "{settings} {function}: {said}");
    }
}
