//! The search for the best combination of proposed texts and demonstrations (after MIPRO; Opsahl-Ong and others 2024).

use ghostlight_actors::{
    actor::{System, SystemError},
    run::Team,
};
use serde_json::{Value, json};

use super::{
    demonstrating,
    search::{Deck, Halt, Search, Tried},
    texts::{Candidate, Demonstration},
};
use crate::statistics::Draws;

/// How many texts are proposed for each name.
const PROPOSED: usize = 6;
/// How many sets of demonstrations there are to choose from, beside none.
const SETS: usize = 4;
/// After this many combinations the best one is tried with all samples.
const ROUND: usize = 5;
/// The share of the combinations that count as good.
const GOOD: f64 = 0.25;
/// How many combinations are drawn before one of them is tried.
const DRAWN: usize = 24;
/// How many combinations in a row may be known.
const IDLE: usize = 20;

/// The aspects to which proposals pay attention, one after the other.
const TIPS: [&str; 6] = [
    "Say in one sentence what a good answer is.",
    "Say step by step how to come to a good answer.",
    "Say which mistakes the tries show, and how they are avoided.",
    "Say exactly which form an answer has.",
    "Be as brief as can be.",
    "Say what to do when something is missing or in doubt.",
];

/// A combination that was tried: which option of each choice, and its scores.
struct Trial {
    options: Vec<usize>,
    scores: Vec<f64>,
}

impl Trial {
    fn mean(&self) -> f64 {
        self.scores.iter().sum::<f64>() / self.scores.len().max(1) as f64
    }
}

/// Looks for the best combination until its tries are used up.
pub(super) async fn search<S>(search: &mut Search<'_, S>) -> Result<(), Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    let optimiser = search.optimiser;
    search.validate(optimiser.own(), Vec::new()).await?;
    let sets = demonstrating::sets(search, SETS).await?;
    let texts = proposals(search).await?;
    let choices = Choices { texts, sets };
    let sizes = choices.sizes();
    let mut deck = Deck::new(&optimiser.parts.validate);
    let mut trials: Vec<Trial> = Vec::new();
    let mut idle = 0;
    while idle < IDLE {
        let options = next(&trials, &sizes, &mut search.draws);
        let candidate = choices.candidate(&optimiser.own(), optimiser, &options);
        let batch = deck.take(optimiser.spec.minibatch as usize, &mut search.draws);
        // All samples for choosing must be left for the best one.
        let needed = search.untried(&candidate, &batch) + optimiser.parts.validate.len();
        if needed > search.left() {
            break;
        }
        idle = match search.untried(&candidate, &batch) {
            0 => idle + 1,
            _ => 0,
        };
        let tried = search.tried(&candidate, &batch).await?;
        let scores = tried.iter().filter_map(|tried: &Tried| tried.score);
        match trials.iter_mut().find(|trial| trial.options == options) {
            Some(trial) => trial.scores.extend(scores),
            None => trials.push(Trial {
                options,
                scores: scores.collect(),
            }),
        }
        if trials.len().is_multiple_of(ROUND) {
            promote(search, &choices, &trials).await?;
        }
    }
    while promote(search, &choices, &trials).await? {}
    Ok(())
}

