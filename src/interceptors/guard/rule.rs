//! One rule of a guard, as pure code over a text.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

use super::html;
use crate::interceptors::GuardedPoint;

/// One rule of a [`Guard`](super::Guard): what it looks for or changes in a text, where, and what then happens.
///
/// `trim`, `normal_form` and `html` change a text before anything is looked for in it.
///
/// ```
/// use ghostlight::interceptors::{GuardRule, GuardedPoint, RuleAction, Severity};
///
/// let rule = GuardRule::new()
///     .at([GuardedPoint::Input, GuardedPoint::Results])
///     .pattern("ignore (all|previous) instructions")
///     .ignore_case()
///     .severity(Severity::High)
///     .action(RuleAction::Modify);
/// # let _ = rule;
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuardRule {
    name: Option<String>,
    at: Vec<GuardedPoint>,
    trim: bool,
    normal_form: Option<NormalForm>,
    html: Html,
    min: Option<usize>,
    max: Option<usize>,
    pattern: Option<String>,
    words: Vec<String>,
    ignore_case: bool,
    action: RuleAction,
    with: String,
    severity: Severity,
    #[serde(skip)]
    compiled: OnceLock<Result<Vec<Regex>, String>>,
}

/// The reaction where a rule finds something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RuleAction {
    /// The call is refused, or its result is held back.
    #[default]
    Block,
    /// The match is replaced; a text that is too long is cut.
    Modify,
    /// The text passes, and the finding is told.
    Warn,
    /// The text passes silently: for a rule that only changes texts.
    Allow,
}

/// How serious a finding is, for those who read decisions. It changes nothing.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// It may be looked at some time.
    Low,
    /// It should be looked at.
    #[default]
    Medium,
    /// It should be looked at today.
    High,
    /// Somebody should be woken.
    Critical,
}

/// A normal form of Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NormalForm {
    /// Composed: an accent and its letter are one character.
    Nfc,
    /// Composed, and characters that look alike, such as full-width letters, become one.
    Nfkc,
}

/// The treatment of the markup in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Html {
    /// It stays.
    #[default]
    Keep,
    /// It is taken out, with scripts, styles and comments; the text in it stays.
    Remove,
}

impl Default for GuardRule {
    fn default() -> Self {
        Self {
            name: None,
            at: vec![GuardedPoint::Input],
            trim: false,
            normal_form: None,
            html: Html::Keep,
            min: None,
            max: None,
            pattern: None,
            words: Vec::new(),
            ignore_case: false,
            action: RuleAction::Block,
            with: "[removed]".to_owned(),
            severity: Severity::Medium,
            compiled: OnceLock::new(),
        }
    }
}

/// The result of a rule on a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Applied {
    /// The text afterwards; `None` where it is as before.
    pub(super) text: Option<String>,
    /// The matches; `None` for nothing.
    pub(super) found: Option<String>,
}

impl GuardRule {
    /// A rule for input that looks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name that decisions have; its number otherwise.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets where it stands.
    #[must_use]
    pub fn at(mut self, points: impl IntoIterator<Item = GuardedPoint>) -> Self {
        self.at = points.into_iter().collect();
        self
    }

    /// Takes spaces off both ends.
    #[must_use]
    pub fn trim(mut self) -> Self {
        self.trim = true;
        self
    }

    /// Writes the text in this normal form.
    #[must_use]
    pub fn normal_form(mut self, form: NormalForm) -> Self {
        self.normal_form = Some(form);
        self
    }

    /// Takes markup out.
    #[must_use]
    pub fn without_html(mut self) -> Self {
        self.html = Html::Remove;
        self
    }

    /// Finds texts of people and answers with fewer characters.
    #[must_use]
    pub fn min(mut self, characters: usize) -> Self {
        self.min = Some(characters);
        self
    }

    /// Finds texts with more characters.
    #[must_use]
    pub fn max(mut self, characters: usize) -> Self {
        self.max = Some(characters);
        self
    }

