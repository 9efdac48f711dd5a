//! `ghostlight eval add`.

use std::{
    fs::OpenOptions,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use ghostlight::evals::suite::{DataSpec, Wanted, load_wanted, of_run};

use super::unwritten;
use crate::{
    commands::note,
    eval_add_arguments::EvalAdd,
    exit::{Exit, Failure},
    keeping::Keeping,
};

/// Adds a recorded run to a file of samples.
pub(super) async fn add(arguments: EvalAdd) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let row = keeping.find(&arguments.run).await?;
    let sample = of_run(&keeping.store, row.root, arguments.expected).await?;
    let mut sample = sample.map_err(super::usage)?;
    if let Some(id) = arguments.id {
        sample.id = id;
    }
    sample.tags = arguments.tags;
    let path = &arguments.to;
    if path.exists() {
        // A bad line of the file is no reason to refuse another one.
        let wanted = Wanted::new().only(sample.id.as_str());
        let data = [DataSpec::File(path.clone())];
        let known = load_wanted(&data, Path::new(""), &wanted).map_err(super::usage)?;
        if known.samples.iter().any(|known| known.id == sample.id) {
            let (id, file) = (&sample.id, path.display());
            let message = format!("{file} has a sample {id:?}: give another one with --id");
            return Err(Failure::Usage(message));
        }
    }
    let line = serde_json::to_string(&sample).map_err(io::Error::other)?;
    append(path, &line).map_err(|error| unwritten(path, &error))?;
    note(&format!("added {} to {}", sample.id, path.display()));
    Ok(Exit::Done)
}

/// Appends a line, in one write, to a file whose last line may lack its end.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).open(path)?;
    let mut text = format!("{line}\n");
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.insert(0, '\n');
        }
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
