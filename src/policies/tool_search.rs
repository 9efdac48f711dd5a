//! Many tools, of which a request holds those that fit.

use std::{collections::BTreeSet, sync::Arc};

use ghostlight_actors::{
    run::{BeforeTool, OwnTool, Policy, PolicyContext},
    vocabulary::{
        AgentError, Digest, Effect, ModelRequest, ModelResponse, ToolCall, ToolDefinition,
        ToolFilter, ToolSet,
    },
};
use ghostlight_safety::cut;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Checked;
use crate::retrieval::bm25::Bm25Index;

/// The name of the tool that searches for tools.
pub const SEARCH_TOOLS: &str = "search_tools";
/// How many characters of a description a search shows.
const SHOWN: usize = 200;

/// Keeps most of many tools out of each request. A model is given those that fit the task best, and the
/// tool `search_tools`, by which it finds others; what is found is given to it from then on.
///
/// It does nothing for an agent that has no more than `above` tools. What the engine offers (transfers,
/// delegations and questions) is always there.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolSearch {
    /// Above how many tools it acts; 40 when left out.
    pub above: usize,
    /// How many tools a search gives, and how many are there at first; 8 when left out.
    pub found: usize,
    /// How many found tools a request holds, of which the oldest go first; 40 when left out.
    pub most: usize,
    /// Tools that are always there; none when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always: Option<ToolFilter>,
    #[serde(skip, default = "tool")]
    tool: OwnTool,
    #[serde(skip)]
    searched: Option<Arc<Searched>>,
    /// The index of the latest run's tools, since most runs of an agent have the same tools.
    #[serde(skip)]
    latest: Arc<Mutex<Option<Arc<Searched>>>>,
    /// The tools that were found, from the oldest on.
    #[serde(skip)]
    loaded: Vec<String>,
    /// The tools that a request holds, until others are found.
    #[serde(skip)]
    held: Option<ToolSet>,
}

/// All tools of the agent, with what is searched of them.
#[derive(Debug)]
struct Searched {
    tools: ToolSet,
    index: Bm25Index,
    /// The places of the tools that every request holds.
    always: BTreeSet<usize>,
}

impl Searched {
    fn digest(&self) -> Digest {
        self.tools.digest()
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// What the tool should do, in a few words.
    #[schemars(length(min = 1, max = 500))]
    query: String,
}

fn tool() -> OwnTool {
    let about = "Searches for further tools by what they do. What is found can be called from your next turn on.";
    let tool = ToolDefinition::new(SEARCH_TOOLS, about).parameters_of::<Search>();
    OwnTool::new(tool.effect(Effect::Read))
}

impl Default for ToolSearch {
    fn default() -> Self {
        Self {
            above: 40,
            found: 8,
            most: 40,
            always: None,
            tool: tool(),
            searched: None,
            latest: Arc::default(),
            loaded: Vec::new(),
            held: None,
        }
    }
}

impl Checked for ToolSearch {
    fn check(&self) -> Result<(), String> {
        match self.found == 0 || self.most < self.found {
            true => Err("`found` must be at least 1, and `most` no less".to_owned()),
            false => Ok(()),
        }
    }
}

impl ToolSearch {
    /// The texts of these tools that are searched; an earlier run may have read them.
    fn of(&self, cx: &PolicyContext<'_>, tools: &ToolSet) -> Arc<Searched> {
        let latest = self.latest.lock().clone();
        let latest = latest.filter(|latest| latest.digest() == tools.digest());
        latest.unwrap_or_else(|| {
            let read = Arc::new(self.read(cx, tools));
            *self.latest.lock() = Some(read.clone());
            read
        })
    }

