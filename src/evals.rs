//! Evaluations of teams: suites, scorers, statistics that pair variants, and gates.
//!
//! It is the package `ghostlight-evals`, which needs the engine alone. `ghostlight eval` carries out the evaluation in a
//! file.

pub use ghostlight_evals::*;
