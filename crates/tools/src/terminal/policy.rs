//! The rules for commands and their arguments.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

/// The most arguments of a command, and the most bytes of all of them.
const ARGUMENTS: usize = 512;
const ARGUMENT_BYTES: usize = 96 << 10;

/// The rule for one command.
///
/// In a team file it is `true`, `false`, `ask`, or patterns for the arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected true, false, `ask`, or a mapping with `allow`, `ask` and `deny`"
)]
#[non_exhaustive]
pub enum CommandRule {
    /// Whether it may run.
    Allowed(bool),
    /// It may run if a person approves.
    Word(Ask),
    /// Its arguments decide.
    Arguments(ArgumentRule),
}

/// The word `ask`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ask {
    /// It may run if a person approves.
    Ask,
}

/// The arguments that a command may have.
///
/// A pattern of `allow` and `ask` is a list of words as on a command line, such as `log *`. Each word matches one
/// argument, a `*` within a word matches any text, and a last word `*` matches any further arguments. A pattern of
/// `deny` is one word, which no argument may match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ArgumentRule {
    /// The arguments that may run.
    pub allow: Vec<String>,
    /// The arguments that may run if a person approves.
    pub ask: Vec<String>,
    /// The words that no argument may match.
    pub deny: Vec<String>,
    /// Whether unsafe options may be given, too: those known to run other programs or to write files elsewhere.
    pub unsafe_options: bool,
}

/// The verdict on a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// It may run if a person approves.
    Asks,
    Refused(String),
}

/// Options of well-known commands that run other programs, load code or write to a given place: long options as a
/// whole, short options as a dash and a letter, and plain words.
const UNSAFE: &[(&str, &[&str])] = &[
    ("awk", &["-f", "-i", "-l", "--file", "--include", "--load"]),
    (
        "curl",
        &[
            "-o",
            "-O",
            "-K",
            "-T",
            "--output",
            "--remote-name",
            "--config",
            "--upload-file",
        ],
    ),
    (
        "find",
        &[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf",
            "-fls",
        ],
    ),
    (
        "git",
        &[
            "-c",
            "-C",
            "-O",
            "--config-env",
            "--exec-path",
            "--exec",
            "--ext-diff",
            "--git-dir",
            "--namespace",
            "--open-files-in-pager",
            "--output",
            "--receive-pack",
            "--super-prefix",
            "--textconv",
            "--upload-archive",
            "--upload-pack",
            "--work-tree",
        ],
    ),
    ("rg", &["--pre", "--hostname-bin", "--search-zip"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("sed", &["-i", "-f", "--in-place", "--file"]),
    (
        "sort",
        &[
            "-o",
            "-T",
            "-S",
            "--output",
            "--compress-program",
            "--temporary-directory",
            "--files0-from",
        ],
    ),
    (
        "tar",
        &[
            "-I",
            "-F",
            "-P",
            "-C",
            "--use-compress-program",
            "--to-command",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
            "--absolute-names",
            "--directory",
        ],
    ),
    ("wc", &["--files0-from"]),
    ("xargs", &["-a", "--arg-file"]),
    ("zip", &["-TT", "--unzip-command", "-T"]),
];

/// Commands whose short options have more than one letter.
const LONG_DASHED: [&str; 2] = ["find", "zip"];

/// Judges a command with its arguments.
pub(super) fn judge(
    rules: &BTreeMap<String, CommandRule>,
    command: &str,
    arguments: &[String],
    root: &Path,
    open: &[std::path::PathBuf],
) -> Verdict {
    let refused = |why: String| Verdict::Refused(why);
    let Some(rule) = rules.get(command) else {
        let known: Vec<&str> = rules.keys().map(String::as_str).collect();
        return refused(format!(
            "{command:?} may not be run; what may be is: {}",
            known.join(", ")
        ));
    };
    let bytes: usize = arguments.iter().map(String::len).sum();
    if arguments.len() > ARGUMENTS || bytes > ARGUMENT_BYTES {
        return refused("it has too many arguments".to_owned());
    }
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return refused("an argument holds a null byte".to_owned());
    }
    for argument in arguments {
        if let Some(why) = leads_out(argument, root, open) {
            return refused(format!("the argument {argument:?} {why}"));
        }
    }
    let plain = ArgumentRule {
        allow: vec!["*".to_owned()],
        ..ArgumentRule::default()
    };
    let asking = ArgumentRule {
        ask: vec!["*".to_owned()],
        ..ArgumentRule::default()
    };
    let rule = match rule {
        CommandRule::Allowed(false) => return refused(format!("{command:?} may not be run")),
        CommandRule::Allowed(true) => &plain,
        CommandRule::Word(Ask::Ask) => &asking,
        CommandRule::Arguments(rule) => rule,
    };
    for argument in arguments {
        let denied = |pattern: &&String| fits(pattern, argument);
        if let Some(pattern) = rule.deny.iter().find(denied) {
            return refused(format!(
                "the argument {argument:?} fits {pattern:?}, which is not allowed"
            ));
        }
        if !rule.unsafe_options
            && let Some(option) = unsafe_option(command, argument)
        {
            return refused(format!(
                "the option {option} of {command} is not allowed: it runs or writes something else"
            ));
        }
    }
    if rule
        .allow
        .iter()
        .any(|pattern| fits_all(pattern, arguments))
    {
        return Verdict::Allowed;
    }
    if rule.ask.iter().any(|pattern| fits_all(pattern, arguments)) {
        return Verdict::Asks;
    }
    let allowed: Vec<String> = rule
        .allow
        .iter()
        .chain(&rule.ask)
        .map(|pattern| format!("`{command} {pattern}`"))
        .collect();
    refused(format!(
        "{command} may not be run with these arguments; what may be run is {}",
        allowed.join(", ")
    ))
}

/// The unsafe option in an argument, if any: also abbreviated, with a value, or in a cluster of letters.
fn unsafe_option(command: &str, argument: &str) -> Option<&'static str> {
    let name = command.rsplit('/').next().unwrap_or(command);
    let (_, options) = UNSAFE.iter().find(|(known, _)| *known == name)?;
    let (given, _) = argument.split_once('=').unwrap_or((argument, ""));
    options.iter().copied().find(|option| {
        if let Some(long) = option.strip_prefix("--") {
            let given = given.strip_prefix("--").unwrap_or_default();
            return !given.is_empty() && long.starts_with(given);
        }
        if LONG_DASHED.contains(&name) {
            return given == *option;
        }
        let letter = option.trim_start_matches('-');
        let cluster = given
            .strip_prefix('-')
            .filter(|rest| !rest.starts_with('-'));
        cluster.is_some_and(|cluster| cluster.contains(letter))
    })
}

