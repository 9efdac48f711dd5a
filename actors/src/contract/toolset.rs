//! Toolsets: tools that come together.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;

use super::{BoxFuture, ToolError, ToolHandle};
use crate::vocabulary::{CallSpec, ToolDefinition, ToolFilter};

/// Several tools that are given to agents under one name, such as those of a folder or of a server.
///
/// A team asks for its tools when it is registered, and again for the next run whenever
/// [`revision`](Self::revision) has changed. A run keeps the definitions with which it began.
pub trait Toolset: Send + Sync + 'static {
    /// The tools as they are now. It must return at once: a toolset behind a network returns what it last heard.
    ///
    /// # Errors
    /// Why there are no tools now. Agents continue without them, and a warning is logged.
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError>;

    /// A number that changes whenever [`tools`](Self::tools) would return something else.
    fn revision(&self) -> u64 {
        0
    }

    /// Connects to the source of its tools. A System waits for it when it starts, before it asks for the tools; the
    /// toolset bounds how long it takes.
    ///
    /// # Errors
    /// Why it is not connected. The System starts nevertheless, and a warning is logged.
    fn open(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Closes the toolset's connections. A System calls it when it stops.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Tools that never change.
impl Toolset for Vec<ToolHandle> {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        Ok(self.clone())
    }
}

/// The tools at one revision of their toolset.
type AtRevision = (u64, Arc<[ToolHandle]>);

/// A toolset of any kind, with a filter, a prefix and limits for its tools. Cloning shares it.
#[derive(Clone)]
pub struct ToolsetHandle {
    toolset: Arc<dyn Toolset>,
    filter: Option<ToolFilter>,
    prefix: String,
    limits: BTreeMap<String, CallSpec>,
    /// The tools at the last revision, so that each tool stays the same object while nothing changes.
    kept: Arc<Mutex<Option<AtRevision>>>,
}

impl ToolsetHandle {
    /// Keeps a toolset.
    pub fn new(toolset: impl Toolset) -> Self {
        Self {
            toolset: Arc::new(toolset),
            filter: None,
            prefix: String::new(),
            limits: BTreeMap::new(),
            kept: Arc::default(),
        }
    }

    /// Takes only some of its tools, by the names that they have in the toolset.
    #[must_use]
    pub fn only(mut self, filter: ToolFilter) -> Self {
        self.filter = Some(match self.filter.take() {
            Some(before) => before.and(filter),
            None => filter,
        });
        self.kept = Arc::default();
        self
    }

    /// Puts a prefix before the name of each tool.
    #[must_use]
    pub fn prefixed(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into() + &self.prefix;
        self.kept = Arc::default();
        self
    }

    /// Sets limits for the tools whose names in the toolset fit a pattern. The longest pattern wins.
    #[must_use]
    pub fn limited(mut self, pattern: impl Into<String>, limits: CallSpec) -> Self {
        self.limits.insert(pattern.into(), limits);
        self.kept = Arc::default();
        self
    }

    /// The names that its tools have at agents, as far as its filter says them in full: they are known also while there are
    /// no tools.
    pub(crate) fn named(&self) -> Vec<String> {
        let named = self.filter.as_ref().map(ToolFilter::named);
        let named = named.unwrap_or_default().into_iter();
        named.map(|name| format!("{}{name}", self.prefix)).collect()
    }

    /// The tools as they are now. Of two tools with one name the first is taken, and a tool whose name providers do
    /// not accept is left out. A warning is logged in both cases.
    ///
    /// # Errors
    /// Why there are no tools now.
    pub fn tools(&self) -> Result<Arc<[ToolHandle]>, ToolError> {
        // The revision is read first, so that the next call finds what changes meanwhile.
        let revision = self.revision();
        if let Some((kept, tools)) = &*self.kept.lock()
            && *kept == revision
        {
            return Ok(tools.clone());
        }
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        let mut tools: Vec<ToolHandle> = Vec::new();
        for tool in self.toolset.tools()? {
            let own = tool.definition().name.clone();
            if self.filter.as_ref().is_some_and(|only| !only.takes(&own)) {
                continue;
            }
            let name = format!("{}{own}", self.prefix);
            if !is_callable(&name) {
                tracing::warn!(
                    ?name,
                    "a tool is left out: models take names of 1 to 64 letters, digits, `_` and `-`"
                );
                continue;
            }
            if taken.insert(name.clone(), tools.len()).is_some() {
                tracing::warn!(%name, "a toolset has two tools of one name: the first is taken");
                continue;
            }
            tools.push(self.shaped(tool, &own, name));
        }
        let tools: Arc<[ToolHandle]> = tools.into();
        *self.kept.lock() = Some((revision, tools.clone()));
        Ok(tools)
    }

    fn shaped(&self, tool: ToolHandle, own: &str, name: String) -> ToolHandle {
        let fitting = self.limits.iter();
        let fitting =
            fitting.filter(|(pattern, _)| ToolFilter::Name((*pattern).clone()).takes(own));
        let limits = fitting.max_by_key(|(pattern, _)| pattern.len());
        if limits.is_none() && self.prefix.is_empty() {
            return tool;
        }
        let mut definition = ToolDefinition::clone(tool.definition());
        definition.name = name;
        if let Some((_, limits)) = limits {
            definition = limits.applied(definition);
        }
        tool.defined(definition)
    }

    /// A number that changes whenever its tools do. See [`Toolset::revision`].
    pub fn revision(&self) -> u64 {
        self.toolset.revision()
    }

    /// Connects to the source of its tools. See [`Toolset::open`].
    ///
    /// # Errors
    /// Why it is not connected.
    pub fn open(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        self.toolset.open()
    }

    /// Closes the toolset's connections. See [`Toolset::close`].
    pub fn close(&self) -> BoxFuture<'_, ()> {
        self.toolset.close()
    }

    /// Whether both are the same toolset.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.toolset, &other.toolset) && Arc::ptr_eq(&self.kept, &other.kept)
    }
}

impl CallSpec {
    /// A definition with these limits in place of its own.
    #[must_use]
    pub fn applied(&self, mut definition: ToolDefinition) -> ToolDefinition {
        if let Some(timeout) = self.timeout {
            definition = definition.timeout(timeout);
        }
        if let Some(characters) = self.output_limit {
            definition = definition.output_limit(characters);
        }
        match self.concurrency {
            Some(calls) => definition.concurrency(calls),
            None => definition,
        }
    }
}

/// Whether providers accept this name for a tool.
fn is_callable(name: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=64).contains(&name.len()) && name.chars().all(ok)
}

impl<T: Toolset> From<T> for ToolsetHandle {
    fn from(toolset: T) -> Self {
        Self::new(toolset)
    }
}

impl fmt::Debug for ToolsetHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolsetHandle")
            .field("filter", &self.filter)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