    fn read(&self, cx: &PolicyContext<'_>, tools: &ToolSet) -> Searched {
        let own = cx.agent().tools.iter().map(|tool| tool.name.as_str());
        let own: BTreeSet<&str> = own.collect();
        let is_always = |name: &str| {
            let always = self.always.as_ref();
            !own.contains(name) || always.is_some_and(|always| always.takes(name))
        };
        let places = tools.iter().enumerate();
        let always = places.filter(|(_, tool)| is_always(&tool.name));
        Searched {
            always: always.map(|(place, _)| place).collect(),
            index: Bm25Index::new(tools.iter().map(|tool| document(tool))),
            tools: tools.clone(),
        }
    }

    /// The tools that a request holds, in the order of all of them.
    fn offered(&self, searched: &Searched) -> ToolSet {
        let place = |name: &String| searched.tools.iter().position(|tool| tool.name == *name);
        let mut places = searched.always.clone();
        places.extend(self.loaded.iter().filter_map(place));
        let offered = places.into_iter();
        let offered = offered.filter_map(|place| searched.tools.iter().nth(place));
        offered.cloned().collect()
    }

    fn search(&mut self, query: &str) -> Vec<(String, String)> {
        let Some(searched) = &self.searched else {
            return Vec::new();
        };
        let hits = searched.index.search(query, self.found);
        let found = hits
            .iter()
            .filter_map(|hit| searched.tools.iter().nth(hit.document));
        let found: Vec<(String, String)> = found
            .map(|tool| (tool.name.clone(), tool.description.clone()))
            .collect();
        self.held = None;
        for (name, _) in &found {
            self.loaded.retain(|loaded| loaded != name);
            self.loaded.push(name.clone());
        }
        let over = self.loaded.len().saturating_sub(self.most);
        self.loaded.drain(..over);
        found
    }
}

/// The text of a tool that is searched: its name in words, what it does, and the names of its arguments.
fn document(tool: &ToolDefinition) -> String {
    let arguments = tool.parameters.get("properties");
    let arguments = arguments.and_then(|properties| properties.as_object());
    let arguments: Vec<&str> = arguments
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let words = [&tool.name, &tool.description, &arguments.join(" ")]
        .map(|text| text.replace(['_', '-'], " "));
    format!("{} {} {}", tool.name, words[0], words[1..].join(" "))
}

impl Policy for ToolSearch {
    fn tools(&self) -> Vec<String> {
        vec![self.tool.name()]
    }

    async fn before_model(
        &mut self,
        cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        if request.tools.len() <= self.above {
            return Ok(None);
        }
        let digest = request.tools.digest();
        let known = self.searched.take();
        let known = known.filter(|searched| searched.digest() == digest);
        let searched = known.unwrap_or_else(|| {
            self.held = None;
            self.of(cx, &request.tools)
        });
        self.searched = Some(searched.clone());
        if self.loaded.is_empty() {
            // What is asked may say what is needed.
            let said = &request.conversation;
            let asked = said.last_from_user().and_then(|place| said.get(place));
            let asked = asked.map(|message| message.content()).unwrap_or_default();
            self.search(&asked);
        }
        let held = match self.held.take() {
            Some(held) => held,
            None => self.offered(&searched),
        };
        request.tools = held.clone();
        self.held = Some(held);
        self.tool.offer(request);
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        _: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if call.name != SEARCH_TOOLS || self.searched.is_none() {
            return Ok(BeforeTool::Go);
        }
        let query = match call.arguments.parse::<Search>() {
            Ok(Search { query }) => query,
            Err(error) => return Ok(BeforeTool::failed(call, format!("Not done: {error}."))),
        };
        let found = self.search(&query);
        if found.is_empty() {
            return Ok(BeforeTool::done(
                call,
                "No tool fits. Say it in other words, or go on without.",
            ));
        }
        let lines: Vec<String> = found
            .iter()
            .map(|(name, about)| format!("- {name}: {}", cut(about, SHOWN).replace('\n', " ")))
            .collect();
        Ok(BeforeTool::done(
            call,
            format!("You can call these now:\n{}", lines.join("\n")),
        ))
    }
}
