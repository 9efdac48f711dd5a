//! `ghostlight team init`: writes files to start from.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use ghostlight::files;

use crate::{
    exit::{Exit, Failure},
    keeping::quoted,
    more_arguments::Init,
};

const TEAM: &str = include_str!("init/team.yaml");
const MAIN: &str = include_str!("init/main.rs.txt");
const MANIFEST: &str = include_str!("init/Cargo.toml.txt");

/// Writes a team file with comments and, if wanted, a program. No file is overwritten.
pub(super) fn init(arguments: &Init) -> Result<Exit, Failure> {
    let folder = &arguments.folder;
    let mut wanted = vec![("team.yaml", TEAM.to_owned())];
    if arguments.program {
        let manifest = MANIFEST
            .replace("@library@", &dependency(""))
            .replace("@command@", &dependency("crates/cli"));
        wanted.extend([("Cargo.toml", manifest), ("src/main.rs", MAIN.to_owned())]);
    }
    let there: Vec<&str> = wanted
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| folder.join(name).symlink_metadata().is_ok())
        .collect();
    if !there.is_empty() {
        return Err(Failure::Usage(format!(
            "{} is there already in {}, and nothing was written: give another folder",
            there.join(" and "),
            folder.display()
        )));
    }
    for (name, text) in &wanted {
        let path = folder.join(name);
        write(&path, text)
            .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        super::note(&format!("wrote {}", path.display()));
    }
    let file = folder.join("team.yaml").display().to_string();
    let next = if arguments.program {
        format!(
            "cd {} && cargo run -- chat team.yaml",
            quoted(&folder.display().to_string())
        )
    } else {
        format!("ghostlight chat {}", quoted(&file))
    };
    super::note(&format!("now try\n  {next}"));
    Ok(Exit::Done)
}

/// How the program's manifest names a package of ours, which is in this folder of the checkout that the command was built
/// from, if that is still there.
fn dependency(folder: &str) -> String {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    // A package from a registry is alone, without the packages beside it.
    match checkout.filter(|checkout| checkout.join("crates").is_dir()) {
        Some(checkout) => {
            let path = checkout.join(folder).components().collect::<PathBuf>();
            format!("{{ path = {:?} }}", path.display().to_string())
        }
        None => format!("{:?}", env!("CARGO_PKG_VERSION")),
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    files::open_regular(&options, path)?.write_all(text.as_bytes())
}
