//! No text makes the reader of team files panic. What it refuses has a place within the text.
#![no_main]

use ghostlight::config::parse_with;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let variable = |name: &str| (name.len() % 2 == 0).then(|| format!("{name}: [{name}]"));
    match parse_with(text, "team.yaml", variable) {
        Ok(file) => assert!(!file.spec().name.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
