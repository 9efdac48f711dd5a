//! A search tool for agents.

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Continuation, Effect, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{SearchResult, Searcher, Staged, StagedSearch, Stages};
use crate::{
    index::{Filter, Found, Query},
    vectors::Scan,
};

/// The number of chunks that a call returns: the default, and the maximum.
const RESULTS: (u32, u32) = (5, 20);

/// The answer to a call that looks outside of the tool's documents, for a model.
const NOWHERE: &str = "There are no documents there.";

const ABOUT: &str = "Searches documents and gives the passages that fit best, each with a label such as [k3f9a]. \
    Cite the label behind what you take from a passage.";

/// A `read` tool that searches an index, and returns passages with labels for citing them.
///
/// Passages are untrusted, so each of their lines is marked: no text in a document can look like the next passage, or
/// like a label.
#[derive(Clone, Debug)]
pub struct SearchTool {
    name: String,
    description: String,
    searcher: Searcher,
    filter: Filter,
    scan: Scan,
    diversity: f64,
    stages: Stages,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// What to look for: a question, or words of the answer.
    query: String,
    /// How many passages are wanted, 5 where it is left out.
    #[serde(default = "results")]
    #[schemars(range(min = 1, max = 20))]
    limit: u32,
    /// Only in documents whose path begins so; in all where it is left out.
    #[serde(default)]
    under: Option<String>,
}

fn results() -> u32 {
    RESULTS.0
}

impl SearchTool {
    /// A tool of this name.
    pub fn new(name: impl Into<String>, searcher: Searcher) -> Self {
        Self {
            name: name.into(),
            description: String::from(ABOUT),
            searcher,
            filter: Filter::default(),
            scan: Scan::Exact,
            diversity: 0.0,
            stages: Stages::default(),
        }
    }

    /// The tool's definition, before there is anything to search.
    pub fn definition_of(name: &str) -> ToolDefinition {
        ToolDefinition::new(name, ABOUT)
            .effect(Effect::Read)
            .parameters_of::<SearchArguments>()
    }

    /// Sets the tool's description: what the documents are about helps a model to decide.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Limits the tool to these documents.
    #[must_use]
    pub fn within(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Sets how many of the vectors a search reads.
    #[must_use]
    pub fn scan(mut self, scan: Scan) -> Self {
        self.scan = scan;
        self
    }

    /// Sets how much it counts that results are unlike each other, from 0 to 1.
    #[must_use]
    pub fn diversity(mut self, share: f64) -> Self {
        self.diversity = share;
        self
    }

    /// Sets the stages for which the model of the agent that calls is asked. Its calls are operations of the run.
    #[must_use]
    pub fn staged(mut self, stages: Stages) -> Self {
        self.stages = stages;
        self
    }

    /// The answer for a model to this question, without the stages that ask a model.
    ///
    /// # Errors
    /// The search failed.
    pub async fn ask(
        &self,
        query: &str,
        limit: usize,
        under: Option<String>,
    ) -> Result<String, ToolError> {
        let Some(query) = self.query(query, limit, under) else {
            return Ok(String::from(NOWHERE));
        };
        let result = self.searcher.search(&query).await;
        Ok(told(
            &result.map_err(|error| ToolError::new(error.to_string()))?,
        ))
    }

    /// The query of a call, if there can be documents where it looks.
    fn query(&self, query: &str, limit: usize, under: Option<String>) -> Option<Query> {
        let mut filter = self.filter.clone();
        if let Some(under) = under.filter(|under| !under.is_empty()) {
            // A call may narrow the tool's own filter, and never widen it.
            let within = filter
                .under
                .iter()
                .filter(|start| start.starts_with(&under))
                .cloned()
                .collect::<Vec<_>>();
            let inside = filter.under.is_empty()
                || filter.under.iter().any(|start| under.starts_with(&**start));
            filter.under = match inside {
                true => vec![under],
                false if within.is_empty() => return None,
                false => within,
            };
        }
        let query = Query::new(query).limit(limit).filter(filter);
        Some(query.scan(self.scan).diversity(self.diversity))
    }
}

impl Tool for SearchTool {
    fn definition(&self) -> ToolDefinition {
        let mut definition = Self::definition_of(&self.name);
        definition.description.clone_from(&self.description);
        definition
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: SearchArguments = arguments
            .parse()
            .map_err(|error| ToolError::new(format!("the arguments do not fit: {error}")))?;
        let limit = arguments.limit.clamp(1, RESULTS.1) as usize;
        let Some(query) = self.query(&arguments.query, limit, arguments.under) else {
            return Ok(ToolOutput::text(NOWHERE));
        };
        let mut search = StagedSearch::new();
        if let Some(continued) = cx.continued() {
            search = serde_json::from_str(&continued.state)?;
            search.continued(&self.stages, continued);
        }
        let next = search.next(&self.searcher, &self.stages, &query).await;
        Ok(
            match next.map_err(|error| ToolError::new(error.to_string()))? {
                Staged::Found(result) => ToolOutput::text(told(&result)),
                Staged::Ask(prompt) => {
                    let state = serde_json::to_string(&search)?;
                    ToolOutput::goes_on(Continuation::consulting(prompt, state).repeatable())
                }
            },
        )
    }
}

fn told(result: &SearchResult) -> String {
    let mut told = match result.found.is_empty() {
        true => String::from("Nothing was found. Try other words."),
        false => result
            .found
            .iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join("\n"),
    };
    for left_out in &result.left_out {
        told.push_str(&format!("\n(Left out: {left_out})"));
    }
    told
}

/// A passage as a model reads it: its label and source, and its text with each line marked.
///
/// ```text
/// [k3f9a] faq.md > Parcels (line 3)
/// | They are brought by noon.
/// ```
pub fn shown(found: &Found) -> String {
    let mut shown = format!(
        "[{}] {} (line {})\n",
        label(found),
        found.source(),
        found.line
    );
    for line in found.text.lines() {
        shown.push_str("| ");
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}

/// The label of a passage: five letters and digits that depend on its position and text, so that it is the same in
/// every search, and the author of a document cannot know the labels of others.
pub fn label(found: &Found) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut hash = blake3::Hasher::new();
    hash.update(found.document.as_bytes());
    hash.update(&[0]);
    hash.update(&(found.range.start as u64).to_le_bytes());
    hash.update(found.text.as_bytes());
    let digest = hash.finalize();
    let letter = |byte: &u8| {
        char::from(
            LETTERS
                .get(usize::from(*byte) % LETTERS.len())
                .copied()
                .unwrap_or(b'a'),
        )
    };
    digest.as_bytes().iter().take(5).map(letter).collect()
}