    /// Finds what matches this regular expression. An invalid one blocks everything.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Finds these words, whatever the case of their letters.
    #[must_use]
    pub fn words<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// Lets the pattern fit whatever the case of the letters.
    #[must_use]
    pub fn ignore_case(mut self) -> Self {
        self.ignore_case = true;
        self
    }

    /// Sets what happens where it finds something.
    #[must_use]
    pub fn action(mut self, action: RuleAction) -> Self {
        self.action = action;
        self
    }

    /// Sets what stands instead of a finding that is replaced.
    #[must_use]
    pub fn replace_with(mut self, text: impl Into<String>) -> Self {
        self.with = text.into();
        self
    }

    /// Sets how serious a finding is.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Refuses a rule that does nothing, or cannot do what it says.
    pub(super) fn check(&self) -> Result<(), String> {
        self.compiled()?;
        let changes = self.trim || self.normal_form.is_some() || self.html == Html::Remove;
        let finds = self.min.is_some()
            || self.max.is_some()
            || self.pattern.is_some()
            || !self.words.is_empty();
        if !changes && !finds {
            return Err(
                "it has nothing to do: give `min`, `max`, `pattern`, `words`, `trim`, \
                        `normal_form` or `html`"
                    .to_owned(),
            );
        }
        if self.action == RuleAction::Modify && self.min.is_some() {
            return Err(
                "a text that is too short cannot be modified: use `block` or `warn` for `min`"
                    .to_owned(),
            );
        }
        match self.at.is_empty() {
            true => Err("`at` must name at least one point".to_owned()),
            false => Ok(()),
        }
    }

    pub(super) fn stands_at(&self, point: GuardedPoint) -> bool {
        self.at.contains(&point)
    }

    pub(super) fn what_happens(&self) -> (RuleAction, Severity) {
        (self.action, self.severity)
    }

    pub(super) fn label(&self, place: usize) -> String {
        let name = self.name.clone();
        name.unwrap_or_else(|| format!("rule {}", place + 1))
    }

    fn compiled(&self) -> Result<&[Regex], String> {
        let compiled = self.compiled.get_or_init(|| {
            let build = |pattern: &str, ignore_case| {
                let built = RegexBuilder::new(pattern)
                    .case_insensitive(ignore_case)
                    .build();
                built.map_err(|error| format!("`pattern` cannot be read: {error}"))
            };
            let mut all = Vec::new();
            if let Some(pattern) = &self.pattern {
                all.push(build(pattern, self.ignore_case)?);
            }
            if !self.words.is_empty() {
                let words: Vec<String> =
                    self.words.iter().map(|word| regex::escape(word)).collect();
                all.push(build(&format!(r"\b(?:{})\b", words.join("|")), true)?);
            }
            Ok(all)
        });
        compiled.as_deref().map_err(Clone::clone)
    }

    /// Changes a text, looks into it, and says what was found. `may_be_short` is for texts that nobody wrote to be read,
    /// such as results.
    pub(super) fn apply(&self, text: &str, may_be_short: bool) -> Applied {
        let changed = self.changed(text);
        let now = changed.as_deref().unwrap_or(text);
        let (found, mended) = self.find(now, may_be_short);
        Applied {
            text: mended.or(changed),
            found,
        }
    }

    fn changed(&self, text: &str) -> Option<String> {
        let in_form = |text: &str| match self.normal_form {
            Some(NormalForm::Nfc) => text.nfc().collect(),
            Some(NormalForm::Nfkc) => text.nfkc().collect(),
            None => text.to_owned(),
        };
        let mut changed = in_form(text);
        if self.html == Html::Remove {
            // The normal form shows all markup. A letter and an accent may meet where some is taken out.
            changed = in_form(&html::without_markup(&changed));
        }
        if self.trim {
            changed = changed.trim().to_owned();
        }
        (changed != text).then_some(changed)
    }

