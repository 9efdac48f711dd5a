//! A report in the form of JUnit, which build servers show.

use std::io;

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};

use super::Report;
use crate::cell::Cell;

/// A suite for each variant, and a case for each cell. A cell that says nothing about the agent is skipped.
pub(super) fn write(report: &Report) -> Result<String, io::Error> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suites = writer.create_element("testsuites");
    suites
        .with_attribute(("name", plain(&report.evaluation).as_str()))
        .write_inner_content(|writer| {
            for variant in &report.variants {
                let cells: Vec<&Cell> = report
                    .cells
                    .iter()
                    .filter(|cell| cell.variant == variant.variant)
                    .collect();
                suite(writer, &plain(&variant.variant), &cells)?;
            }
            Ok(())
        })?;
    String::from_utf8(writer.into_inner()).map_err(io::Error::other)
}

fn suite(writer: &mut Writer<Vec<u8>>, variant: &str, cells: &[&Cell]) -> io::Result<()> {
    let count = |wanted: Option<bool>| {
        cells
            .iter()
            .filter(|cell| cell.success() == wanted)
            .count()
            .to_string()
    };
    let tests = cells.len().to_string();
    let (failures, skipped) = (count(Some(false)), count(None));
    let element = writer.create_element("testsuite").with_attributes([
        ("name", variant),
        ("tests", tests.as_str()),
        ("failures", failures.as_str()),
        ("skipped", skipped.as_str()),
    ]);
    element.write_inner_content(|writer| {
        for cell in cells {
            case(writer, cell)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn case(writer: &mut Writer<Vec<u8>>, cell: &Cell) -> io::Result<()> {
    let name = plain(&format!("{} #{}", cell.sample, cell.repeat));
    let time = format!("{:.3}", cell.latency_ms as f64 / 1_000.0);
    let element = writer.create_element("testcase").with_attributes([
        ("classname", plain(&cell.variant).as_str()),
        ("name", name.as_str()),
        ("time", time.as_str()),
    ]);
    let why = plain(&cell.why());
    let outcome = match cell.success() {
        Some(true) => None,
        Some(false) => Some("failure"),
        None => Some("skipped"),
    };
    let Some(outcome) = outcome else {
        element.write_empty()?;
        return Ok(());
    };
    element.write_inner_content(|writer| {
        let inner = writer
            .create_element(outcome)
            .with_attribute(("message", why.as_str()));
        inner.write_text_content(BytesText::new(&why))?;
        Ok(())
    })?;
    Ok(())
}

/// A text without the characters that XML has no place for.
fn plain(text: &str) -> String {
    let allowed = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars()
        .filter(allowed)
        .filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}'))
        .collect()
}
