//! Files that go with a turn: `run --file`, and `/file` in a chat.

use std::path::PathBuf;

use ghostlight::{File, files};
use ghostlight_actors::vocabulary::{Data, DataSource, FileError};

use super::plain_text;

/// A file by its path, or by an address of HTTP.
pub(super) fn file(given: &str) -> Result<File, FileError> {
    let given = given.trim();
    // A terminal that a file is dropped on puts quotes about its path.
    let bare = ['\'', '"'].into_iter().find_map(|quote| {
        let inner = given.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.is_empty()).then_some(inner)
    });
    let given = bare.unwrap_or(given);
    if given.contains("://") {
        return File::link(given);
    }
    File::read(path(given))
}

/// A path in which `~/` stands for the home directory.
fn path(given: &str) -> PathBuf {
    let home = given
        .strip_prefix("~/")
        .and_then(|rest| Some(files::variable_path("HOME")?.join(rest)));
    home.unwrap_or_else(|| PathBuf::from(given))
}

/// A file in a few words.
pub(super) fn told(data: &Data) -> String {
    let name = data.name.as_deref().unwrap_or("a file");
    let name = plain_text::line(name, 80);
    let kind = plain_text::line(&data.media_type, 80);
    match &data.source {
        DataSource::Base64(text) => format!("{name} ({kind}, {})", size(bytes_in(text))),
        _ => format!("{name} ({kind}, a link)"),
    }
}

fn bytes_in(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

fn size(bytes: usize) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_or_an_address_is_a_file_and_anything_else_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a b.txt");
        std::fs::write(&place, "hello").unwrap();
        for given in [
            place.display().to_string(),
            format!("'{}'", place.display()),
            format!(" \"{}\" ", place.display()),
        ] {
            let file = file(&given).unwrap();
            assert_eq!(told(file.data()), "a b.txt (text/plain, 5 bytes)");
        }
        let link = file("https://example.com/a.png").unwrap();
        assert_eq!(told(link.data()), "a.png (image/png, a link)");
        for (given, words) in [
            ("", "cannot be read"),
            ("./none.png", "./none.png"),
            ("file:///etc/hosts", "\"file\""),
        ] {
            let error = file(given).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