    /// The matches in a text, and the text without them where the rule replaces them.
    fn find(&self, text: &str, may_be_short: bool) -> (Option<String>, Option<String>) {
        let count = text.chars().count();
        if let Some(min) = self.min.filter(|min| count < *min && !may_be_short) {
            return (Some(format!("fewer than {min} characters")), None);
        }
        let modifies = self.action == RuleAction::Modify;
        let (mut found, mut mended) = (None, None);
        if let Some(max) = self.max.filter(|max| count > *max) {
            found = Some(format!("more than {max} characters"));
            if modifies {
                mended = Some(text.chars().take(max).collect::<String>());
            }
        }
        let patterns = match self.compiled() {
            Ok(patterns) => patterns,
            Err(fault) => return (Some(fault), None),
        };
        for pattern in patterns {
            let now = mended.as_deref().unwrap_or(text);
            if !pattern.is_match(now) {
                continue;
            }
            let what = "the text matches".to_owned();
            let without = modifies.then(|| {
                let with = regex::NoExpand(&self.with);
                pattern.replace_all(now, with).into_owned()
            });
            found.get_or_insert(what);
            mended = without.or(mended);
        }
        (found, mended)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_finds_lengths_patterns_and_words_and_changes_what_it_is_told_to() {
        let applied = |rule: GuardRule, text: &str| {
            rule.check().unwrap();
            let applied = rule.apply(text, false);
            (applied.found.is_some(), applied.text)
        };
        let cut = || GuardRule::new().max(3).action(RuleAction::Modify);
        let word = || GuardRule::new().words(["secret", "top secret"]);
        for (rule, text, found, after) in [
            (GuardRule::new().min(3), "ab", true, None),
            (GuardRule::new().min(2), "äö", false, None),
            (GuardRule::new().max(2), "äöü", true, None),
            (cut(), "漢字漢字", true, Some("漢字漢")),
            (GuardRule::new().pattern("a+b"), "xaab", true, None),
            (GuardRule::new().pattern("a+b"), "xAAB", false, None),
            (
                GuardRule::new().pattern("a+b").ignore_case(),
                "xAAB",
                true,
                None,
            ),
            (word(), "a SECRET thing", true, None),
            (word(), "secretary", false, None),
            (
                word().action(RuleAction::Modify).replace_with("$0"),
                "my secret",
                true,
                Some("my $0"),
            ),
            (GuardRule::new().trim(), "  a b\n", false, Some("a b")),
            (
                GuardRule::new().normal_form(NormalForm::Nfc).max(1),
                "e\u{301}",
                false,
                Some("é"),
            ),
            (
                GuardRule::new()
                    .normal_form(NormalForm::Nfkc)
                    .words(["pass"]),
                "ｐａｓｓ",
                true,
                Some("pass"),
            ),
            (
                GuardRule::new().without_html().pattern("<"),
                "<b>bold</b>",
                false,
                Some("bold"),
            ),
            (
                GuardRule::new()
                    .without_html()
                    .normal_form(NormalForm::Nfkc),
                "＜script＞alert(1)＜/script＞e<i>\u{301}",
                false,
                Some("é"),
            ),
        ] {
            let told = format!("{rule:?} {text}");
            assert_eq!(
                applied(rule, text),
                (found, after.map(str::to_owned)),
                "{told}"
            );
        }
        assert!(GuardRule::new().min(3).apply("", true).found.is_none());
    }

    #[test]
    fn a_rule_that_cannot_work_is_refused() {
        for rule in [
            GuardRule::new(),
            GuardRule::new().pattern("("),
            GuardRule::new().min(1).action(RuleAction::Modify),
            GuardRule::new().max(1).at([]),
        ] {
            rule.check().unwrap_err();
        }
        let broken = GuardRule::new().pattern("(").apply("anything", false);
        assert!(broken.found.is_some(), "it blocks everything");
    }
}
