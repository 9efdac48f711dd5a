//! The Agent Trajectory Interchange Format, version 1.8.

use std::collections::BTreeSet;

use ghostlight_actors::vocabulary::{Message, Role, RunId, Timestamp, ToolStatus};
use serde_json::{Map, Value, json};

use super::{
    Episode, Said, Trajectory, Verdict,
    messages::{object, reasoning, text, tools},
};
use crate::suite::Sample;

const VERSION: &str = "ATIF-v1.8";

/// The document of a trajectory. The runs below it are embedded in it.
pub(super) fn document(
    trajectory: &Trajectory,
    sample: Option<&Sample>,
    verdict: Verdict,
) -> Value {
    let root: Vec<&Episode> = trajectory.episodes.iter().collect();
    let runs: BTreeSet<RunId> = trajectory
        .delegated
        .iter()
        .map(|episode| episode.run)
        .collect();
    let mut document = of_run(trajectory, trajectory.run, &root, &runs);
    let mut seen = BTreeSet::new();
    let below = trajectory
        .delegated
        .iter()
        .filter(|episode| seen.insert(episode.run));
    let below: Vec<Value> = below
        .map(|first| {
            let of_it = trajectory.delegated.iter();
            let of_it: Vec<&Episode> = of_it.filter(|episode| episode.run == first.run).collect();
            of_run(trajectory, first.run, &of_it, &runs)
        })
        .collect();
    if !below.is_empty() {
        document["subagent_trajectories"] = below.into();
    }
    let mut extra = Map::new();
    if let Some(sample) = sample {
        extra.insert("sample".to_owned(), sample.id.clone().into());
    }
    if let Some(success) = verdict.success {
        extra.insert("success".to_owned(), success.into());
    }
    if let Some(reward) = verdict.reward {
        extra.insert("reward".to_owned(), reward.into());
    }
    if !extra.is_empty() {
        document["extra"] = extra.into();
    }
    document
}

fn of_run(
    trajectory: &Trajectory,
    run: RunId,
    episodes: &[&Episode],
    runs: &BTreeSet<RunId>,
) -> Value {
    let mut steps = Steps {
        steps: Vec::new(),
        runs,
        totals: Totals::default(),
    };
    for (place, episode) in episodes.iter().enumerate() {
        steps.episode(episode, place == 0);
    }
    let first = episodes.first();
    let mut agent = json!({
        "name": first.map_or("", |episode| episode.agent.as_str()),
        "version": env!("CARGO_PKG_VERSION"),
        "extra": { "system": "ghostlight", "team": trajectory.team },
    });
    if let Some(first) = first {
        agent["model_name"] = first.model.clone().into();
        let tools = tools(first);
        if !tools.is_empty() {
            agent["tool_definitions"] = tools.into();
        }
    }
    let session = trajectory.session.as_ref();
    let session = session.map_or_else(|| trajectory.run.to_string(), ToString::to_string);
    json!({
        "schema_version": VERSION,
        "session_id": session,
        "trajectory_id": run,
        "agent": agent,
        "final_metrics": steps.totals.metrics(steps.steps.len()),
        "steps": steps.steps,
    })
}

#[derive(Default)]
struct Totals {
    prompt: u64,
    completion: u64,
    cached: u64,
    cost_micros: u64,
}

impl Totals {
    fn metrics(&self, steps: usize) -> Value {
        let mut metrics = json!({
            "total_prompt_tokens": self.prompt,
            "total_completion_tokens": self.completion,
            "total_cached_tokens": self.cached,
            "total_steps": steps,
        });
        if self.cost_micros > 0 {
            metrics["total_cost_usd"] = (self.cost_micros as f64 / 1e6).into();
        }
        metrics
    }
}

struct Steps<'a> {
    steps: Vec<Value>,
    runs: &'a BTreeSet<RunId>,
    totals: Totals,
}

