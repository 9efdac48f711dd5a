//! The budget of an evaluation, and its usage.

use std::sync::Mutex;

use ghostlight_actors::vocabulary::Spent;

use crate::suite::SuiteBudget;

/// The budget of an evaluation, from which its cells and judges take.
#[derive(Debug, Default)]
pub(crate) struct Purse {
    budget: SuiteBudget,
    spent: Mutex<Spent>,
}

impl Purse {
    pub(crate) fn new(budget: SuiteBudget) -> Self {
        Self {
            budget,
            spent: Mutex::default(),
        }
    }

    /// Counts what was consumed.
    pub(crate) fn add(&self, spent: &Spent) {
        if let Ok(mut all) = self.spent.lock() {
            add(&mut all, spent);
        }
    }

    /// Why nothing may be begun any more, if so.
    pub(crate) fn exhausted(&self) -> Option<String> {
        let spent = self.spent.lock().ok()?;
        let budget = &self.budget;
        let bounds = [
            ("cost_micros", budget.cost_micros, spent.usage.cost_micros),
            ("tokens", budget.tokens, spent.usage.total_tokens()),
            ("model_calls", budget.model_calls, spent.model_calls),
        ];
        let over = bounds
            .into_iter()
            .find(|(_, bound, used)| bound.is_some_and(|bound| *used >= bound));
        over.map(|(what, ..)| format!("the evaluation's budget of {what} is used up"))
    }
}

/// Adds what was consumed.
pub(crate) fn add(all: &mut Spent, spent: &Spent) {
    all.model_calls = all.model_calls.saturating_add(spent.model_calls);
    all.tool_calls = all.tool_calls.saturating_add(spent.tool_calls);
    all.usage += spent.usage;
}
