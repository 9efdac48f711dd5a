//! The formulas by which memories are found, kept and forgotten. All are pure.

use std::collections::BTreeSet;

/// The likeness of a search and one item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Likeness {
    /// The cosine of the two vectors, 0 to 1, where both have one.
    pub(crate) cosine: Option<f64>,
    /// The share of the question's terms that occur in the item.
    pub(crate) keyword: f64,
    /// The share of the question's tags, or else terms, that are tags of the item.
    pub(crate) tags: f64,
}

impl Likeness {
    /// The relevance of the item to the question, without any other factor.
    pub(crate) fn relevance(&self) -> f64 {
        self.cosine.unwrap_or(0.0).max(self.keyword).max(self.tags)
    }

    /// The cosine; without vectors the share of terms.
    fn vector(&self) -> f64 {
        self.cosine.unwrap_or(self.keyword)
    }
}

/// The share of the question's terms that are among the item's.
pub(crate) fn keyword_score(query: &BTreeSet<String>, item: &BTreeSet<String>) -> f64 {
    if query.is_empty() {
        return 0.0;
    }
    let found = query.iter().filter(|term| item.contains(*term)).count();
    found as f64 / query.len() as f64
}

/// Jaccard's index of two sets of terms: the size of their intersection by that of their union.
pub(crate) fn jaccard(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let shared = a.intersection(b).count();
    let all = a.len() + b.len() - shared;
    if all == 0 {
        0.0
    } else {
        shared as f64 / all as f64
    }
}

/// The dot product of two vectors of length 1, limited to 0 to 1.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    // Eight sums side by side, which a processor computes at once: one sum would have to be added up in its order.
    let mut sums = [0.0_f32; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest: f32 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    f64::from(sums.iter().sum::<f32>() + rest).clamp(0.0, 1.0)
}

/// `0.8 + 0.4 · importance`.
pub(crate) fn importance_factor(importance: f64) -> f64 {
    0.8 + 0.4 * importance
}

/// `e^(−age / time)`.
pub(crate) fn decay(age_hours: f64, time_hours: f64) -> f64 {
    (-age_hours / time_hours.max(f64::MIN_POSITIVE)).exp()
}

/// Working memory: `(0.7·vec + 0.3·kw) · e^(−age/decay) · factor`.
pub(crate) fn working_score(
    like: Likeness,
    age_hours: f64,
    decay_hours: f64,
    importance: f64,
) -> f64 {
    let alike = 0.7 * like.vector() + 0.3 * like.keyword;
    alike * decay(age_hours, decay_hours) * importance_factor(importance)
}

/// Episodic memory: `(0.8·vec + 0.2·e^(−age/30 d)) · factor`.
pub(crate) fn episodic_score(like: Likeness, age_hours: f64, importance: f64) -> f64 {
    let recent = decay(age_hours, 30.0 * 24.0);
    (0.8 * like.vector() + 0.2 * recent) * importance_factor(importance)
}

/// Facts: `(0.7·vec + 0.3·tags) · factor`.
pub(crate) fn semantic_score(like: Likeness, importance: f64) -> f64 {
    (0.7 * like.vector() + 0.3 * like.tags) * importance_factor(importance)
}

/// Work on goals: `relevance · (0.6·e^(−0.01·hours) + 0.4·importance)`; an item without a rating has the importance
/// 0.5.
pub(crate) fn episode_score(like: Likeness, age_hours: f64, importance: f64) -> f64 {
    like.relevance() * (0.6 * (-0.01 * age_hours).exp() + 0.4 * importance)
}

/// The remaining strength of an item after this many hours without use: `e^(−t/S)` with `S = 0.5·(1 + importance)·(1 +
/// ln(1 + uses))` days, and never less than 0.1.
pub(crate) fn retention(hours: f64, importance: f64, accesses: u64) -> f64 {
    let days = hours / 24.0;
    let strength = 0.5 * (1.0 + importance) * (1.0 + (1.0 + accesses as f64).ln());
    (-days / strength).exp().max(0.1)
}

