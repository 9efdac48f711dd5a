//! A site's rules for robots (RFC 9309).

/// The name of these tools in `robots.txt`.
pub(super) const AGENT: &str = "ghostlight";
/// How many rules of one site are kept.
const RULES: usize = 2_000;

/// The rules of one site for these tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Robots {
    /// Patterns for paths, each with whether it allows them.
    rules: Vec<(String, bool)>,
}

impl Robots {
    /// Reads a `robots.txt`.
    pub(super) fn parse(text: &str) -> Self {
        let (mut own, mut all) = (None::<Self>, Self::default());
        // Whether the following rules apply to these tools, and whether they apply to all.
        let (mut for_own, mut for_all, mut naming) = (false, false, false);
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            if key == "user-agent" {
                if !naming {
                    (for_own, for_all) = (false, false);
                }
                naming = true;
                for_own |= value.eq_ignore_ascii_case(AGENT);
                for_all |= value == "*";
                if for_own && own.is_none() {
                    own = Some(Self::default());
                }
                continue;
            }
            naming = false;
            let allows = match key.as_str() {
                "allow" => true,
                "disallow" => false,
                _ => continue,
            };
            let of_own = own.as_mut().filter(|_| for_own);
            for rules in of_own.into_iter().chain(for_all.then_some(&mut all)) {
                if !value.is_empty() && rules.rules.len() < RULES && value.len() <= 2_048 {
                    rules.rules.push((value.to_owned(), allows));
                }
            }
        }
        own.unwrap_or(all)
    }

    /// Whether a path, with its query, may be fetched: the longest matching pattern decides.
    pub(super) fn allows(&self, path: &str) -> bool {
        let fitting = self.rules.iter().filter(|(pattern, _)| fits(pattern, path));
        let longest = fitting.max_by_key(|(pattern, allows)| (pattern.len(), *allows));
        longest.is_none_or(|(_, allows)| *allows)
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    let pattern = match pattern.strip_suffix('$') {
        Some(whole) => whole.to_owned(),
        None => format!("{pattern}*"),
    };
    ghostlight_actors::vocabulary::ToolFilter::names([pattern]).takes(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_of_the_nearest_group_counts() {
        let text = "User-agent: *\nDisallow: /\n\nUser-agent: other\nUser-agent: Ghostlight # us\nAllow: /a\nDisallow: /a/b\nDisallow: /*.pdf$\nAllow: /a/b/c";
        let robots = Robots::parse(text);
        for (path, allowed) in [
            ("/", true),
            ("/a", true),
            ("/a/b", false),
            ("/a/b/c/d", true),
            ("/x.pdf", false),
            ("/x.pdf?y", true),
        ] {
            assert_eq!(robots.allows(path), allowed, "{path}");
        }
        assert!(!Robots::parse("user-agent:*\ndisallow: /x").allows("/x/y"));
        assert!(Robots::parse("nonsense").allows("/x"));
        assert!(Robots::parse("User-agent: *\nDisallow:").allows("/x"));
    }
}
