//! What of Ghostlight's promises a Restate server can carry: a program that tries it.
//!
//! `cargo run -- PATH/restate-server [QUESTION…]`; without names all questions are asked.

mod engine;
mod handlers;
mod log;
mod probe;
mod questions;
mod service;

use std::{path::Path, process::ExitCode, sync::Arc};

use engine::Failure;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.as_slice() {
        [command, port, version, log] if command == "serve" => serve(port, version, log).await,
        [program, names @ ..] => questions::ask(Path::new(program), names).await,
        [] => Err("usage: ghostlight-restate-probe PATH/restate-server [QUESTION…]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(port: &str, version: &str, log: &str) -> Result<(), Failure> {
    let log = Arc::new(log::Log::open(Path::new(log))?);
    service::serve(port.parse()?, version.parse()?, log).await
}
