//! Statistics agree with values from other implementations, and keep their bounds.

use ghostlight_evals::statistics::{
    Clustered, Comparison, Draws, Interval, Pair, Verdict, detectable_before, holm, mcnemar,
    pass_at_k, pass_hat_k, wilson,
};
use proptest::prelude::*;

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 5e-7, "{a} is not {b}");
}

#[test]
fn known_values_of_rates_and_tests_are_met() {
    close(pass_at_k(10, 3, 5).unwrap(), 0.916_667);
    close(pass_hat_k(4, 3, 2).unwrap(), 0.5);
    let interval = wilson(8, 10).unwrap();
    close(interval.lower, 0.490_162);
    close(interval.upper, 0.943_318);
    let test = mcnemar(10, 3);
    close(test.exact, 0.092_285);
    close(test.mid, 0.057_373);
    assert_eq!(mcnemar(0, 0).mid, 1.0);
    // Holm 1979: 0.01·3, then 0.02·2, then 0.03, never less than one before.
    let adjusted = holm(&[0.03, 0.01, 0.02]);
    for (value, expected) in adjusted.into_iter().zip([0.04, 0.03, 0.04]) {
        close(value, expected);
    }
}

#[test]
fn a_mean_of_clusters_has_the_interval_of_students_t() {
    // Two clusters of two: the deviations sum to 0.5 and -0.5, so SE = sqrt(2/1 · 0.5)/4 = 0.25, and t(1) = 12.7062.
    let clustered = Clustered::new([vec![1.0, 0.5], vec![0.5, 0.5]]);
    let mean = clustered.mean().unwrap();
    close(mean.estimate, 0.625);
    // The half width is above 1, and a share has bounds.
    assert_eq!(
        mean.interval,
        Some(Interval {
            lower: 0.0,
            upper: 1.0
        })
    );
    let clusters = (0..30).map(|i| vec![if i % 3 == 0 { 0.25 } else { 0.75 }; 2]);
    let mean = Clustered::new(clusters).mean().unwrap();
    // From scipy: mean 0.5833, sem of the thirty cluster means 0.0437688, t(29) = 2.0452296.
    close(mean.estimate, 0.583_333_3);
    close(
        mean.interval.unwrap().upper,
        0.583_333_3 + 2.045_229_6 * 0.043_768_8,
    );
}

#[test]
fn equal_scores_never_claim_certainty() {
    let mean = Clustered::new((0..10).map(|_| vec![1.0; 4]))
        .mean()
        .unwrap();
    let interval = mean.interval.unwrap();
    assert!(
        interval.lower < 0.75 && interval.upper == 1.0,
        "{interval:?}"
    );
    assert_eq!(
        Clustered::new([vec![0.5, 0.7]]).mean().unwrap().interval,
        None
    );
    assert!(Clustered::new([]).mean().is_none());
}

#[test]
fn equal_differences_never_claim_certainty() {
    let pairs = |count: usize, base: &[f64], other: &[f64]| -> Vec<Pair> {
        let pair = |sample: usize| Pair {
            cluster: sample.to_string(),
            base: base.to_vec(),
            other: other.to_vec(),
        };
        (0..count).map(pair).collect()
    };
    let verdict = |pairs: &[Pair], margin: f64| {
        let found = Comparison::of(pairs).unwrap();
        Verdict::of(found.interval, margin)
    };
    assert_eq!(
        verdict(&pairs(2, &[0.0; 2], &[1.0; 2]), 0.0),
        Verdict::Undecided
    );
    assert_eq!(verdict(&pairs(20, &[0.0], &[1.0]), 0.0), Verdict::Better);
    assert_eq!(
        verdict(&pairs(20, &[1.0], &[1.0]), 0.03),
        Verdict::Undecided
    );
    assert_eq!(
        verdict(&pairs(200, &[1.0], &[1.0]), 0.03),
        Verdict::NotWorse
    );
    // 0.1 + 0.2 is not 0.3 in its last bits.
    let rewards = pairs(3, &[5.1, 5.1], &[5.4, 5.4]);
    assert_eq!(verdict(&rewards, 0.0), Verdict::Undecided);
    let p = Comparison::of(&pairs(2, &[0.0; 2], &[1.0; 2])).unwrap().p;
    assert!((p.unwrap() - 0.5).abs() < 1e-12, "{p:?}");
    assert_eq!(
        Clustered::new([vec![0.8], vec![0.8]])
            .mean()
            .unwrap()
            .interval
            .map(|interval| interval.lower < 0.3 && interval.upper > 0.9),
        Some(true)
    );
}

