//! The result of a replay, in words.

use std::fmt;

use super::{Divergence, Drift, Replay, RunReplay};

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, run) in self.runs.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{run}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RunReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (run, agent, entries) = (self.run.short(), &self.agent, self.entries);
        write!(f, "run {run} ({agent}, {entries} entries): ")?;
        match &self.divergence {
            None => f.write_str("as recorded")?,
            Some(divergence) => write!(f, "diverges {divergence}")?,
        }
        for drift in &self.drifts {
            let Drift { operation, .. } = drift;
            write!(f, "\n  the model request of operation {operation}")?;
            if let Some(entry) = drift.entry {
                write!(f, " (entry {entry})")?;
            }
            f.write_str(" is another than the recorded one")?;
        }
        Ok(())
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.entry, self.operation) {
            (Some(entry), Some(operation)) => write!(f, "at entry {entry}, operation {operation}")?,
            (Some(entry), None) => write!(f, "at entry {entry}")?,
            (None, Some(operation)) => write!(f, "at operation {operation}")?,
            (None, None) => f.write_str("at its end")?,
        }
        write!(
            f,
            "\n  recorded: {}\n  found:    {}",
            self.recorded, self.found
        )
    }
}
