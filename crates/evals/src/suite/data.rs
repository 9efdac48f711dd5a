//! The samples of a suite: written in it, in files of one JSON object a line, or in the forms of benchmarks.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{RunsSpec, Sample, forms};

/// Where samples come from. A relative path starts from the suite's folder.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DataSpec {
    /// A file with one JSON object a line.
    File(PathBuf),
    /// Samples in the suite itself.
    Inline(Vec<Sample>),
    /// A file in GSM8K's form: the expected answer is the number after `####`.
    Gsm8k(PathBuf),
    /// A file of BFCL's questions, with the answers in the folder `possible_answer` beside it.
    Bfcl(PathBuf),
    /// GAIA's `metadata.jsonl`, with its files beside it.
    Gaia(PathBuf),
    /// tau2's `tasks.json`: the customer is one message.
    Tau2(PathBuf),
    /// Recorded runs of a store.
    Runs(RunsSpec),
}

/// The samples of a suite, and the lines that hold none.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Samples {
    /// The samples, in their order.
    pub samples: Vec<Sample>,
    /// The places that could not be read, which were left out; the first [`MAX_TOLD`](Self::MAX_TOLD) of them.
    pub left_out: Vec<DataFault>,
    /// How many more were left out.
    pub more_left_out: u64,
}

impl Samples {
    /// How many places that could not be read are told one by one.
    pub const MAX_TOLD: usize = 1_000;
}

/// Which samples are read. Those that are not wanted are not kept, so that a file may be larger than the memory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Wanted {
    /// Only samples whose id contains this text.
    pub only: String,
    /// At most this many; then nothing more is read.
    pub limit: Option<usize>,
    /// Whether the first place that cannot be read is an error.
    pub strict: bool,
}

impl Wanted {
    /// All samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only samples whose id contains this text.
    #[must_use]
    pub fn only(mut self, text: impl Into<String>) -> Self {
        self.only = text.into();
        self
    }

    /// At most this many samples.
    #[must_use]
    pub fn limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    /// Whether the first place that cannot be read is an error.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}

/// A sample that cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{place}: {reason}")]
#[non_exhaustive]
pub struct DataFault {
    /// The file and the line, or the place in the suite.
    pub place: String,
    /// The fault.
    pub reason: String,
}

impl DataFault {
    pub(super) fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            reason: reason.into(),
        }
    }
}

/// The longest line that is read, and the longest one that is passed over, in bytes.
const MAX_LINE: u64 = 16 << 20;
const MAX_PASSED_OVER: u64 = 4 << 30;
/// The largest file that is read whole, in bytes.
const MAX_WHOLE: u64 = 256 << 20;
/// The most samples of one suite.
const MAX_SAMPLES: usize = 1_000_000;

/// Reads the samples of a suite in this folder. A line that cannot be read is left out and named; the others stay.
///
/// # Errors
/// As [`load_wanted`].
pub fn load(data: &[DataSpec], folder: &Path) -> Result<Samples, DataFault> {
    load_wanted(data, folder, &Wanted::new())
}

/// Reads the samples of a suite in this folder that are wanted. Files of lines are read line by line.
///
/// # Errors
/// A file that cannot be read at all, an id that two samples have, recorded runs, which
/// [`of_runs`](super::of_runs) makes samples of; and where it is strict, the first line that cannot be read.
pub fn load_wanted(
    data: &[DataSpec],
    folder: &Path,
    wanted: &Wanted,
) -> Result<Samples, DataFault> {
    let mut loading = Loading {
        wanted,
        found: Samples::default(),
        places: HashMap::new(),
    };
    for source in data {
        loading.source(source, folder)?;
    }
    Ok(loading.found)
}

struct Loading<'a> {
    wanted: &'a Wanted,
    found: Samples,
    /// The place of each id.
    places: HashMap<String, String>,
}

