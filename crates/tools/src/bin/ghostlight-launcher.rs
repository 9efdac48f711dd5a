//! Starts a command with fewer rights; see `ghostlight_tools::launcher`.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(code) = ghostlight_tools::launcher::run() {
        return code;
    }
    ExitCode::FAILURE
}
