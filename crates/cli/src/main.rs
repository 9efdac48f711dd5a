//! The `ghostlight` command.

use std::process::ExitCode;

use mimalloc::MiMalloc;

// A run is many short allocations on several threads; with the system's allocator on Linux they take a
// third of the processor's time where ten thousand runs end at once.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    ghostlight_cli::main(ghostlight::builtin())
}
