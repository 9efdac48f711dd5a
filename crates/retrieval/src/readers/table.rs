//! Tables of comma-separated values.

use super::{Document, MAX_TEXT_BYTES, Reader, ReaderError, SourceFile, blocking, extension, text};
use crate::chunking::Structure;

/// How many records say what stands between the values.
const LOOKED_AT: usize = 20;

/// Reads CSV and TSV with a header line; the values of CSV can stand between commas, semicolons, tabs or bars. Each record becomes a paragraph with a line `name: value` for each value, so
/// that it can be understood on its own.
#[derive(Clone, Copy, Debug)]
pub struct CsvReader;

impl Reader for CsvReader {
    fn reads(&self, name: &str) -> bool {
        matches!(extension(name).as_str(), "csv" | "tsv")
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        blocking(move || {
            let table = text::decoded(&file.bytes, None)?;
            // A spreadsheet may write in a first line what stands between the values.
            let (said, table) = match table.trim_start_matches('\u{feff}').split_once('\n') {
                Some((first, rest)) => {
                    match first.trim_end().strip_prefix("sep=").map(str::as_bytes) {
                        Some([delimiter]) => (Some(*delimiter), rest.to_owned()),
                        _ => (None, table),
                    }
                }
                None => (None, table),
            };
            let delimiter = match file.extension().as_str() {
                "tsv" => b'\t',
                _ => said.unwrap_or_else(|| delimiter(&table)),
            };
            let text = records(&table, delimiter)?;
            Ok(Document {
                title: None,
                text,
                structure: Structure::Text,
                ..Document::default()
            })
        })
        .await
    }
}

/// The separator of the values: the character with which the first records have the most equal numbers of values. Decimal
/// commas are in some of the values, and no reason to take the table for one with commas.
fn delimiter(table: &str) -> u8 {
    let sizes = |delimiter: u8| {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .flexible(true)
            .has_headers(false)
            .from_reader(table.as_bytes());
        let mut sizes = reader
            .records()
            .take(LOOKED_AT)
            .flatten()
            .map(|record| record.len());
        let first = sizes.next().unwrap_or(1);
        let same = sizes.by_ref().filter(|size| *size == first).count();
        (first, same)
    };
    let mut best = (b',', sizes(b','));
    for delimiter in [b';', b'\t', b'|'] {
        let (first, same) = sizes(delimiter);
        let (names, equal) = best.1;
        if first > 1 && (names == 1 || (same, first) > (equal, names)) {
            best = (delimiter, (first, same));
        }
    }
    best.0
}

fn records(table: &str, delimiter: u8) -> Result<String, ReaderError> {
    let malformed = |error: csv::Error| ReaderError::Malformed(error.to_string());
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
            return Err(ReaderError::TooLarge(MAX_TEXT_BYTES));
        }
    }
    Ok(text)
}
