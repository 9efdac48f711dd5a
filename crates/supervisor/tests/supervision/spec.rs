//! Specs as plain data: what they say in a file, what is refused, how long a back-off waits.

use std::time::Duration;

use ghostlight_supervisor::{
    AutoShutdown, Backoff, ChildKind, ChildSpec, EndReason, Escalation, Exit, Intensity, Restart,
    Shutdown, SpecError, Strategy, SupervisorSpec, seconds,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[test]
fn a_supervisor_is_written_with_units_in_its_names() {
    let spec = SupervisorSpec::new(Strategy::RestForOne)
        .intensity(3, Duration::from_secs(10))
        .backoff(Backoff::exponential(
            Duration::from_millis(200),
            Duration::from_secs(5),
        ))
        .auto_shutdown(AutoShutdown::AnySignificant)
        .seed(7);
    let json = json!({
        "strategy": "rest_for_one",
        "intensity": { "restarts": 3, "period_s": 10 },
        "backoff": {
            "base_s": 0.2, "factor": 2.0, "max_s": 5, "jitter": 0.2, "reset_after_s": 60,
        },
        "auto_shutdown": "any_significant",
        "seed": 7,
    });
    assert_eq!(serde_json::to_value(spec).unwrap(), json);
    assert_eq!(
        serde_json::from_value::<SupervisorSpec>(json).unwrap(),
        spec
    );
    let empty: SupervisorSpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(empty, SupervisorSpec::default());
    assert!(serde_json::from_value::<SupervisorSpec>(json!({ "strateqy": "x" })).is_err());
}

#[test]
fn a_time_in_a_file_is_a_number_of_seconds() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct File {
        #[serde(with = "seconds")]
        wait_s: Duration,
        #[serde(with = "seconds", default)]
        timeout_s: Option<Duration>,
    }
    let read = |text: &str| serde_json::from_str::<File>(text);
    let written = r#"{"wait_s":90,"timeout_s":0.05}"#;
    let file = read(written).unwrap();
    assert_eq!(file.wait_s, Duration::from_secs(90));
    assert_eq!(file.timeout_s, Some(Duration::from_millis(50)));
    assert_eq!(serde_json::to_string(&file).unwrap(), written);
    assert_eq!(
        read(r#"{"wait_s":0,"timeout_s":null}"#).unwrap().timeout_s,
        None
    );
    for (wrong, told) in [
        (
            r#"{"wait_s":-1}"#,
            "`-1`, expected a number of seconds, 0 or more",
        ),
        (
            r#"{"wait_s":-0.5}"#,
            "`-0.5`, expected a number of seconds, 0 or more",
        ),
        (r#"{"wait_s":1e300}"#, "expected a number of seconds"),
        (
            r#"{"wait_s":18446744073709552}"#,
            "expected a number of seconds",
        ),
        (r#"{"wait_s":"1m"}"#, "\"1m\", expected a number of seconds"),
    ] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(error.contains(told), "{wrong}: {error}");
    }
}

#[test]
fn a_child_is_written_with_what_differs_from_the_default() {
    let child: ChildSpec = serde_json::from_value(json!({
        "id": "a", "restart": "transient", "shutdown": { "within_s": 0.25 }, "significant": true,
        "kind": "supervisor",
    }))
    .unwrap();
    let expected = ChildSpec::supervisor("a")
        .transient()
        .significant()
        .stopped_by(Shutdown::Within(Duration::from_millis(250)));
    assert_eq!(child, expected);
    let brutal = json!({ "id": "a", "shutdown": "brutal_kill" });
    let brutal: ChildSpec = serde_json::from_value(brutal).unwrap();
    assert_eq!(brutal.shutdown(), Shutdown::BrutalKill);
}

#[test]
fn defaults_are_otps() {
    assert_eq!(
        Intensity::default(),
        Intensity::new(1, Duration::from_secs(5))
    );
    let worker = ChildSpec::worker("a");
    assert_eq!(
        (worker.restart, worker.kind),
        (Restart::Permanent, ChildKind::Worker)
    );
    assert_eq!(worker.shutdown(), Shutdown::Within(Duration::from_secs(5)));
    assert_eq!(ChildSpec::supervisor("a").shutdown(), Shutdown::Infinity);
    assert_eq!(SupervisorSpec::default().strategy, Strategy::OneForOne);
    assert_eq!(SupervisorSpec::default().auto_shutdown, AutoShutdown::Never);
    assert_eq!(Backoff::default().delay(100, 0.5), Duration::ZERO);
}

#[test]
fn wrong_specs_are_refused_with_the_reason() {
    let spec = SupervisorSpec::default();
    let check = |spec: SupervisorSpec, children: &[ChildSpec]| spec.validate(children);
    assert_eq!(check(spec, &[]), Ok(()));
    let zero = spec.intensity(1, Duration::ZERO);
    assert_eq!(check(zero, &[]), Err(SpecError::PeriodZero));
    for factor in [0.5, f64::NAN, f64::INFINITY] {
        let error = check(
            spec.backoff(Backoff {
                factor,
                ..Backoff::IMMEDIATE
            }),
            &[],
        );
        assert!(matches!(error, Err(SpecError::BackoffFactor { .. })));
    }
    for jitter in [-0.1, 1.1, f64::NAN] {
        let error = check(
            spec.backoff(Backoff {
                jitter,
                ..Backoff::IMMEDIATE
            }),
            &[],
        );
        assert!(matches!(error, Err(SpecError::BackoffJitter { .. })));
    }
    let (a, id) = (ChildSpec::worker("a"), "a".to_owned());
    let twice = check(spec, &[a.clone(), a.clone()]);
    assert_eq!(twice, Err(SpecError::DuplicateId { id: id.clone() }));
    let never = check(spec, &[a.clone().transient().significant()]);
    assert_eq!(never, Err(SpecError::SignificantNever { id: id.clone() }));
    let permanent = check(
        spec.auto_shutdown(AutoShutdown::AnySignificant),
        &[a.significant()],
    );
    assert_eq!(permanent, Err(SpecError::SignificantPermanent { id }));
}

#[test]
fn reasons_of_an_end_begin_as_otps_do_and_survive_json() {
    let escalation = Escalation {
        child: "a".to_owned(),
        exit: Exit::Failed {
            error: "no".to_owned(),
        },
        restarts: 2,
        period_ms: 5_000,
    };
    let failed = EndReason::StartFailed {
        child: "a".to_owned(),
        error: "no".to_owned(),
    };
    let auto = EndReason::AutoShutdown {
        child: "a".to_owned(),
    };
    for reason in [
        EndReason::Stopped,
        failed,
        EndReason::RestartsUsedUp(escalation),
        auto,
    ] {
        assert!(reason.to_string().starts_with("shutdown"));
        let json = serde_json::to_string(&reason).unwrap();
        assert_eq!(serde_json::from_str::<EndReason>(&json).unwrap(), reason);
    }
}

proptest! {
    #[test]
    fn a_back_off_stays_within_its_bounds_and_grows(
        base_ms in 0u64..10_000, max_ms in 0u64..100_000, factor in 1.0f64..10.0,
        jitter in 0.0f64..=1.0, failures in any::<u32>(), chance in 0.0f64..1.0,
    ) {
        let backoff = Backoff {
            base: Duration::from_millis(base_ms),
            max: Duration::from_millis(max_ms),
            factor,
            jitter,
            ..Backoff::IMMEDIATE
        };
        let delay = backoff.delay(failures, chance);
        prop_assert!(delay <= backoff.max);
        prop_assert!(base_ms > 0 || delay.is_zero());
        let full = Backoff { jitter: 0.0, ..backoff }.delay(failures, chance);
        prop_assert!(delay <= full);
        let least = full.mul_f64(1.0 - jitter).saturating_sub(Duration::from_micros(1));
        prop_assert!(delay >= least);
        let next = Backoff { jitter: 0.0, ..backoff }.delay(failures.saturating_add(1), 0.0);
        prop_assert!(full <= next);
    }
}
