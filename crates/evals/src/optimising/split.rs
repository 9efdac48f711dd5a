//! The samples for learning, for choosing and for the gain at the end.

use std::collections::BTreeMap;

use ghostlight_actors::vocabulary::Digest;

use super::spec::SplitSpec;
use crate::suite::{Sample, Split};

/// The places of samples, by purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) train: Vec<usize>,
    pub(super) validate: Vec<usize>,
    pub(super) test: Vec<usize>,
}

/// Deals the samples. Those that name their part are in it; of the others whole clusters are dealt, each to the part that
/// lacks most of its share.
pub(super) fn deal(samples: &[Sample], shares: SplitSpec) -> Result<Parts, String> {
    let shares = [
        (Split::Train, shares.train),
        (Split::Validate, shares.validate),
        (Split::Test, shares.test),
    ];
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    let in_bounds = |share: f64| share.is_finite() && share >= 0.0;
    if !shares.iter().all(|(_, share)| in_bounds(*share)) || sum <= 0.0 {
        return Err(String::from("has shares that are not parts of a whole"));
    }
    let mut parts = BTreeMap::<Split, Vec<usize>>::new();
    let mut clusters = BTreeMap::<(u64, &str), Vec<usize>>::new();
    for (place, sample) in samples.iter().enumerate() {
        match sample.split {
            Some(split) => parts.entry(split).or_default().push(place),
            None => {
                let cluster = sample.cluster();
                let order = Digest::of(cluster.as_bytes()).short();
                clusters.entry((order, cluster)).or_default().push(place);
            }
        }
    }
    for places in clusters.into_values() {
        let lacks = |(split, share): &(Split, f64)| {
            let has = parts.get(split).map_or(0, Vec::len) as f64;
            share / sum * samples.len() as f64 - has
        };
        let most = shares.iter().filter(|(_, share)| *share > 0.0);
        let most = most.max_by(|a, b| lacks(a).total_cmp(&lacks(b)));
        let split = most.map_or(Split::Train, |(split, _)| *split);
        parts.entry(split).or_default().extend(places);
    }
    let mut take = |split, least: usize, what: &str| {
        let mut places: Vec<usize> = parts.remove(&split).unwrap_or_default();
        places.sort_unstable();
        match places.len() < least {
            true => Err(format!(
                "leaves {} of {} samples for {what}; at least {least} are needed",
                places.len(),
                samples.len()
            )),
            false => Ok(places),
        }
    };
    Ok(Parts {
        train: take(Split::Train, 1, "learning (`train`)")?,
        validate: take(Split::Validate, 1, "choosing (`validate`)")?,
        test: take(Split::Test, 2, "the gain at the end (`test`)")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_stay_together_and_samples_where_they_say() {
        let mut samples: Vec<Sample> = (0..40).map(|n| Sample::new(format!("s{n}"), "x")).collect();
        for sample in &mut samples[..20] {
            let half = sample.id[1..].parse::<usize>().unwrap() / 2;
            sample.cluster = Some(format!("c{half}"));
        }
        samples[39].split = Some(Split::Test);
        let parts = deal(&samples, SplitSpec::default()).unwrap();
        let sizes = (parts.train.len(), parts.validate.len(), parts.test.len());
        assert_eq!(sizes.0 + sizes.1 + sizes.2, 40);
        assert!(
            sizes.0.abs_diff(12) <= 1 && sizes.2.abs_diff(16) <= 1,
            "{sizes:?}"
        );
        assert!(parts.test.contains(&39));
        for part in [&parts.train, &parts.validate, &parts.test] {
            for place in part.iter().filter(|place| **place < 20) {
                assert!(part.contains(&(place ^ 1)), "{parts:?}");
            }
        }
        samples.truncate(2);
        let told = deal(&samples, SplitSpec::default()).unwrap_err();
        assert!(told.contains("at least"), "{told}");
    }
}
