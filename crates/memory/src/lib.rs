//! What agents remember within a run and between runs.
