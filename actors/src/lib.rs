//! The engine of Ghostlight.
