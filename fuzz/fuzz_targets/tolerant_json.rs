//! No text makes the reader of structured output panic, and valid JSON reads as it is.
#![no_main]

use ghostlight_structured_output::{RepairKind, complete, read, read_all};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let reading = read(text);
    let _ = (complete(text), read_all(text));
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let reading = reading.unwrap_or_else(|error| panic!("valid, but {error}"));
        let keeps_digits = |kind| kind == RepairKind::LongNumber;
        if reading.repairs.iter().all(|repair| !keeps_digits(repair.kind)) {
            assert_eq!(reading.value, value);
            assert!(reading.repairs.is_empty());
        }
    }
});
