//! Names that a cargo feature of this package brings, for programs that were built without it.

/// A capability, its name in a team file, and the cargo feature that registers it.
const BROUGHT: [(&str, &str, &str); 22] = [
    ("behavior", "code", "code"),
    ("behavior", "remote", "a2a"),
    ("behavior", "remote_process", "acp"),
    ("kind of tool", "a2a", "a2a"),
    ("kind of tool", "acp", "acp"),
    ("kind of tool", "anp_presence", "anp"),
    ("kind of tool", "anp_registry", "anp"),
    ("kind of tool", "approval_webhook", "http"),
    ("kind of tool", "document_editor", "documents"),
    ("kind of tool", "document_search", "documents"),
    ("kind of tool", "files", "tools"),
    ("kind of tool", "mcp", "mcp"),
    ("kind of tool", "openapi", "tools"),
    ("kind of tool", "skills", "tools"),
    ("kind of tool", "terminal", "tools"),
    ("kind of tool", "web", "tools"),
    ("policy", "memory", "memory"),
    ("policy", "recall_documents", "documents"),
    ("provider", "anthropic", "anthropic"),
    ("provider", "bedrock", "bedrock"),
    ("provider", "gemini", "gemini"),
    ("provider", "openai", "openai"),
];

/// The features of `BROUGHT`, and whether this program was built with them.
const BUILT: [(&str, bool); 13] = [
    ("a2a", cfg!(feature = "a2a")),
    ("acp", cfg!(feature = "acp")),
    ("anp", cfg!(feature = "anp")),
    ("anthropic", cfg!(feature = "anthropic")),
    ("bedrock", cfg!(feature = "bedrock")),
    ("code", cfg!(feature = "code")),
    ("documents", cfg!(feature = "documents")),
    ("gemini", cfg!(feature = "gemini")),
    ("http", cfg!(feature = "http")),
    ("mcp", cfg!(feature = "mcp")),
    ("memory", cfg!(feature = "memory")),
    ("openai", cfg!(feature = "openai")),
    ("tools", cfg!(feature = "tools")),
];

/// Names that were replaced: the capability, the old name and the new one.
const RENAMED: [(&str, &str, &str); 1] = [("kind of tool", "docs_search", "document_search")];

/// The name that has replaced this one.
pub(super) fn renamed(what: &str, name: &str) -> Option<&'static str> {
    let renamed = RENAMED
        .iter()
        .find(|(of, old, _)| (*of, *old) == (what, name));
    renamed.map(|(_, _, new)| *new)
}

/// Whether this program was built with a feature.
pub(super) fn is_built(feature: &str) -> bool {
    BUILT.contains(&(feature, true))
}

/// The feature that brings a name, if the program was built without it.
pub(super) fn missing(
    what: &str,
    name: &str,
    is_built: impl Fn(&str) -> bool,
) -> Option<&'static str> {
    let brought = BROUGHT
        .iter()
        .find(|(of, known, _)| (*of, *known) == (what, name));
    brought
        .map(|(_, _, feature)| *feature)
        .filter(|feature| !is_built(feature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    #[test]
    fn a_feature_that_is_not_built_is_named_and_one_that_is_built_is_not() {
        assert_eq!(missing("kind of tool", "files", |_| false), Some("tools"));
        assert_eq!(missing("kind of tool", "files", |_| true), None);
        assert_eq!(missing("provider", "files", |_| false), None);
    }

    #[test]
    fn a_name_that_was_replaced_names_one_that_exists() {
        for (what, old, new) in RENAMED {
            let stands = |name| {
                BROUGHT
                    .iter()
                    .any(|(of, known, _)| (*of, *known) == (what, name))
            };
            assert!(stands(new) && !stands(old), "{what} {old}");
        }
    }

    /// Each name is there exactly if its feature is.
    #[cfg(unix)]
    #[test]
    fn features_bring_the_names_that_are_told_of_them() {
        let registry = builtin();
        for (what, name, feature) in BROUGHT {
            let names = match what {
                "behavior" => registry.behavior_names(),
                "policy" => registry.policy_names(),
                "provider" => registry.provider_names(),
                _ => [registry.tool_kind_names(), registry.toolset_kind_names()].concat(),
            };
            assert_eq!(names.contains(&name), is_built(feature), "{what} {name}");
        }
    }
}
