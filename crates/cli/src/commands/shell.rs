//! `ghostlight shell`.

use std::io::Write as _;

use clap::CommandFactory as _;
use ghostlight::files;

use crate::{
    arguments::Arguments,
    exit::{Exit, Failure},
    more_arguments::{Completions, Man},
};

/// Prints the completions of a shell.
pub(super) fn completions(arguments: &Completions) -> Result<Exit, Failure> {
    let mut completions = Vec::new();
    let mut command = Arguments::command();
    clap_complete::generate(
        arguments.shell,
        &mut command,
        "ghostlight",
        &mut completions,
    );
    let mut out = std::io::stdout().lock();
    out.write_all(&completions)?;
    out.flush()?;
    Ok(Exit::Done)
}

/// Writes a page for the command, and one for each subcommand.
pub(super) fn man(arguments: &Man) -> Result<Exit, Failure> {
    let wrong =
        |error: std::io::Error| Failure::Usage(format!("{}: {error}", arguments.folder.display()));
    std::fs::create_dir_all(&arguments.folder).map_err(wrong)?;
    let mut command = Arguments::command();
    command.build();
    let mut pages = 0_u64;
    let mut below = vec![command];
    while let Some(command) = below.pop() {
        below.extend(
            command
                .get_subcommands()
                .filter(|c| c.get_name() != "help")
                .cloned(),
        );
        let page = clap_mangen::Man::new(command);
        let path = arguments.folder.join(page.get_filename());
        let mut text = Vec::new();
        page.render(&mut text)?;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let mut file = files::open_regular(&options, &path).map_err(wrong)?;
        file.write_all(&text).map_err(wrong)?;
        pages += 1;
    }
    super::note(&format!(
        "{} in {}",
        super::counted(pages, "page"),
        arguments.folder.display()
    ));
    Ok(Exit::Done)
}