impl Loading<'_> {
    fn source(&mut self, source: &DataSpec, folder: &Path) -> Result<(), DataFault> {
        match source {
            DataSpec::File(path) => self.read(&folder.join(path), Ok::<Sample, String>),
            DataSpec::Gsm8k(path) => self.read(&folder.join(path), |fields: Map<String, Value>| {
                forms::gsm8k(&fields)
            }),
            DataSpec::Gaia(path) => {
                let path = folder.join(path);
                let beside = path.parent().unwrap_or(Path::new("")).to_owned();
                self.read(&path, |fields: Map<String, Value>| {
                    forms::gaia(&fields, &beside)
                })
            }
            DataSpec::Bfcl(path) => {
                let path = folder.join(path);
                let answers = answers(&path)?;
                self.read(&path, |fields: Map<String, Value>| {
                    forms::bfcl(&fields, &answers)
                })
            }
            DataSpec::Tau2(path) => self.tau2(&folder.join(path)),
            DataSpec::Inline(samples) => {
                for (index, sample) in samples.iter().enumerate() {
                    let place = format!("inline sample {}", index + 1);
                    self.add(sample.clone(), place, format!("inline-{}", index + 1))?;
                }
                Ok(())
            }
            DataSpec::Runs(_) => Err(DataFault::new(
                "runs",
                "recorded runs are in a store, and not in a file: make samples of them first",
            )),
        }
    }

    /// Reads a file of lines, each of which holds a value that is made a sample.
    fn read<T: DeserializeOwned>(
        &mut self,
        path: &Path,
        sample: impl Fn(T) -> Result<Sample, String>,
    ) -> Result<(), DataFault> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut lines = Lines::open(path)?;
        while !self.is_full() {
            let Some((line, text)) = lines.next()? else {
                break;
            };
            let place = format!("{}:{line}", path.display());
            // The line is in the place, and it is the first one of this text.
            let read = |text| {
                serde_json::from_slice::<T>(text).map_err(|error| {
                    error
                        .to_string()
                        .replace(" at line 1 column ", " at column ")
                })
            };
            match text.and_then(read).and_then(&sample) {
                Ok(sample) => self.add(sample, place, format!("{stem}-{line}"))?,
                Err(reason) => self.leave_out(place, reason)?,
            }
        }
        Ok(())
    }

    fn tau2(&mut self, path: &Path) -> Result<(), DataFault> {
        let place = path.display().to_string();
        let whole = |error: std::io::Error| DataFault::new(&place, error.to_string());
        let mut text = String::new();
        let file = File::open(path).map_err(whole)?;
        let read = file.take(MAX_WHOLE + 1).read_to_string(&mut text);
        if read.map_err(whole)? as u64 > MAX_WHOLE {
            let reason = format!("the file has more than {MAX_WHOLE} bytes: divide it");
            return Err(DataFault::new(place, reason));
        }
        let tasks: Vec<Map<String, Value>> = serde_json::from_str(&text)
            .map_err(|error| DataFault::new(&place, format!("no list of tasks: {error}")))?;
        for (index, task) in tasks.iter().enumerate() {
            let place = format!("{place}, task {}", index + 1);
            match forms::tau2(task) {
                Ok(sample) => self.add(sample, place, format!("task-{}", index + 1))?,
                Err(reason) => self.leave_out(place, reason)?,
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let limit = self.wanted.limit;
        limit.is_some_and(|limit| self.found.samples.len() >= limit)
    }

    fn leave_out(&mut self, place: String, reason: String) -> Result<(), DataFault> {
        let fault = DataFault::new(place, reason);
        if self.wanted.strict {
            return Err(fault);
        }
        match self.found.left_out.len() < Samples::MAX_TOLD {
            true => self.found.left_out.push(fault),
            false => self.found.more_left_out += 1,
        }
        Ok(())
    }

    fn add(&mut self, mut sample: Sample, place: String, id: String) -> Result<(), DataFault> {
        if let Some(reason) = sample.fault() {
            return self.leave_out(place, reason.to_owned());
        }
        if sample.id.is_empty() {
            sample.id = id;
        }
        if self.is_full() || !sample.id.contains(&self.wanted.only) {
            return Ok(());
        }
        if self.found.samples.len() == MAX_SAMPLES {
            let reason =
                format!("there are more than {MAX_SAMPLES} samples: divide the evaluation");
            return Err(DataFault::new(place, reason));
        }
        if let Some(first) = self.places.insert(sample.id.clone(), place.clone()) {
            let reason = format!(
                "the id {:?} is that of the sample at {first} too",
                sample.id
            );
            return Err(DataFault::new(place, reason));
        }
        self.found.samples.push(sample);
        Ok(())
    }
}

/// A line with its number, from 1; the reason where it is too long to be read.
type Line<'l> = (u64, Result<&'l [u8], String>);

/// The lines of a file that hold something, one at a time.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    bytes: Vec<u8>,
    line: u64,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Self, DataFault> {
        let file = File::open(path);
        let file =
            file.map_err(|error| DataFault::new(path.display().to_string(), error.to_string()))?;
        Ok(Self {
            path,
            reader: BufReader::new(file),
            bytes: Vec::new(),
            line: 0,
        })
    }

    /// The next line.
    fn next(&mut self) -> Result<Option<Line<'_>>, DataFault> {
        loop {
            self.bytes.clear();
            self.line += 1;
            let place = || format!("{}:{}", self.path.display(), self.line);
            let read = (&mut self.reader)
                .take(MAX_LINE + 1)
                .read_until(b'\n', &mut self.bytes)
                .map_err(|error| DataFault::new(place(), error.to_string()))?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 > MAX_LINE && self.bytes.last() != Some(&b'\n') {
                let passed_over = (&mut self.reader)
                    .take(MAX_PASSED_OVER)
                    .skip_until(b'\n')
                    .map_err(|error| DataFault::new(place(), error.to_string()))?;
                let mut reason = format!("the line has more than {MAX_LINE} bytes");
                if passed_over as u64 == MAX_PASSED_OVER {
                    reason.push_str(", and no end");
                    return Err(DataFault::new(place(), reason));
                }
                return Ok(Some((self.line, Err(reason))));
            }
            if !self.bytes.trim_ascii().is_empty() {
                break;
            }
        }
        // A mark of the byte order, which some programs write, is not part of the first line.
        let text = self.bytes.strip_prefix(b"\xef\xbb\xbf");
        let text = text.unwrap_or(&self.bytes).trim_ascii();
        Ok(Some((self.line, Ok(text))))
    }
}

/// The answers beside a file of BFCL's questions; none where there is no such file.
fn answers(questions: &Path) -> Result<forms::Answers, DataFault> {
    #[derive(Deserialize)]
    struct Answer {
        id: String,
        ground_truth: Value,
    }
    let path = forms::answers_beside(questions);
    let mut answers = forms::Answers::new();
    if !path.exists() {
        return Ok(answers);
    }
    let mut lines = Lines::open(&path)?;
    while let Some((line, text)) = lines.next()? {
        let read = text.and_then(|text| {
            serde_json::from_slice::<Answer>(text).map_err(|error| error.to_string())
        });
        let answer =
            read.map_err(|reason| DataFault::new(format!("{}:{line}", path.display()), reason))?;
        answers.insert(answer.id, answer.ground_truth);
    }
    Ok(answers)
}