/// How often a gate that allows a loss of three points passes a variant that loses ten, where nearly all samples succeed.
#[test]
fn a_gate_does_not_pass_what_is_worse_by_more_than_it_allows() {
    let mut draws = Draws::new(39);
    let mut draw = move || (draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut passed = 0;
    for _ in 0..2_000 {
        let pairs: Vec<Pair> = (0..20)
            .map(|sample| Pair {
                cluster: sample.to_string(),
                base: vec![1.0],
                other: vec![f64::from(u8::from(draw() < 0.9))],
            })
            .collect();
        let verdict = Verdict::of(Comparison::of(&pairs).unwrap().interval, 0.03);
        passed += u32::from(matches!(verdict, Verdict::Better | Verdict::NotWorse));
    }
    assert!(passed < 2_000 / 40, "{passed} of 2000");
}

#[test]
fn a_verdict_needs_the_whole_interval() {
    let within = |lower, upper| Some(Interval { lower, upper });
    assert_eq!(Verdict::of(within(0.01, 0.2), 0.0), Verdict::Better);
    assert_eq!(Verdict::of(within(-0.02, 0.2), 0.03), Verdict::NotWorse);
    assert_eq!(Verdict::of(within(-0.2, -0.01), 0.03), Verdict::Worse);
    assert_eq!(Verdict::of(within(-0.2, 0.2), 0.03), Verdict::Undecided);
    assert_eq!(Verdict::of(None, 1.0), Verdict::Undecided);
}

#[test]
fn samples_without_a_score_in_both_variants_are_left_out_of_a_comparison() {
    let pair = |name: &str, base: &[f64], other: &[f64]| Pair {
        cluster: name.to_owned(),
        base: base.to_vec(),
        other: other.to_vec(),
    };
    let pairs = [
        pair("a", &[0.0], &[1.0]),
        pair("b", &[1.0], &[1.0]),
        pair("c", &[1.0], &[]),
    ];
    let comparison = Comparison::of(&pairs).unwrap();
    assert_eq!((comparison.samples, comparison.difference), (2, 0.5));
    assert_eq!(comparison.mcnemar.unwrap().other_only, 1);
    assert!(Comparison::of(&pairs[2..]).is_none());
}

/// How often a gate without an allowed loss says "better" or "worse" of two variants that are equally good. Drawn with a
/// generator of its own, so that the figure is the same each time.
#[test]
fn false_alarms_are_rare() {
    let mut state = 7_u64;
    let mut draw = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    };
    let trials = 2_000;
    let mut alarms = 0;
    for _ in 0..trials {
        let pairs: Vec<Pair> = (0..50)
            .map(|sample| {
                let p = draw();
                let mut tries = || (0..4).map(|_| if draw() < p { 1.0 } else { 0.0 }).collect();
                Pair {
                    cluster: sample.to_string(),
                    base: tries(),
                    other: tries(),
                }
            })
            .collect();
        let interval = Comparison::of(&pairs).unwrap().interval;
        alarms += u32::from(
            Verdict::of(interval, 0.0) != Verdict::Undecided
                && interval.is_some_and(|i| i.lower > 0.0 || i.upper < 0.0),
        );
    }
    let share = f64::from(alarms) / f64::from(trials);
    assert!((0.03..0.06).contains(&share), "{share}");
}

proptest! {
    #[test]
    fn rates_and_intervals_keep_their_bounds(trials in 1_u64..60, successes in 0_u64..60, k in 1_u64..60) {
        let successes = successes.min(trials);
        let share = successes as f64 / trials as f64;
        let interval = wilson(successes, trials).unwrap();
        prop_assert!(0.0 <= interval.lower && interval.lower <= share + 1e-12);
        prop_assert!(share <= interval.upper + 1e-12 && interval.upper <= 1.0);
        match (pass_at_k(trials, successes, k), pass_hat_k(trials, successes, k)) {
            (Some(any), Some(all)) => {
                prop_assert!(k <= trials);
                prop_assert!((-1e-12..=share + 1e-12).contains(&all) && (share - 1e-12..=1.0 + 1e-12).contains(&any));
            }
            (any, all) => prop_assert!(k > trials && any.is_none() && all.is_none()),
        }
    }

    #[test]
    fn adjusted_values_are_never_smaller_and_keep_their_order(values in prop::collection::vec(0.0_f64..=1.0, 0..12)) {
        let adjusted = holm(&values);
        for (a, b) in values.iter().zip(&adjusted) {
            prop_assert!(b >= a && *b <= 1.0);
        }
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                prop_assert!(a > b || adjusted[i] <= adjusted[j]);
            }
        }
    }
}

