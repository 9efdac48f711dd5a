//! `ghostlight prices`: what models cost.

use std::{fs, io, path::PathBuf};

use ghostlight::{files, models::PriceTable};

use crate::{
    arguments::ShowArguments,
    exit::{Exit, Failure},
    follow::print_json,
    plain_text, user_config,
};

/// The largest table that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// The most characters of a name in it that are shown.
const SHOWN: usize = 200;

/// Where the table in use is kept, if it is not that of this version.
fn path() -> Option<PathBuf> {
    user_config::path().map(|config| config.with_file_name("prices.json"))
}

fn wrong(path: &std::path::Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Usage(format!("{}: {why}", path.display()))
}

/// Goes by the user's table, if there is one.
pub(crate) fn load() -> Result<(), Failure> {
    let Some(path) = path() else { return Ok(()) };
    match files::read_text(&path, MAX_BYTES) {
        Ok(text) => {
            let table = PriceTable::read(&text).map_err(|why| wrong(&path, &why))?;
            table.put_into_use();
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(wrong(&path, &error)),
    }
}

/// Keeps a table of prices for all further commands.
pub(super) fn update(file: &std::path::Path) -> Result<Exit, Failure> {
    let Some(kept) = path() else {
        let why = "there is no folder for your settings: set HOME or GHOSTLIGHT_CONFIG";
        return Err(Failure::Usage(why.to_owned()));
    };
    if file.as_os_str() == "-" {
        match fs::remove_file(&kept) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(wrong(&kept, &error)),
        }
        let dated = PriceTable::of_this_version().dated;
        super::note(&format!("prices are those of this version, of {dated}"));
        return Ok(Exit::Done);
    }
    let text = files::read_text(file, MAX_BYTES).map_err(|error| wrong(file, &error))?;
    let table = PriceTable::read(&text).map_err(|why| wrong(file, &why))?;
    if let Some(folder) = kept.parent() {
        fs::create_dir_all(folder).map_err(|error| wrong(folder, &error))?;
    }
    fs::write(&kept, &text).map_err(|error| wrong(&kept, &error))?;
    let models = table.models().count();
    super::note(&format!(
        "{models} prices of {} are in use, kept in {}",
        plain_text::line(&table.dated, SHOWN),
        kept.display()
    ));
    Ok(Exit::Done)
}

/// Prints the table in use.
pub(super) fn show(arguments: &ShowArguments) -> Result<Exit, Failure> {
    let table = PriceTable::in_use();
    if arguments.json {
        let told = serde_json::to_value(&*table).unwrap_or_default();
        print_json(&told)?;
        return Ok(Exit::Done);
    }
    let mut lines = vec![format!(
        "US dollars per million tokens, of {}:",
        plain_text::line(&table.dated, SHOWN)
    )];
    for (provider, model, prices) in table.models() {
        let cached = prices.cached_input.unwrap_or(prices.input);
        lines.push(format!(
            "{} {}: {} in, {cached} from the cache, {} out",
            plain_text::line(provider, SHOWN),
            plain_text::line(model, SHOWN),
            prices.input,
            prices.output
        ));
    }
    for (provider, source, dated) in table.sources() {
        lines.push(format!(
            "{}: {}, {}",
            plain_text::line(provider, SHOWN),
            plain_text::line(source, SHOWN),
            plain_text::line(dated, SHOWN)
        ));
    }
    super::print(&lines.join("\n"))?;
    Ok(Exit::Done)
}
