//! Starts a command with fewer rights; see `ghostlight_tools::launcher`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ghostlight_tools::launcher::run().unwrap_or(ExitCode::FAILURE)
}
