//! Files that are for their user alone: what runs hold is what people said.

use std::fs::OpenOptions;

/// Options by which a new file is made for its user alone. One that is there keeps its mode.
pub(crate) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder for its user alone, and those that lead to it. What is there stays as it is.
#[cfg(any(feature = "cli", feature = "sqlite"))]
pub(crate) fn make_private_folder(folder: &std::path::Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