/// The reason why an argument names something outside of the folder, if it does. Checks the whole argument, the parts
/// behind `=`, `:` or `,`, and the part behind an option's letter.
fn leads_out(argument: &str, root: &Path, open: &[std::path::PathBuf]) -> Option<&'static str> {
    let parts = argument.split(['=', ':', ',', '\n', ' ', '\t']);
    for part in parts {
        if part.split(['/', '\\']).any(|name| name == "..") {
            return Some("leads out of the folder");
        }
        let dashed = part
            .strip_prefix('-')
            .map(|rest| rest.trim_start_matches(|c: char| c == '-' || c.is_ascii_alphabetic()));
        for path in [Some(part), dashed].into_iter().flatten() {
            let path = path.trim_start_matches(['@', '"', '\'', '<', '>', '+']);
            let inside = |folder: &Path| Path::new(path).starts_with(folder);
            // A sed script such as `/x/d` is not a path, but it cannot be told from one.
            if path.starts_with('/') && !inside(root) && !open.iter().any(|folder| inside(folder)) {
                return Some("is, or holds, a path outside of the folder");
            }
            if path == "~" || path.starts_with("~/") {
                return Some("names a home folder");
            }
        }
    }
    None
}

/// Whether the arguments match a pattern of words.
fn fits_all(pattern: &str, arguments: &[String]) -> bool {
    let words: Vec<&str> = pattern.split_whitespace().collect();
    let (words, further) = match words.split_last() {
        Some((&"*", before)) => (before, true),
        _ => (&words[..], false),
    };
    let enough = if further {
        arguments.len() >= words.len()
    } else {
        arguments.len() == words.len()
    };
    enough
        && words
            .iter()
            .zip(arguments)
            .all(|(word, argument)| fits(word, argument))
}

/// Whether a text matches a word in which `*` stands for any text.
fn fits(word: &str, text: &str) -> bool {
    ghostlight_actors::vocabulary::ToolFilter::names([word]).takes(text)
}
