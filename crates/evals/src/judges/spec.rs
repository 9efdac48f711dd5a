//! Judges as a suite's file describes them.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A judge: one or several models that score answers by a rubric. Each verdict is a run of its own, so a recorded one
/// is not asked for again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct JudgeSpec {
    /// Its name; `judge` where it is left out.
    pub name: Option<String>,
    /// The description of a good answer: a text; or a file, where it is one word that ends in `.md` or `.txt`. A relative path
    /// starts from the suite's folder.
    pub rubric: String,
    /// The highest score, from 2 to 100; the lowest is 1.
    pub scale: u32,
    /// The share of the scale from which on an answer passes, above 0 and at most 1.
    pub pass: f64,
    /// The models that judge, by the team's names for them; the model of the root agent where there is none. The score
    /// is the mean over those whose verdict can be read.
    pub by: Vec<String>,
    /// Whether the judge sees the tool calls, too.
    pub calls: bool,
    /// A file with the verdicts of people, one JSON object a line: `score`, and `answer` with `input`, which the judge is
    /// then asked about; or the `run` that a person saw, or the `sample` (with `repeat`, and with `variant` unless it is the
    /// one that others are compared with).
    pub human: Option<PathBuf>,
    /// The agreement that the judge must show for its score to count for the success of cells: with people (Cohen's
    /// kappa, weighted by squares) where there are their verdicts, else among its models (Krippendorff's alpha) about the
    /// variant that others are compared with.
    pub agreement: Option<f64>,
}

impl Default for JudgeSpec {
    fn default() -> Self {
        Self {
            name: None,
            rubric: String::new(),
            scale: 5,
            pass: 0.7,
            by: Vec::new(),
            calls: false,
            human: None,
            agreement: None,
        }
    }
}

/// A judge of pairs: which of two variants' answers is better. It is asked in both orders, and a variant wins only where
/// both verdicts say so.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PairwiseSpec {
    /// Its name; `preferred` where it is left out.
    pub name: Option<String>,
    /// The mark of the better answer: a text; or a file, as in [`JudgeSpec::rubric`].
    pub rubric: String,
    /// The models that judge, as in [`JudgeSpec::by`].
    pub by: Vec<String>,
    /// Whether the judge sees the tool calls, too.
    pub calls: bool,
    /// Which variants are compared.
    pub pairs: Pairs,
}

/// Which variants a judge of pairs compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pairs {
    /// Each with that of the gate, or else the first one.
    #[default]
    Base,
    /// Each with each.
    All,
}

/// The longest rubric, in bytes.
const MAX_RUBRIC: u64 = 256 << 10;

/// The text of a rubric, which may be in a file of this folder.
pub(super) fn rubric(written: &str, folder: &Path) -> Result<String, String> {
    let written = written.trim();
    let is_file = !written.contains(char::is_whitespace)
        && (written.ends_with(".md") || written.ends_with(".txt"));
    let text = match is_file {
        true => bounded_text(&folder.join(written), MAX_RUBRIC)?,
        false => written.to_owned(),
    };
    match text.trim().is_empty() {
        true => Err(String::from(
            "`rubric` is empty: say what makes a good answer",
        )),
        false => Ok(text.trim().to_owned()),
    }
}

/// The text of a file of at most this many bytes.
pub(super) fn bounded_text(path: &Path, most: u64) -> Result<String, String> {
    let fault = |reason: String| format!("{}: {reason}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| fault(error.to_string()))?;
    if !metadata.is_file() {
        return Err(fault(String::from("is not a regular file")));
    }
    if metadata.len() > most {
        return Err(fault(format!("has more than {most} bytes")));
    }
    let mut text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    // Some programs write a mark of the byte order.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}
