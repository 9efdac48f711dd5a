//! GSM8K: a question, and an answer whose last line is `#### NUMBER`.

use serde_json::{Map, Value};

use super::{number_or_text, text};
use crate::suite::Sample;

pub(in crate::suite) fn sample(fields: &Map<String, Value>) -> Result<Sample, String> {
    let (question, answer) = (text(fields, "question")?, text(fields, "answer")?);
    let (reasoning, last) = answer
        .rsplit_once("####")
        .ok_or("\"answer\" has no line that begins with ####")?;
    let mut sample = Sample::new("", question).expected(number_or_text(last));
    let reasoning = reasoning.trim().to_owned();
    sample
        .metadata
        .insert("reasoning".to_owned(), reasoning.into());
    Ok(sample)
}