/// How often a comparison of this size says "better" where the true difference is the one that is told to be the smallest
/// that it finds in four of five trials.
#[test]
fn the_smallest_detectable_difference_is_found_in_four_of_five_trials() {
    let (samples, repeats) = (150, 4);
    // Every sample succeeds with 0.4 in the base; the difference is small enough for the variances to be near these.
    let within = (0.4 * 0.6, 0.5 * 0.5);
    let difference = detectable_before(samples, repeats, 0.0, within).unwrap();
    let mut draws = Draws::new(5);
    let mut draw = move || (draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let trials = 1_000;
    let mut found = 0;
    for _ in 0..trials {
        let pairs: Vec<Pair> = (0..samples)
            .map(|sample| {
                let mut tries = |p: f64| -> Vec<f64> {
                    (0..repeats)
                        .map(|_| f64::from(u8::from(draw() < p)))
                        .collect()
                };
                Pair {
                    cluster: sample.to_string(),
                    base: tries(0.4),
                    other: tries(0.4 + difference),
                }
            })
            .collect();
        let comparison = Comparison::of(&pairs).unwrap();
        found += u32::from(Verdict::of(comparison.interval, 0.0) == Verdict::Better);
    }
    let power = f64::from(found) / f64::from(trials);
    assert!((0.76..0.84).contains(&power), "{power}");
    assert_eq!(detectable_before(0, 4, 0.0, within), None);
}

/// How often the intervals of resamples hold the true mean.
#[test]
fn the_intervals_of_resamples_hold_the_true_mean() {
    let mut draws = Draws::new(8);
    let mut draw = move || (draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let trials = 2_000;
    let (mut by_percentile, mut by_bca) = (0, 0);
    for trial in 0..trials {
        // A skewed score: the square of a uniform number, whose mean is a third.
        let clusters = (0..80).map(|_| vec![draw().powi(2)]);
        let clusters: Vec<Vec<f64>> = clusters.collect();
        let found = Clustered::new(clusters).bootstrap(trial, 500).unwrap();
        let holds = |interval: Interval| {
            u32::from((interval.lower..=interval.upper).contains(&(1.0 / 3.0)))
        };
        by_percentile += holds(found.percentile);
        by_bca += holds(found.bca);
    }
    for held in [by_percentile, by_bca] {
        let share = f64::from(held) / 2_000.0;
        assert!((0.93..0.97).contains(&share), "{share}");
    }
}

/// Samples of one cluster say the same, so ten clusters are no more evidence than ten samples.
#[test]
fn samples_that_are_alike_are_no_evidence_of_their_own() {
    let pairs = |clusters: usize, size: usize| -> Vec<Pair> {
        let samples = (0..clusters).flat_map(|cluster| (0..size).map(move |_| cluster));
        let pairs = samples.map(|cluster| Pair {
            cluster: cluster.to_string(),
            base: vec![f64::from(u8::from(cluster % 5 == 0))],
            other: vec![f64::from(u8::from(cluster % 5 < 3))],
        });
        pairs.collect()
    };
    let (one, ten) = (
        Comparison::of(&pairs(10, 1)).unwrap(),
        Comparison::of(&pairs(10, 10)).unwrap(),
    );
    assert!(one.mcnemar.is_some());
    assert!(ten.mcnemar.is_none(), "{:?}", ten.mcnemar);
    assert!(ten.p.unwrap() > 0.01, "{:?}", ten.p);
    let (one_within, ten_within) = (one.interval.unwrap(), ten.interval.unwrap());
    close(ten_within.lower, one_within.lower);
    close(ten_within.upper, one_within.upper);
    close(ten.detectable.unwrap(), one.detectable.unwrap());
}