/// Tries the combination that looks best, of those that are not in the pool, with all samples; false where there is none,
/// or it does not look better than the best of the pool.
async fn promote<S>(
    search: &mut Search<'_, S>,
    choices: &Choices,
    trials: &[Trial],
) -> Result<bool, Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    let optimiser = search.optimiser;
    let mut order: Vec<&Trial> = trials
        .iter()
        .filter(|trial| !trial.scores.is_empty())
        .collect();
    order.sort_by(|a, b| b.mean().total_cmp(&a.mean()));
    let best = search
        .best()
        .map_or(f64::NEG_INFINITY, |best| search.pool[best].mean());
    for trial in order.into_iter().take_while(|trial| trial.mean() > best) {
        let candidate = choices.candidate(&optimiser.own(), optimiser, &trial.options);
        if !search.is_known(&candidate) {
            search.validate(candidate, vec![0]).await?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// The options of a combination: the texts of each name, the team's own first, and sets of demonstrations.
struct Choices {
    texts: Vec<Vec<String>>,
    sets: Vec<Vec<Demonstration>>,
}

impl Choices {
    /// How many options there are for each choice; no demonstrations are one of the last.
    fn sizes(&self) -> Vec<usize> {
        let texts = self.texts.iter().map(Vec::len);
        texts.chain([self.sets.len() + 1]).collect()
    }

    fn candidate(
        &self,
        own: &Candidate,
        optimiser: &super::Optimiser,
        options: &[usize],
    ) -> Candidate {
        let mut candidate = own.clone();
        for (index, name) in optimiser.names.iter().enumerate() {
            let text = self.texts[index][options[index]].clone();
            candidate.texts.insert(name.clone(), text);
        }
        let set = options.last().copied().unwrap_or(0);
        candidate.demonstrations = match set {
            0 => Vec::new(),
            set => self.sets[set - 1].clone(),
        };
        candidate
    }
}

/// The texts to choose from, for each name.
async fn proposals<S>(search: &mut Search<'_, S>) -> Result<Vec<Vec<String>>, Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    let optimiser = search.optimiser;
    let own = optimiser.own();
    let mut deck = Deck::new(&optimiser.parts.train);
    let mut all = Vec::new();
    for name in &optimiser.names {
        let mut texts = vec![own.texts[name].clone()];
        for number in 0..PROPOSED {
            let batch = deck.take(optimiser.spec.minibatch as usize, &mut search.draws);
            let needed = search.untried(&own, &batch) + optimiser.parts.validate.len();
            if needed > search.left() {
                break;
            }
            let tried = search.tried(&own, &batch).await?;
            let tries: Vec<&Value> = tried.iter().map(|tried| &tried.trace).collect();
            let material = json!({
                "name": name.to_string(), "text": texts[0], "tries": tries, "tip": TIPS[number % TIPS.len()],
            });
            let proposed = search.propose(material).await?;
            texts.extend(proposed.filter(|proposed| !texts.contains(proposed)));
        }
        all.push(texts);
    }
    Ok(all)
}

/// The combination that is tried next: of several that are drawn like the good ones, that which is most unlike the others
/// (a tree-structured Parzen estimator; Bergstra and others 2011).
fn next(trials: &[Trial], sizes: &[usize], draws: &mut Draws) -> Vec<usize> {
    let mut order: Vec<&Trial> = trials.iter().collect();
    order.sort_by(|a, b| b.mean().total_cmp(&a.mean()));
    let cut = (GOOD * order.len() as f64).ceil() as usize;
    let (good, others) = order.split_at(cut);
    let share = |of: &[&Trial], choice: usize, option: usize| {
        let count = of
            .iter()
            .filter(|trial| trial.options[choice] == option)
            .count();
        (count as f64 + 1.0) / (of.len() + sizes[choice]) as f64
    };
    let drawn = |draws: &mut Draws, choice: usize| {
        let mut at = draws.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        for option in 0..sizes[choice] {
            at -= share(good, choice, option);
            if at < 0.0 {
                return option;
            }
        }
        sizes[choice] - 1
    };
    let mut best: Option<(f64, Vec<usize>)> = None;
    for _ in 0..DRAWN {
        let options: Vec<usize> = (0..sizes.len())
            .map(|choice| drawn(draws, choice))
            .collect();
        let ratio = options.iter().enumerate().map(|(choice, option)| {
            (share(good, choice, *option) / share(others, choice, *option)).ln()
        });
        let ratio: f64 = ratio.sum();
        if best.as_ref().is_none_or(|(known, _)| ratio > *known) {
            best = Some((ratio, options));
        }
    }
    best.map_or_else(|| vec![0; sizes.len()], |(_, options)| options)
}
