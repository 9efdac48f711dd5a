//! The `ghostlight` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ghostlight::cli::main(ghostlight::builtin())
}
