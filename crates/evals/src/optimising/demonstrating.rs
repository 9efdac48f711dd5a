//! Demonstrations from what went well, and the search that shows several sets of them.

use ghostlight_actors::{
    actor::{System, SystemError},
    run::Team,
};

use super::{
    search::{Halt, Search, shuffle},
    texts::Demonstration,
};

/// How many sets of demonstrations are made.
const SETS: usize = 16;
/// The longest demonstration, in characters.
const MAX_SHOWN: usize = 2_000;

/// Shows the root agent several sets of samples that it answered well.
pub(super) async fn search<S>(search: &mut Search<'_, S>) -> Result<(), Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    let own = search.optimiser.own();
    search.validate(own.clone(), Vec::new()).await?;
    for set in sets(search, SETS).await? {
        let mut candidate = own.clone();
        candidate.demonstrations = set;
        search.validate(candidate, vec![0]).await?;
    }
    Ok(())
}

/// Up to this many sets of demonstrations, from the samples for learning that the team's own texts answered best. As many
/// samples are tried as leave room for one set to be chosen.
pub(super) async fn sets<S>(
    search: &mut Search<'_, S>,
    most: usize,
) -> Result<Vec<Vec<Demonstration>>, Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    let optimiser = search.optimiser;
    let wanted = optimiser.spec.demonstrations as usize;
    let room = search.left().saturating_sub(optimiser.parts.validate.len());
    let own = optimiser.own();
    let train: Vec<usize> = optimiser.parts.train.iter().take(room).copied().collect();
    if wanted == 0 || train.is_empty() {
        return Ok(Vec::new());
    }
    let tried = search.tried(&own, &train).await?;
    let good = train.iter().zip(&tried).filter_map(|(place, tried)| {
        let score = tried.score.filter(|_| tried.is_readable);
        let score = score.filter(|score| optimiser.is_good(*score))?;
        let asked = optimiser.samples[*place].texts();
        let answer = tried.answer.clone()?;
        // A conversation is not a single example.
        let [asked] = asked.as_slice() else {
            return None;
        };
        let short = asked.chars().count() + answer.chars().count() <= MAX_SHOWN;
        let asked = (*asked).to_owned();
        short.then_some((score, Demonstration { asked, answer }))
    });
    let mut good: Vec<(f64, Demonstration)> = good.collect();
    good.sort_by(|a, b| b.0.total_cmp(&a.0));
    let good: Vec<Demonstration> = good.into_iter().map(|(_, shown)| shown).collect();
    let mut sets: Vec<Vec<Demonstration>> = Vec::new();
    for number in 0..most * 4 {
        if good.is_empty() || sets.len() == most {
            break;
        }
        let mut drawn = good.clone();
        // The first set holds the best ones, the others as many as chance says.
        if number > 0 {
            shuffle(&mut drawn, &mut search.draws);
        }
        let count = match number {
            0 => wanted,
            _ => 1 + search.draws.below(wanted),
        };
        drawn.truncate(count);
        if !sets.contains(&drawn) {
            sets.push(drawn);
        }
    }
    Ok(sets)
}