impl Steps<'_> {
    fn episode(&mut self, episode: &Episode, is_first: bool) {
        if !episode.instructions.trim().is_empty() {
            let mut step = json!({ "source": "system", "message": episode.instructions.trim() });
            if !is_first {
                // The conversation was handed over to another agent.
                step["extra"] = json!({ "agent": episode.agent });
            }
            self.push(step, None);
        }
        if is_first {
            for (place, said) in episode.before.iter().enumerate() {
                self.message(said, place < episode.earlier);
            }
        }
        for said in &episode.said {
            self.message(said, false);
        }
    }

    fn push(&mut self, mut step: Value, at: Option<Timestamp>) {
        step["step_id"] = (self.steps.len() + 1).into();
        if let Some(at) = at {
            step["timestamp"] = written(at).into();
        }
        self.steps.push(step);
    }

    fn message(&mut self, said: &Said, is_copied: bool) {
        let message = &*said.message;
        let source = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => return self.answer(said, is_copied),
            Role::Tool => return self.results(message),
        };
        let mut step = json!({ "source": source, "message": text(message) });
        if message.synthetic {
            step["extra"] = json!({ "made_by_the_loop": true });
        }
        if is_copied {
            step["is_copied_context"] = true.into();
        }
        self.push(step, said.at);
    }

    fn answer(&mut self, said: &Said, is_copied: bool) {
        let message = &*said.message;
        let mut step = json!({ "source": "agent", "message": text(message) });
        if is_copied {
            step["is_copied_context"] = true.into();
        }
        let reasoning = reasoning(message);
        if !reasoning.is_empty() {
            step["reasoning_content"] = reasoning.into();
        }
        let calls: Vec<Value> = message
            .tool_calls()
            .map(|call| {
                let mut shown = json!({
                    "tool_call_id": call.id,
                    "function_name": call.name,
                    "arguments": object(call.arguments.value()),
                });
                if call.arguments.value().is_err() {
                    shown["extra"] = json!({ "arguments_text": call.arguments.text() });
                }
                shown
            })
            .collect();
        if !calls.is_empty() {
            step["tool_calls"] = calls.into();
        }
        if let Some(call) = &said.call {
            let usage = &call.usage;
            step["llm_call_count"] = 1.into();
            step["model_name"] = call.model.clone().into();
            let mut metrics = json!({
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "cached_tokens": usage.cached_tokens,
                "extra": {
                    "latency_ms": call.latency_ms, "reasoning_tokens": usage.reasoning_tokens,
                },
            });
            if usage.cost_micros > 0 {
                metrics["cost_usd"] = (usage.cost_micros as f64 / 1e6).into();
            }
            step["metrics"] = metrics;
            self.totals.prompt += usage.input_tokens;
            self.totals.completion += usage.output_tokens;
            self.totals.cached += usage.cached_tokens;
            self.totals.cost_micros += usage.cost_micros;
        }
        let began: Vec<&(String, RunId)> = said
            .began
            .iter()
            .filter(|(_, run)| self.runs.contains(run))
            .collect();
        if !began.is_empty() {
            let results = began.iter().map(|(call, run)| {
                json!({
                    "source_call_id": call,
                    "subagent_trajectory_ref": [{ "trajectory_id": run }],
                })
            });
            step["observation"] = json!({ "results": results.collect::<Vec<Value>>() });
        }
        self.push(step, said.at);
    }

    /// The results of calls belong to the step that asked for them.
    fn results(&mut self, message: &Message) {
        let step = self
            .steps
            .iter_mut()
            .rev()
            .find(|step| step["source"] == "agent");
        let Some(step) = step else { return };
        let mut results: Vec<Value> = Vec::new();
        for result in message.tool_results() {
            let mut shown = json!({ "source_call_id": result.call_id, "content": result.text });
            if result.status != ToolStatus::Success {
                shown["extra"] = json!({ "status": result.status });
            }
            let known = step["observation"]["results"].as_array();
            let known = known
                .into_iter()
                .flatten()
                .find(|known| known["source_call_id"] == shown["source_call_id"]);
            if let Some(run) = known.and_then(|known| known.get("subagent_trajectory_ref")) {
                shown["subagent_trajectory_ref"] = run.clone();
            }
            results.push(shown);
        }
        step["observation"] = json!({ "results": results });
    }
}

/// A time as ISO 8601 has it.
fn written(at: Timestamp) -> String {
    let (seconds, millis) = (at.0 / 1_000, at.0 % 1_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years (146,097 days), which begin with a March.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_calendars_have_them() {
        for (at, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_001, "2024-03-01T00:00:00.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(written(Timestamp(at)), expected);
        }
    }
}
