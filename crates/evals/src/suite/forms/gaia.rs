//! GAIA's `metadata.jsonl`: a question, its level, the final answer, and perhaps a file beside it.

use std::path::Path;

use serde_json::{Map, Value};

use super::{optional, text};
use crate::suite::Sample;

/// A sample of the file in this folder. The answers of GAIA's test split are not published, so its samples have none.
pub(in crate::suite) fn sample(
    fields: &Map<String, Value>,
    folder: &Path,
) -> Result<Sample, String> {
    let mut input = text(fields, "Question")?.to_owned();
    if let Some(name) = optional(fields, "file_name") {
        let is_plain = Path::new(name)
            .file_name()
            .is_some_and(|plain| plain == name);
        if !is_plain {
            return Err(format!(
                "\"file_name\" is {name:?}, which is not a plain name"
            ));
        }
        input = format!("{input}\n\nThe file: {}", folder.join(name).display());
    }
    let mut sample = Sample::new(text(fields, "task_id")?, input);
    if let Some(answer) = optional(fields, "Final answer")
        && answer != "?"
    {
        sample.expected = Some(answer.into());
    }
    match fields.get("Level") {
        Some(Value::Number(level)) => sample.tags.push(format!("level-{level}")),
        Some(Value::String(level)) => sample.tags.push(format!("level-{level}")),
        _ => {}
    }
    Ok(sample)
}
