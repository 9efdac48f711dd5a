//! Estimates the usage that a server did not report.

use ghostlight_actors::vocabulary::{Message, ModelRequest, Usage};

use crate::{Estimate, TokenCounter as _};

/// The usage of a call. If the server reports nothing for the request, the response or both, that
/// side is estimated, so that budgets hold.
pub(super) fn estimated(told: Usage, request: &ModelRequest, answer: &Message) -> Usage {
    let mut usage = told;
    if usage.input_tokens == 0 {
        usage.input_tokens = Estimate.request(request);
        usage.estimated_tokens += usage.input_tokens;
    }
    if usage.output_tokens == 0 {
        usage.output_tokens = Estimate.message(answer);
        usage.estimated_tokens += usage.output_tokens;
    }
    usage
}

/// The usage of a call that failed after it had said this. A server tells its counts at the end, so what was said is
/// estimated where it told less.
pub(super) fn of_failed(told: Usage, request: &ModelRequest, said: &Message) -> Usage {
    let mut usage = told;
    if usage.input_tokens == 0 {
        usage.input_tokens = Estimate.request(request);
        usage.estimated_tokens += usage.input_tokens;
    }
    let least = if said.content().is_empty() {
        0
    } else {
        Estimate.message(said)
    };
    let more = least.saturating_sub(usage.output_tokens);
    usage.output_tokens += more;
    usage.estimated_tokens += more;
    usage
}
