use std::{collections::HashMap, time::Duration};

use ghostlight_actors::{
    contract::{
        Callee, Interceptor, ModelContext, ModelError, NextModel, NextTool, ToolContext, ToolError,
        ToolErrorKind, ToolOutput,
    },
    vocabulary::{Arguments, ErrorKind, ModelRequest, ModelResponse, Timestamp, seconds},
};
use parking_lot::Mutex;
use serde::Deserialize;

/// Stops calls to a failing model or tool. After a number of failures in a row, calls are refused
/// at once for a while. Then one call is let through as a probe, and its outcome decides. Each
/// model and each tool has its own circuit.
///
/// A fault in the request (a wrong key, arguments that do not fit) is not a failure of the model or
/// tool. The pattern is from M. Nygard, *Release It!*.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CircuitBreaker {
    failures: u32,
    #[serde(rename = "open_s", with = "seconds")]
    open: Duration,
    #[serde(skip)]
    circuits: Mutex<HashMap<Callee, Circuit>>,
}

#[derive(Clone, Copy, Debug)]
enum Circuit {
    /// Calls pass; this many failures in a row so far.
    Closed(u32),
    /// Calls are refused until then.
    Open(Timestamp),
    /// One call is under way, and its outcome decides.
    Probing,
}

impl Default for CircuitBreaker {
    /// Opens after five failures in a row, for half a minute.
    fn default() -> Self {
        Self::new(5, Duration::from_secs(30))
    }
}

/// A call that was let through. If it is dropped without a verdict, it was cancelled, and the next
/// call may be the probe.
struct Passage<'a> {
    breaker: &'a CircuitBreaker,
    callee: &'a Callee,
    now: Timestamp,
    /// Whether it is the probe.
    probes: bool,
    judged: bool,
}

impl CircuitBreaker {
    /// Opens after this many failures in a row, for this long.
    pub fn new(failures: u32, open: Duration) -> Self {
        Self {
            failures,
            open,
            circuits: Mutex::default(),
        }
    }

    /// Lets a call through, or says for how long the circuit stays open.
    fn pass<'a>(&'a self, callee: &'a Callee, now: Timestamp) -> Result<Passage<'a>, Duration> {
        let mut circuits = self.circuits.lock();
        if !circuits.contains_key(callee) {
            circuits.retain(|callee, _| !callee.is_gone());
        }
        let circuit = circuits.entry(callee.clone()).or_insert(Circuit::Closed(0));
        let probes = match *circuit {
            Circuit::Closed(_) => false,
            Circuit::Open(until) if until <= now => true,
            Circuit::Open(until) => return Err(until.since(now)),
            Circuit::Probing => return Err(Duration::from_secs(1)),
        };
        if probes {
            *circuit = Circuit::Probing;
        }
        Ok(Passage {
            breaker: self,
            callee,
            now,
            probes,
            judged: false,
        })
    }
}

impl Passage<'_> {
    fn judge(mut self, failed: bool, now: Timestamp) {
        self.judged = true;
        let mut circuits = self.breaker.circuits.lock();
        let Some(circuit) = circuits.get_mut(self.callee) else {
            return;
        };
        let open = Circuit::Open(now.after(self.breaker.open));
        *circuit = match (*circuit, failed) {
            // A call that began before the circuit opened says nothing about the present.
            (Circuit::Open(until), _) => Circuit::Open(until),
            (Circuit::Probing, _) if !self.probes => Circuit::Probing,
            (_, false) => Circuit::Closed(0),
            (Circuit::Closed(before), true) if before + 1 < self.breaker.failures => {
                Circuit::Closed(before + 1)
            }
            (_, true) => open,
        };
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        if self.judged || !self.probes {
            return;
        }
        if let Some(circuit @ Circuit::Probing) = self.breaker.circuits.lock().get_mut(self.callee)
        {
            *circuit = Circuit::Open(self.now);
        }
    }
}

/// Whether an error is a fault of the server rather than of the request.
fn is_failure(error: &ModelError) -> bool {
    let kinds = [
        ErrorKind::Timeout,
        ErrorKind::Panicked,
        ErrorKind::Malformed,
    ];
    error.retryable || kinds.contains(&error.kind)
}

impl Interceptor for CircuitBreaker {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let name = format!("model {}", request.model);
        let passage = self
            .pass(next.callee(), next.clock().monotonic())
            .map_err(|left| {
                let message = format!("{name} keeps failing; it is not asked for another {left:?}");
                // The provider is down, and an immediate retry does not help.
                let error = ModelError::new(ErrorKind::Model, message).retryable();
                error.retry_after(left).exhausted()
            })?;
        let answer = next.respond(request, cx).await;
        passage.judge(
            answer.as_ref().is_err_and(is_failure),
            next.clock().monotonic(),
        );
        answer
    }

    async fn tool(
        &self,
        arguments: Arguments,
        cx: ToolContext,
        next: NextTool<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let name = format!("tool {}", next.definition().name);
        let passage = self
            .pass(next.callee(), next.clock().monotonic())
            .map_err(|left| {
                ToolError::new(format!(
                    "{name} keeps failing; it is not called for another {left:?}"
                ))
            })?;
        let output = next.call(arguments, cx).await;
        let failed = |error: &ToolError| error.kind != ToolErrorKind::Denied;
        passage.judge(output.as_ref().is_err_and(failed), next.clock().monotonic());
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_probe_decides_while_it_is_under_way() {
        let second = Duration::from_secs(1);
        let breaker = CircuitBreaker::new(1, second);
        let now = Timestamp::default();
        let tool = crate::interceptors::some_tool();
        let callee = tool.callee();
        let pass = |now: Timestamp| breaker.pass(&callee, now).ok();
        let early: Vec<_> = (0..4).filter_map(|_| pass(now)).collect();
        let [first, late, failing, dropped] =
            <[Passage<'_>; 4]>::try_from(early).unwrap_or_else(|_| panic!("all pass"));
        first.judge(true, now);
        assert!(pass(now).is_none(), "it is open");
        let now = now.after(second);
        let probe = pass(now).unwrap_or_else(|| panic!("one may try"));
        // A call that began earlier says nothing about the present, whatever its outcome.
        late.judge(false, now);
        assert!(pass(now).is_none());
        failing.judge(true, now);
        drop(dropped);
        assert!(pass(now).is_none(), "one probe at a time");
        probe.judge(false, now);
        assert!(pass(now).is_some());
    }
}
