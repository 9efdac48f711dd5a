//! The words in which a case of the table is written, and how a script is run.
//!
//! Steps: `crash a` and other ends, `start`, `terminate`, `restart`, `delete`, `stop`, `advance 5s`;
//! `refuse a 2` (its next two starts fail), `ignore a`, `stubborn a` (does not stop when asked),
//! `hang a` (hangs in its start) until `release a`, `deny a` or `skip a`, `go a` (hangs no more).

use std::time::Duration;

use ghostlight_supervisor::machine::Input;
use ghostlight_supervisor::{
    AutoShutdown, Backoff, ChildKind, ChildSpec, Exit, RestartDecision, Shutdown, Strategy,
    SupervisorSpec,
};

use crate::world::{Fate, Life, Tree, World};

/// Reads `id:transient:significant:2s:brutal:infinity:supervisor`.
fn child(text: &str) -> ChildSpec {
    let mut words = text.split(':');
    let mut spec = ChildSpec::worker(words.next().unwrap());
    for word in words {
        spec = match word {
            "transient" => spec.transient(),
            "temporary" => spec.temporary(),
            "significant" => spec.significant(),
            "brutal" => spec.stopped_by(Shutdown::BrutalKill),
            "infinity" => spec.stopped_by(Shutdown::Infinity),
            "supervisor" => ChildSpec {
                kind: ChildKind::Supervisor,
                ..spec
            },
            time => spec.stopped_by(Shutdown::Within(duration(time))),
        };
    }
    spec
}

fn duration(text: &str) -> Duration {
    if let Some(ms) = text.strip_suffix("ms") {
        return Duration::from_millis(ms.parse().unwrap());
    }
    Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap())
}

/// Reads `one_for_all 3/5s any backoff 100ms`; without an intensity, restarts never run out.
fn supervisor(text: &str) -> SupervisorSpec {
    let mut words = text.split_whitespace();
    let mut spec = SupervisorSpec::new(match words.next().unwrap() {
        "one_for_one" => Strategy::OneForOne,
        "one_for_all" => Strategy::OneForAll,
        "rest_for_one" => Strategy::RestForOne,
        "simple_one_for_one" => Strategy::SimpleOneForOne,
        other => panic!("no strategy {other}"),
    })
    .intensity(1_000, Duration::from_secs(3_600));
    while let Some(word) = words.next() {
        spec = match word {
            "any" => spec.auto_shutdown(AutoShutdown::AnySignificant),
            "all" => spec.auto_shutdown(AutoShutdown::AllSignificant),
            "backoff" => {
                let base = duration(words.next().unwrap());
                spec.backoff(Backoff {
                    base,
                    ..Default::default()
                })
            }
            intensity => {
                let (restarts, period) = intensity.split_once('/').unwrap();
                spec.intensity(restarts.parse().unwrap(), duration(period))
            }
        };
    }
    spec
}

fn exit_of(word: &str) -> Option<(Exit, RestartDecision)> {
    let exit = match word {
        "crash" | "outage" => Exit::Failed {
            error: "crash".to_owned(),
        },
        "kill" => Exit::Killed,
        "abort" => Exit::Aborted,
        "lose" => Exit::Unobserved,
        "normal" => Exit::Stopped { reason: None },
        "shutdown" => Exit::Stopped {
            reason: Some("shutdown".to_owned()),
        },
        "shutdown_because" => Exit::Stopped {
            reason: Some("shutdown: done".to_owned()),
        },
        _ => return None,
    };
    let verdict = if word == "outage" {
        RestartDecision::Excused
    } else {
        RestartDecision::Counted
    };
    Some((exit, verdict))
}

/// Runs a script and compares trace and state. The trace begins after the first start, unless the
/// script begins with `boot`.
pub(crate) fn check(flags: &str, children: &str, script: &str, expected: &str) {
    let children = children
        .split_whitespace()
        .map(|text| (child(text), None))
        .collect();
    let tree = Tree {
        spec: supervisor(flags),
        children,
    };
    let mut world = World::new(tree, Duration::ZERO);
    let mut fate = Fate::default();
    let mut booted = false;
    for step in script
        .split(';')
        .map(str::trim)
        .filter(|step| !step.is_empty())
    {
        let before_boot = ["boot", "refuse", "stubborn", "hang", "ignore"];
        if !booted && !before_boot.iter().any(|word| step.starts_with(word)) {
            world.boot(&mut fate);
            fate.trace.clear();
            booted = true;
        }
        booted |= step == "boot";
        run_step(&mut world, step, &mut fate);
    }
    if !booted {
        world.boot(&mut fate);
    }
    if world.end.is_some() {
        world.assert_all_answered();
    }
    let actual = format!("{} | {}", fate.trace.join(" "), world.state());
    assert_eq!(actual.trim(), expected.trim(), "\n{flags} [{script}]");
}

/// Steps joined by `&` happen at one moment, before the supervisor hears of any.
fn run_step(world: &mut World, step: &str, fate: &mut Fate) {
    for part in step.split('&').map(str::trim) {
        let (word, rest) = part.split_once(' ').unwrap_or((part, ""));
        match word {
            "boot" => world.boot(fate),
            "refuse" => {
                let (id, times) = rest.split_once(' ').unwrap_or((rest, "1"));
                fate.refusals.insert(id.to_owned(), times.parse().unwrap());
            }
            "ignore" => drop(world.ignoring.insert(rest.to_owned())),
            "hang" => drop(world.hanging.insert(rest.to_owned())),
            "stubborn" => drop(world.stubborn.insert(rest.to_owned())),
            "release" | "deny" | "skip" => resolve_hanging(world, word, rest),
            "go" => drop(world.hanging.remove(rest)),
            "stop" => world.inputs.push_back(Input::Shutdown),
            "advance" => world.advance(duration(rest), fate),
            "start" => world.start_child(child(rest), None),
            "terminate" => world.terminate_child(rest),
            "restart" => world.restart_child(rest),
            "delete" => world.delete_child(rest),
            exit => {
                let (exit, verdict) = exit_of(exit).unwrap_or_else(|| panic!("no step {part}"));
                assert!(
                    world.die(rest, exit, verdict),
                    "{rest} is not alive: {}",
                    world.state()
                );
            }
        }
    }
    world.settle(fate);
}

/// A child that hung in its start has started after all, has failed to, or has chosen not to.
fn resolve_hanging(world: &mut World, how: &str, id: &str) {
    world.hanging.remove(id);
    let incarnation = world.machine.find(id).unwrap().incarnation.unwrap();
    assert!(
        matches!(world.lives.remove(&incarnation), Some(Life::Hanging)),
        "{id} does not hang"
    );
    let (error, verdict) = ("denied".to_owned(), RestartDecision::Counted);
    world.inputs.push_back(match how {
        "release" => {
            world.lives.insert(incarnation, Life::Leaf);
            Input::Started(incarnation)
        }
        "deny" => Input::StartFailed {
            incarnation,
            error,
            verdict,
        },
        _ => Input::Ignored(incarnation),
    });
}
