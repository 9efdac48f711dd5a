//! The beginning and the end of the client's run, which may be a part of ours.

use ghostlight_actors::vocabulary::{QuestionKind, RunId, Timestamp};
use serde_json::{Value, json};

use super::{
    event::{Event, Outcome, SubagentOutcome, TokenUsage, Told, VERSION},
    forms::{interrupt, subagent},
    input::id_of,
    reader::{Asked, Reader},
};

impl Reader {
    /// The first events of the client's run: its state, and what of it is under way.
    pub(super) fn begin(&mut self, at: Option<Timestamp>) -> Vec<Told> {
        self.has_begun = true;
        self.usage.clear();
        let root = self.root;
        let mut events = vec![Event::RunStarted {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            protocol_version: VERSION,
            metadata: Some(json!({ "ghostlight": { "run": root.to_string() } })),
        }];
        events.extend(self.snapshot());
        let mut told = self.tell_all(root, at, events);
        for (run, event) in self.under_way() {
            told.push(self.tell(run, at, event));
        }
        told
    }

    /// The state as the client should have it; `None` where there is none.
    pub(super) fn snapshot(&self) -> Option<Event> {
        let snapshot = Value::Object(self.state.clone());
        (!self.state.is_empty()).then_some(Event::StateSnapshot { snapshot })
    }

    /// The state once more, for a client that resumes in the middle.
    pub(super) fn again(&mut self) -> Vec<Told> {
        let (root, snapshot) = (self.root, self.snapshot());
        self.tell_all(root, None, snapshot.into_iter().collect())
    }

    /// The beginnings of subagents and steps that have not ended, those of a parent at the front.
    fn under_way(&self) -> Vec<(RunId, Event)> {
        let mut events = Vec::new();
        for run in self.runs_down() {
            let Some(line) = self.lines.get(&run) else {
                continue;
            };
            if let Some((parent, agent)) = &line.below {
                events.push((run, subagent(*parent, agent)));
            }
            for step in &line.steps {
                let step_name = self.step(run, *step);
                events.push((run, Event::StepStarted { step_name }));
            }
        }
        events
    }

    /// The runs under way, parents before their children.
    fn runs_down(&self) -> Vec<RunId> {
        let mut runs: Vec<RunId> = vec![self.root];
        let mut place = 0;
        while let Some(parent) = runs.get(place).copied() {
            for (run, line) in &self.lines {
                let of = line.below.as_ref().map(|(of, _)| of.unwrap_or(self.root));
                // A child may outlive its parent.
                let is_lost = of.is_some_and(|of| of != self.root && !self.lines.contains_key(&of));
                if (of == Some(parent) || is_lost && place == 0) && !runs.contains(run) {
                    runs.push(*run);
                }
            }
            place += 1;
        }
        runs
    }

    pub(super) fn step(&self, run: RunId, step: u32) -> String {
        let line = self.lines.get(&run).and_then(|line| line.below.as_ref());
        match line {
            None => format!("step {step}"),
            Some((_, agent)) => format!("{agent} {run:.8}: step {step}"),
        }
    }

    pub(super) fn finished(&self, result: Option<Value>, outcome: Outcome) -> Event {
        Event::RunFinished {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            result,
            outcome,
            usage: self.consumed(),
        }
    }

    pub(super) fn consumed(&self) -> Vec<TokenUsage> {
        let each = self.usage.iter().map(|(model, usage)| TokenUsage {
            model: model.clone(),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            total_tokens: usage.input_tokens.saturating_add(usage.output_tokens),
            reasoning_tokens: usage.reasoning_tokens,
            cached_input_tokens: usage.cached_tokens,
        });
        each.collect()
    }

    /// Ends everything that is open below the end of the client's run, children before their parents.
    pub(super) fn suspend(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        for run in self.runs_down().into_iter().rev() {
            let mut events = Vec::new();
            let kept = self.lines.get(&run).map(|line| line.steps.clone());
            self.close(run, &mut events);
            if let Some(line) = self.lines.get_mut(&run) {
                line.steps = kept.unwrap_or_default();
            }
            if self
                .lines
                .get(&run)
                .is_some_and(|line| line.below.is_some())
            {
                let own = self.open.iter().filter(|asked| asked.run == run);
                let interrupt_ids = own.map(|asked| id_of(run, asked.operation)).collect();
                events.push(Event::SubagentFinished {
                    result: None,
                    outcome: SubagentOutcome::Suspended { interrupt_ids },
                });
            }
            told.extend(self.tell_all(run, None, events));
        }
        told
    }

    /// The end of the client's run at the open questions.
    pub(super) fn interrupt(&mut self) -> Vec<Told> {
        let mut told = self.suspend();
        let (results, asked): (Vec<&Asked>, Vec<&Asked>) = self
            .open
            .iter()
            .partition(|asked| asked.question.kind == QuestionKind::ToolResult);
        let outcome = if asked.is_empty() {
            let ids = results.iter().filter_map(|asked| asked.call.clone());
            Outcome::Success {
                pending_tool_call_ids: ids.collect(),
            }
        } else {
            let interrupts = asked.iter().map(|asked| interrupt(asked, self.root));
            Outcome::Interrupt {
                interrupts: interrupts.collect(),
            }
        };
        let mut events: Vec<Event> = self.snapshot().into_iter().collect();
        events.extend(self.conversation.snapshot());
        events.push(self.finished(None, outcome));
        self.is_over = true;
        let root = self.root;
        told.extend(self.tell_all(root, None, events));
        told
    }

    /// The end of the client's run by an error.
    pub(super) fn fail(&mut self, message: String, code: &str) -> Vec<Told> {
        let mut told = Vec::new();
        if !self.has_begun {
            told.extend(self.begin(None));
        }
        told.extend(self.suspend());
        self.is_over = true;
        let event = Event::RunError {
            message,
            code: code.to_owned(),
            usage: self.consumed(),
        };
        let root = self.root;
        told.push(self.tell(root, None, event));
        told
    }

    /// A whole run of the client's that only shows the messages of the thread.
    pub(super) fn show(&mut self, is_all: bool) -> Vec<Told> {
        let mut told = self.begin(None);
        let mut events: Vec<Event> = self.conversation.snapshot().into_iter().collect();
        if is_all {
            let pending_tool_call_ids = Vec::new();
            let outcome = Outcome::Success {
                pending_tool_call_ids,
            };
            events.push(self.finished(None, outcome));
            self.is_over = true;
        }
        let root = self.root;
        told.extend(self.tell_all(root, None, events));
        told
    }
}
