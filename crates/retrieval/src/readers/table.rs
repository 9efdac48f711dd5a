//! Tables of comma-separated values.

use super::{Document, MAX_TEXT_BYTES, ReadError, Reader, SourceFile, blocking, extension, text};
use crate::chunking::Structure;

/// Reads CSV and TSV with a header line. Each record becomes a paragraph with a line `name: value` for each value, so
/// that it can be understood on its own.
#[derive(Clone, Copy, Debug)]
pub struct CsvReader;

impl Reader for CsvReader {
    fn reads(&self, name: &str) -> bool {
        matches!(extension(name).as_str(), "csv" | "tsv")
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReadError> {
        blocking(move || {
            let delimiter = match file.extension().as_str() {
                "tsv" => b'\t',
                _ => b',',
            };
            let text = records(&text::decoded(&file.bytes)?, delimiter)?;
            Ok(Document {
                title: None,
                text,
                structure: Structure::Text,
            })
        })
        .await
    }
}

fn records(table: &str, delimiter: u8) -> Result<String, ReadError> {
    let malformed = |error: csv::Error| ReadError::Malformed(error.to_string());
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(table.as_bytes());
    let names = reader.headers().map_err(malformed)?.clone();
    let mut text = String::new();
    for record in reader.records() {
        let record = record.map_err(malformed)?;
        for (place, value) in record.iter().enumerate() {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            if let Some(name) = names
                .get(place)
                .map(str::trim)
                .filter(|name| !name.is_empty())
            {
                text.push_str(name);
                text.push_str(": ");
            }
            text.push_str(value);
            text.push('\n');
        }
        text.push('\n');
        // The column names are repeated before each value, so a small table can become a large text.
        if text.len() > MAX_TEXT_BYTES {
            return Err(ReadError::TooLarge(MAX_TEXT_BYTES));
        }
    }
    Ok(text)
}
