//! Rankings from comparisons of pairs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF as _};

use super::{
    bootstrap::{Draws, quantile},
    mean::Interval,
};

/// One comparison of two of `0..n` contenders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Game {
    /// A contender.
    pub first: usize,
    /// The other one.
    pub second: usize,
    /// The result for the first one: 1, or 0, or ½ for a tie.
    pub won: f64,
}

/// The strength of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Strength {
    /// The logarithm of its strength; those of all contenders sum to 0. One that is stronger by `d` wins with the
    /// probability 1/(1 + e⁻ᵈ).
    pub log: f64,
    /// Its 95 % interval, from resamples of whole clusters; `None` where fewer than nine of ten resamples can be ranked.
    pub interval: Option<Interval>,
}

impl Strength {
    /// The strength on the scale of chess, where the mean is 1,000.
    pub fn elo(&self) -> f64 {
        1_000.0 + 400.0 * self.log / std::f64::consts::LN_10
    }
}

/// How often the strengths are resampled for their intervals.
const RESAMPLES: usize = 1_000;
/// How often the strengths are improved at the most, and the change below which they stand.
const IMPROVEMENTS: usize = 100_000;
const STANDS: f64 = 1e-13;

/// The strengths of `contenders` by Bradley and Terry's model (1952), where a tie is half a win for each: the limit of
/// p ← W/Σ(n/(p + q)) (Hunter 2004, "MM algorithms for generalized Bradley-Terry models"). Unlike a running Elo number it
/// does not depend on the order of the games. `None` where the games do not tell, since one group of contenders won or
/// lost all against the others, or never met them.
pub fn bradley_terry(contenders: usize, games: &[Game]) -> Option<Vec<f64>> {
    let mut won = vec![vec![0.0; contenders]; contenders];
    for game in games {
        if game.first == game.second || game.first.max(game.second) >= contenders {
            return None;
        }
        won[game.first][game.second] += game.won;
        won[game.second][game.first] += 1.0 - game.won;
    }
    if contenders == 0 || !is_connected(&won) {
        return None;
    }
    let wins: Vec<f64> = won.iter().map(|row| row.iter().sum()).collect();
    let mut strengths = vec![1.0_f64; contenders];
    for _ in 0..IMPROVEMENTS {
        let mut moved = 0.0_f64;
        for i in 0..contenders {
            let met = (0..contenders).filter(|j| *j != i);
            let sum: f64 = met
                .map(|j| (won[i][j] + won[j][i]) / (strengths[i] + strengths[j]))
                .sum();
            let better = if sum > 0.0 { wins[i] / sum } else { 1.0 };
            moved = moved.max((better / strengths[i]).ln().abs());
            strengths[i] = better;
        }
        let mean = strengths.iter().map(|p| p.ln()).sum::<f64>() / contenders as f64;
        strengths.iter_mut().for_each(|p| *p /= mean.exp());
        if moved < STANDS {
            break;
        }
    }
    Some(strengths.into_iter().map(f64::ln).collect())
}

/// Whether each contender won something against each other one, itself or through others.
fn is_connected(won: &[Vec<f64>]) -> bool {
    let reaches_all = |beats: &dyn Fn(usize, usize) -> bool| {
        let (mut seen, mut open) = (vec![false; won.len()], vec![0]);
        seen[0] = true;
        while let Some(from) = open.pop() {
            for (to, seen) in seen.iter_mut().enumerate() {
                if beats(from, to) && !std::mem::replace(seen, true) {
                    open.push(to);
                }
            }
        }
        seen.into_iter().all(|seen| seen)
    };
    reaches_all(&|a, b| won[a][b] > 0.0) && reaches_all(&|a, b| won[b][a] > 0.0)
}

/// The strengths with their intervals, from games with their clusters.
pub fn strengths(contenders: usize, games: &[(String, Game)], seed: u64) -> Option<Vec<Strength>> {
    let all: Vec<Game> = games.iter().map(|(_, game)| *game).collect();
    let logs = bradley_terry(contenders, &all)?;
    let mut clusters = BTreeMap::<&str, Vec<Game>>::new();
    for (cluster, game) in games {
        clusters.entry(cluster).or_default().push(*game);
    }
    let clusters: Vec<Vec<Game>> = clusters.into_values().collect();
    let mut draws = Draws::new(seed);
    let mut drawn = vec![Vec::new(); contenders];
    let mut ranked = 0;
    for _ in 0..RESAMPLES {
        let resample: Vec<Game> = (0..clusters.len())
            .flat_map(|_| clusters[draws.below(clusters.len())].clone())
            .collect();
        let Some(logs) = bradley_terry(contenders, &resample) else {
            continue;
        };
        ranked += 1;
        for (drawn, log) in drawn.iter_mut().zip(logs) {
            drawn.push(log);
        }
    }
    let is_known = clusters.len() > 1 && 10 * ranked >= 9 * RESAMPLES;
    let with_intervals = logs.into_iter().zip(drawn).map(|(log, mut drawn)| {
        drawn.sort_by(f64::total_cmp);
        let interval = is_known.then(|| Interval {
            lower: quantile(&drawn, 0.025),
            upper: quantile(&drawn, 0.975),
        });
        Strength { log, interval }
    });
    Some(with_intervals.collect())
}

/// The two-sided p-value of this many wins and losses, if both were equally likely; ties are left out (Dixon and Mood 1946).
pub fn sign_test(wins: u64, losses: u64) -> f64 {
    let (all, least) = (wins + losses, wins.min(losses));
    match Binomial::new(0.5, all) {
        Ok(binomial) if all > 0 => (2.0 * binomial.cdf(least)).min(1.0),
        _ => 1.0,
    }
}
