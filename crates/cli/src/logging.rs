//! The destination of the engine's log: warnings go to stderr, and whatever is wanted to a file.

use std::{
    env,
    fs::File,
    io::{self, IsTerminal as _, Write},
    path::Path,
    sync::Arc,
};

use ghostlight::files;
use parking_lot::Mutex;
use tracing::Level;
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::{
        self,
        format::{DefaultFields, FmtSpan, Format},
    },
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use super::{exit::Failure, plain_text, style::Style};

/// Starts the log.
///
/// # Errors
/// When `RUST_LOG` is not valid, or the file cannot be written.
pub(super) fn begin(style: &Style) -> Result<(), Failure> {
    let wished = env::var("RUST_LOG")
        .ok()
        .filter(|text| !text.trim().is_empty());
    let wished = wished.as_deref().unwrap_or_else(|| usual(style));
    let filter: Targets = wished.parse().map_err(|error| {
        Failure::Usage(format!(
            "RUST_LOG makes no sense: {error}; write a level such as `debug`, or `ghostlight=debug,warn`"
        ))
    })?;
    let sink = match &style.log {
        Some(path) => Sink::File(Arc::new(Mutex::new(open(path)?))),
        None => Sink::Stderr,
    };
    let hooks = filter.would_enable(HOOKS, &Level::DEBUG);
    let hooks = Targets::new().with_target(HOOKS, hooks.then_some(Level::DEBUG));
    let ends = layer(&sink).with_span_events(FmtSpan::CLOSE);
    // A program that uses the command as a library may have its own subscriber.
    let _ = tracing_subscriber::registry()
        .with(layer(&sink).with_filter(filter))
        .with(ends.with_filter(hooks))
        .try_init();
    Ok(())
}

/// Notes for this destination, whatever takes them.
fn layer<S>(sink: &Sink) -> fmt::Layer<S, DefaultFields, Format, impl Fn() -> Sink + use<S>> {
    let sink = sink.clone();
    let layer = fmt::Layer::<S>::default().with_ansi(false);
    layer.with_writer(move || sink.clone())
}

/// The spans of policies' hooks. Each is noted when it has ended, with the time that it took.
const HOOKS: &str = "ghostlight_actors::hooks";

/// The level of the log where the person did not give one.
fn usual(style: &Style) -> &'static str {
    match (&style.log, style.verbose, style.quiet) {
        (Some(_), ..) => "debug",
        (None, 2.., _) => "info,ghostlight=debug,ghostlight_actors=debug",
        (None, _, true) => "error",
        // Users of a tool need no warnings about faults that only its author can mend.
        _ => "warn,ghostlight_actors::blocking=off",
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    let opened = files::private().create(true).append(true).open(path);
    opened.map_err(|error| Failure::Usage(format!("--log {}: {error}", path.display())))
}

/// The destination of log lines, each written in one piece.
#[derive(Clone, Debug)]
enum Sink {
    Stderr,
    File(Arc<Mutex<File>>),
}

impl Write for Sink {
    fn write(&mut self, note: &[u8]) -> io::Result<usize> {
        // Log lines quote models and tools.
        let text = String::from_utf8_lossy(note);
        let text = plain_text::plain(&text);
        match self {
            Self::Stderr => {
                let mut out = io::stderr().lock();
                if out.is_terminal() {
                    // The progress line may be drawn there.
                    out.write_all(b"\r\x1b[K")?;
                }
                out.write_all(text.as_bytes())?;
            }
            Self::File(file) => file.lock().write_all(text.as_bytes())?,
        }
        Ok(note.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_author_of_a_tool_can_mend_is_shown_to_those_who_ask_for_it() {
        let filter = |style: &Style| usual(style).parse::<Targets>().unwrap();
        let (blocking, other) = ("ghostlight_actors::blocking", "ghostlight_actors::run");
        let mut style = Style::default();
        assert!(!filter(&style).would_enable(blocking, &Level::WARN));
        assert!(filter(&style).would_enable(other, &Level::WARN));
        style.verbose = 2;
        assert!(filter(&style).would_enable(blocking, &Level::WARN));
    }
}
