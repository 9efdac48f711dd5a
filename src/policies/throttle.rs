//! Messages to people that do not come too often.

use std::{collections::BTreeMap, time::Duration};

use ghostlight_actors::{
    run::{BeforeTool, Policy, PolicyContext},
    vocabulary::{AgentError, Scope, Timestamp, ToolCall, ToolResult, ToolStatus, seconds},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Checked;

/// Holds back calls that send messages where one went the same way a short while ago, and tells the
/// agent so: what was held back was not sent.
///
/// After a message of some length nothing follows it for a while; short ones may follow each other
/// sooner. A message that failed counts for nothing. What was sent is remembered in the session.
///
/// ```yaml
/// policies: [{ name: pace, tools: { send_mail: to, publish: topic }, quiet_s: 300 }]
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Throttle {
    /// The tools that send messages, each with the argument that says which way: an address, a
    /// channel. With an empty text all messages of a tool go one way.
    pub tools: BTreeMap<String, String>,
    /// For how long nothing follows a message.
    #[serde(rename = "quiet_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub quiet: Duration,
    /// For how long no short message follows another one.
    #[serde(rename = "short_quiet_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub short_quiet: Duration,
    /// A message is short that has at most this many characters.
    pub short_characters: u32,
    /// The state before a call of this step that may yet fail.
    #[serde(skip)]
    before: BTreeMap<String, (String, Option<Sent>)>,
}

/// When messages went a way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sent {
    /// Any of them.
    last: Timestamp,
    /// One that was not short.
    long: Option<Timestamp>,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            tools: BTreeMap::new(),
            quiet: Duration::from_secs(120),
            short_quiet: Duration::from_secs(15),
            short_characters: 120,
            before: BTreeMap::new(),
        }
    }
}

impl Throttle {
    /// Paces the messages of this tool, whose argument `way` says where they go.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, way: impl Into<String>) -> Self {
        self.tools.insert(name.into(), way.into());
        self
    }

    /// Sets for how long nothing follows a message, and no short one another short one.
    #[must_use]
    pub fn quiet(mut self, after_long: Duration, after_short: Duration) -> Self {
        (self.quiet, self.short_quiet) = (after_long, after_short);
        self
    }

    /// For how long a message must wait still, in seconds.
    fn wait(&self, sent: Sent, is_short: bool, now: Timestamp) -> Option<u64> {
        let left = |since: Timestamp, quiet: Duration| {
            let left = quiet.saturating_sub(now.since(since)).as_millis();
            (left > 0).then(|| u64::try_from(left.div_ceil(1_000)).unwrap_or(u64::MAX))
        };
        let after_long = sent.long.and_then(|long| left(long, self.quiet));
        let after_any = left(sent.last, self.short_quiet).filter(|_| is_short);
        after_long.max(after_any)
    }

    fn is_short(&self, call: &ToolCall, way: &str) -> bool {
        let arguments = call.arguments.value().ok().and_then(Value::as_object);
        let texts = arguments.into_iter().flatten();
        let said = texts.filter(|(name, _)| *name != way);
        let characters = said.filter_map(|(_, value)| Some(value.as_str()?.chars().count()));
        characters.sum::<usize>() <= self.short_characters as usize
    }
}

impl Checked for Throttle {
    fn check(&self) -> Result<(), String> {
        if self.quiet.is_zero() {
            return Err("quiet_s must be above 0".to_owned());
        }
        match self.tools.is_empty() {
            true => Err("tools must name at least one".to_owned()),
            false => Ok(()),
        }
    }
}

impl Policy for Throttle {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        let Some(way) = self.tools.get(&call.name) else {
            return Ok(BeforeTool::Go);
        };
        // The call has kept its place since it was first asked about.
        if cx.is_asked_again() {
            return Ok(BeforeTool::Go);
        }
        let arguments = call.arguments.value().ok();
        let to = arguments.and_then(|arguments| arguments.get(way));
        let to = to.map_or_else(String::new, |to| match to.as_str() {
            Some(text) => text.to_owned(),
            None => to.to_string(),
        });
        let (key, now) = (format!("pace:{}:{to}", call.name), cx.now().await?);
        let state = cx.state(Scope::Session);
        let before = state.get::<Sent>(key.as_str()).await?;
        let is_short = self.is_short(call, way);
        if let Some(seconds) = before.and_then(|sent| self.wait(sent, is_short, now)) {
            let told = format!(
                "Held back, and not sent: a message went there a short while ago. The next one may \
                 go in {seconds} s; say by then all that there is in one."
            );
            return Ok(BeforeTool::blocked(call, told));
        }
        let long = before.and_then(|sent| sent.long);
        let sent = Sent {
            last: now,
            long: if is_short { long } else { Some(now) },
        };
        state.set(key.as_str(), &sent).await?;
        self.before.insert(call.id.clone(), (key, before));
        Ok(BeforeTool::Go)
    }

    async fn after_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        let Some((key, before)) = self.before.remove(&call.id) else {
            return Ok(None);
        };
        // What may have been sent counts as sent.
        if matches!(result.status, ToolStatus::Success | ToolStatus::Unknown) {
            return Ok(None);
        }
        let state = cx.state(Scope::Session);
        match before {
            Some(before) => state.set(key, &before).await.map(drop)?,
            None => state.delete(key).await?,
        }
        Ok(None)
    }
}
