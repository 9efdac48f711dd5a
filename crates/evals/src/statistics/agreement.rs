//! Agreement between those who judge the same things.

/// How much two verdicts differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Distance {
    /// Different verdicts differ by 1: for names without an order.
    Nominal,
    /// Verdicts differ by the square of their difference: for scores.
    Squared,
}

impl Distance {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Nominal => f64::from(u8::from(a != b)),
            Self::Squared => (a - b).powi(2),
        }
    }
}

/// Cohen's kappa of two judges, from their verdicts about each thing: 1 is full agreement, 0 that of chance. With
/// [`Distance::Squared`] it is the kappa weighted by squares (Cohen 1968). `None` for no verdicts, and where both judges
/// gave one and the same verdict throughout, since nothing then tells agreement from habit.
pub fn cohens_kappa(pairs: &[(f64, f64)], distance: Distance) -> Option<f64> {
    let observed: f64 = pairs.iter().map(|(a, b)| distance.of(*a, *b)).sum::<f64>();
    let (first, second) = (
        counted(pairs.iter().map(|p| p.0)),
        counted(pairs.iter().map(|p| p.1)),
    );
    let expected = expected(&first, &second, distance);
    let n = pairs.len() as f64;
    match expected > 0.0 {
        true => Some(1.0 - (observed / n) / (expected / (n * n))),
        false => None,
    }
}

/// Krippendorff's alpha of any number of judges (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"), from
/// the verdicts about each thing; a thing with fewer than two verdicts says nothing. `None` where all verdicts are the
/// same or none can be compared.
pub fn krippendorffs_alpha(things: &[Vec<f64>], distance: Distance) -> Option<f64> {
    let compared = things.iter().filter(|verdicts| verdicts.len() > 1);
    let (mut observed, mut all) = (0.0, Vec::new());
    for verdicts in compared {
        let own = counted(verdicts.iter().copied());
        observed += expected(&own, &own, distance) / (verdicts.len() - 1) as f64;
        all.extend(verdicts.iter().copied());
    }
    let n = all.len() as f64;
    let all = counted(all.into_iter());
    let expected = expected(&all, &all, distance);
    match expected > 0.0 {
        true => Some(1.0 - (observed / n) / (expected / (n * (n - 1.0)))),
        false => None,
    }
}

/// Each verdict with its number.
fn counted(verdicts: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let mut verdicts: Vec<f64> = verdicts.collect();
    verdicts.sort_by(f64::total_cmp);
    let mut counted: Vec<(f64, f64)> = Vec::new();
    for verdict in verdicts {
        match counted.last_mut() {
            Some((last, count)) if *last == verdict => *count += 1.0,
            _ => counted.push((verdict, 1.0)),
        }
    }
    counted
}

/// The sum of the distances of each verdict to each.
fn expected(first: &[(f64, f64)], second: &[(f64, f64)], distance: Distance) -> f64 {
    let pairs = first
        .iter()
        .flat_map(|a| second.iter().map(move |b| (a, b)));
    pairs.map(|(a, b)| a.1 * b.1 * distance.of(a.0, b.0)).sum()
}
