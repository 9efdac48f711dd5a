//! The samples of a suite: written in it, or in files of one JSON object a line.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Sample;

/// Where samples come from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DataSpec {
    /// A file with one JSON object a line; a relative path starts from the suite's folder.
    File(PathBuf),
    /// Samples in the suite itself.
    Inline(Vec<Sample>),
}

/// The samples of a suite, and the lines that hold none.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Samples {
    /// The samples, in their order.
    pub samples: Vec<Sample>,
    /// The places that could not be read, which were left out.
    pub left_out: Vec<DataFault>,
}

/// A sample that cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{place}: {reason}")]
#[non_exhaustive]
pub struct DataFault {
    /// The file and the line, or the place in the suite.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 16 << 20;
/// The most samples of one suite.
const MAX_SAMPLES: usize = 1_000_000;

/// Reads the samples of a suite in this folder. A line that cannot be read is left out and named; the others stay.
///
/// # Errors
/// A file that cannot be read at all, and an id that two samples have.
pub fn load(data: &[DataSpec], folder: &Path) -> Result<Samples, DataFault> {
    let mut loading = Loading::default();
    for source in data {
        match source {
            DataSpec::File(path) => loading.read(&folder.join(path))?,
            DataSpec::Inline(samples) => {
                for (index, sample) in samples.iter().enumerate() {
                    let place = format!("inline sample {}", index + 1);
                    loading.add(sample.clone(), place, format!("inline-{}", index + 1))?;
                }
            }
        }
    }
    Ok(loading.found)
}

#[derive(Default)]
struct Loading {
    found: Samples,
    /// The place of each id.
    places: HashMap<String, String>,
}

impl Loading {
    fn read(&mut self, path: &Path) -> Result<(), DataFault> {
        let whole = |error: std::io::Error| DataFault {
            place: path.display().to_string(),
            reason: error.to_string(),
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut reader = BufReader::new(File::open(path).map_err(whole)?);
        let mut bytes = Vec::new();
        for line in 1_u64.. {
            bytes.clear();
            let read = (&mut reader)
                .take(MAX_LINE + 1)
                .read_until(b'\n', &mut bytes)
                .map_err(whole)?;
            if read == 0 {
                break;
            }
            let place = format!("{}:{line}", path.display());
            if read as u64 > MAX_LINE {
                let reason = format!(
                    "the line has more than {MAX_LINE} bytes, so the rest of the file is not read"
                );
                return Err(DataFault { place, reason });
            }
            let text = bytes.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice::<Sample>(text) {
                Ok(sample) => self.add(sample, place, format!("{stem}-{line}"))?,
                Err(error) => self.leave_out(place, error.to_string()),
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, place: String, reason: String) {
        self.found.left_out.push(DataFault { place, reason });
    }

    fn add(&mut self, mut sample: Sample, place: String, id: String) -> Result<(), DataFault> {
        if let Some(reason) = sample.fault() {
            self.leave_out(place, reason.to_owned());
            return Ok(());
        }
        if sample.id.is_empty() {
            sample.id = id;
        }
        if self.found.samples.len() == MAX_SAMPLES {
            let reason =
                format!("there are more than {MAX_SAMPLES} samples: divide the evaluation");
            return Err(DataFault { place, reason });
        }
        if let Some(first) = self.places.insert(sample.id.clone(), place.clone()) {
            let reason = format!(
                "the id {:?} is that of the sample at {first} too",
                sample.id
            );
            return Err(DataFault { place, reason });
        }
        self.found.samples.push(sample);
        Ok(())
    }
}
