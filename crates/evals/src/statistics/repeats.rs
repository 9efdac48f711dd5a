//! Rates over several trials of one task.

/// The probability that at least one of `k` trials succeeds, estimated from `trials` of which `successes` succeeded: 1
/// minus C(n-c, k)/C(n, k), in the product form that needs no binomials (Chen et al. 2021, "Evaluating Large Language
/// Models Trained on Code", section 2.1). `None` where there are fewer than `k` trials: nothing is extrapolated.
pub fn pass_at_k(trials: u64, successes: u64, k: u64) -> Option<f64> {
    if k == 0 || trials < k || successes > trials {
        return None;
    }
    let failures = trials - successes;
    if failures < k {
        return Some(1.0);
    }
    let miss: f64 = (failures + 1..=trials)
        .map(|i| 1.0 - k as f64 / i as f64)
        .product();
    Some(1.0 - miss)
}

/// The probability that all of `k` trials succeed: C(c, k)/C(n, k) (Yao et al. 2024, "τ-bench", section 3.4). `None`
/// where there are fewer than `k` trials.
pub fn pass_hat_k(trials: u64, successes: u64, k: u64) -> Option<f64> {
    if k == 0 || trials < k || successes > trials {
        return None;
    }
    if successes < k {
        return Some(0.0);
    }
    let all = (0..k)
        .map(|i| (successes - i) as f64 / (trials - i) as f64)
        .product();
    Some(all)
}