/// The share of citations that helped: `helpful / (helpful + harmful)`, and 0.5 without any.
pub(crate) fn success_rate(helpful: u64, harmful: u64) -> f64 {
    match helpful.saturating_add(harmful) {
        0 => 0.5,
        uses => helpful as f64 / uses as f64,
    }
}

/// The quality of a piece of work: `0.4·outcome + 0.2·efficiency + 0.2·tools + 0.2·no error`. The efficiency is 1 up to
/// 5 steps, and 0.2 from 15 steps on.
pub(crate) fn quality(succeeded: bool, steps: u32, tools_succeeded: f64, error_free: bool) -> f64 {
    let over = (f64::from(steps) - 5.0).clamp(0.0, 10.0) / 10.0;
    let efficiency = 1.0 - 0.8 * over;
    let yes = |is: bool| if is { 1.0 } else { 0.0 };
    0.4 * yes(succeeded)
        + 0.2 * efficiency
        + 0.2 * tools_succeeded.clamp(0.0, 1.0)
        + 0.2 * yes(error_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-4, "{found} is not {expected}");
    }

    fn set(words: &str) -> BTreeSet<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn like(cosine: f64, keyword: f64, tags: f64) -> Likeness {
        Likeness {
            cosine: Some(cosine),
            keyword,
            tags,
        }
    }

    #[test]
    fn each_formula_gives_what_was_computed_by_hand() {
        near(
            keyword_score(&set("red green lamp"), &set("lamp green tall")),
            0.666667,
        );
        near(keyword_score(&set(""), &set("lamp")), 0.0);
        near(jaccard(&set("a b c"), &set("b c d")), 0.5);
        for (importance, factor) in [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)] {
            near(importance_factor(importance), factor);
        }
        // (0.7·0.9 + 0.3·0.5)·e^(−12/24)·1.0 = 0.78·0.606531
        near(
            working_score(like(0.9, 0.5, 0.0), 12.0, 24.0, 0.5),
            0.473094,
        );
        // (0.7·1 + 0.3·1)·e^(−1)·1.2
        near(
            working_score(like(1.0, 1.0, 0.0), 24.0, 24.0, 1.0),
            0.441455,
        );
        // Without vectors terms take their place: (0.7·0.5 + 0.3·0.5)·1·0.8
        let words = Likeness {
            cosine: None,
            keyword: 0.5,
            tags: 0.0,
        };
        near(working_score(words, 0.0, 24.0, 0.0), 0.4);
        // (0.8·0.5 + 0.2·e^(−15/30))·1.0 = 0.4 + 0.2·0.606531
        near(episodic_score(like(0.5, 0.0, 0.0), 360.0, 0.5), 0.521306);
        // (0.7·0.6 + 0.3·0.5)·1.12
        near(semantic_score(like(0.6, 0.0, 0.5), 0.8), 0.6384);
        // 0.8·(0.6·e^(−1) + 0.4·0.7)
        near(episode_score(like(0.8, 0.2, 0.0), 100.0, 0.7), 0.400582);
        near(episode_score(like(0.0, 0.0, 0.0), 0.0, 1.0), 0.0);
        // S = 0.5·1.5·1 = 0.75 days: e^(−1/0.75)
        near(retention(24.0, 0.5, 0), 0.263597);
        // S = 0.5·2·(1 + ln 4) = 2.386294 days: e^(−2/2.386294)
        near(retention(48.0, 1.0, 3), 0.432533);
        near(retention(10_000.0, 0.0, 0), 0.1);
        near(success_rate(0, 0), 0.5);
        near(success_rate(3, 1), 0.75);
        near(quality(true, 5, 1.0, true), 1.0);
        near(quality(true, 15, 1.0, true), 0.84);
        near(quality(false, 10, 0.5, false), 0.22);
    }

    #[test]
    fn cosines_of_vectors_of_other_spaces_and_other_directions_are_nothing() {
        near(cosine(&[0.6, 0.8], &[0.6, 0.8]), 1.0);
        near(cosine(&[0.6, 0.8], &[-0.6, -0.8]), 0.0);
        near(cosine(&[0.6, 0.8], &[1.0]), 0.0);
    }
}
