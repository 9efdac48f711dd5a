//! Reflection over what went wrong, with a front for each sample (after GEPA; Agrawal and others 2025).

use std::collections::BTreeSet;

use ghostlight_actors::{
    actor::{System, SystemError},
    run::Team,
};
use serde_json::{Value, json};

use super::{
    search::{Halt, Search, shuffle, sums},
    texts::Candidate,
};

/// How many steps in a row may try nothing: proposals that cannot be read or are known, and minibatches without a fault.
const IDLE: u32 = 40;
/// How many samples a merger is first tried with.
const MERGED: usize = 5;
/// How far two scores may differ and count as equal.
const SAME: f64 = 1e-9;

/// Looks for better texts until its tries are used up.
pub(super) async fn search<S>(search: &mut Search<'_, S>) -> Result<(), Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    let optimiser = search.optimiser;
    search.validate(optimiser.own(), Vec::new()).await?;
    let mut screen: Vec<usize> = (0..optimiser.parts.validate.len()).collect();
    shuffle(&mut screen, &mut search.draws);
    screen.truncate(screen.len().div_ceil(2));
    match evolve(search, &screen).await {
        Ok(()) | Err(Halt::Tries) => {}
        Err(halt) => return Err(halt),
    }
    // Who was best with some of the samples is tried with all.
    let mut order: Vec<usize> = (0..search.pool.len()).collect();
    let by = |member: &usize| search.pool[*member].mean_at(&screen);
    order.sort_by(|a, b| by(b).total_cmp(&by(a)));
    for member in order {
        search.complete(member).await?;
    }
    Ok(())
}

/// Changes and merges texts, which are ranked by the samples for choosing at these places.
async fn evolve<S>(search: &mut Search<'_, S>, screen: &[usize]) -> Result<(), Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    let (mut idle, mut merges, mut merged) = (0, 0_u32, BTreeSet::new());
    while idle < IDLE {
        if merges > 0 {
            merges -= 1;
            if let Some(pair) = mergeable(search, screen, &mut merged) {
                merge(search, screen, pair).await?;
            }
        }
        let pool = search.pool.len();
        if !reflect(search, screen).await? {
            idle += 1;
            continue;
        }
        idle = 0;
        if search.pool.len() > pool {
            merges += 1;
        }
    }
    Ok(())
}

/// How many tries the best of the pool may still need at the end.
fn reserved<S>(search: &Search<'_, S>, screen: &[usize]) -> usize {
    search.optimiser.parts.validate.len() - screen.len()
}

/// Changes one text of a set that is best for some sample; false where nothing new was tried.
async fn reflect<S>(search: &mut Search<'_, S>, screen: &[usize]) -> Result<bool, Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    let optimiser = search.optimiser;
    let parent = draw(search, screen);
    let candidate = search.pool[parent].candidate.clone();
    let batch = batch(search, &candidate);
    // A step that could not be carried to its end would be wasted.
    let step = search.untried(&candidate, &batch) + batch.len() + screen.len();
    if step + reserved(search, screen) > search.left() {
        return Err(Halt::Tries);
    }
    let before = search.tried(&candidate, &batch).await?;
    if !before.iter().any(|tried| optimiser.may_rise(tried.score)) {
        return Ok(false);
    }
    let names = &optimiser.names;
    let name = &names[search.pool[parent].turn % names.len()];
    search.pool[parent].turn += 1;
    let text = &candidate.texts[name];
    let tries: Vec<&Value> = before.iter().map(|tried| &tried.trace).collect();
    let material = json!({ "name": name.to_string(), "text": text, "tries": tries });
    let Some(proposed) = search.propose(material).await? else {
        return Ok(false);
    };
    let child = candidate.with(name, proposed);
    if search.is_known(&child) {
        return Ok(false);
    }
    let is_new = search.untried(&child, &batch) > 0;
    let after = search.tried(&child, &batch).await?;
    let (was, is) = sums(&before, &after);
    if is > was + SAME {
        search.screen(child, vec![parent], screen).await?;
    }
    Ok(is_new)
}

/// The samples that a set is changed by: those that are known to be answered better by another set, and others where
/// these are too few.
fn batch<S>(search: &mut Search<'_, S>, candidate: &Candidate) -> Vec<usize> {
    let optimiser = search.optimiser;
    let mut train = optimiser.parts.train.clone();
    shuffle(&mut train, &mut search.draws);
    let known = |sample: &usize| search.known(candidate, *sample);
    let (mut batch, others): (Vec<usize>, Vec<usize>) = train
        .into_iter()
        .partition(|sample| known(sample).is_some());
    batch.retain(|sample| known(sample).is_some_and(|tried| optimiser.may_rise(tried.score)));
    batch.extend(others);
    batch.truncate(optimiser.spec.minibatch as usize);
    batch
}

/// The members that are best for some sample, with the number of those samples. Of members that are best where another one
/// is, too, only the other one counts.
fn front<S>(search: &Search<'_, S>, screen: &[usize]) -> Vec<(usize, usize)> {
    let pool = &search.pool;
    let mut best_for: Vec<BTreeSet<usize>> = Vec::with_capacity(screen.len());
    for sample in screen {
        let score = |member: usize| pool[member].scores[*sample];
        let highest = (0..pool.len()).filter_map(score);
        let highest = highest.fold(f64::NEG_INFINITY, f64::max);
        let is_best = |member: &usize| score(*member).is_some_and(|s| s >= highest - SAME);
        best_for.push((0..pool.len()).filter(is_best).collect());
    }
    // From the worst on, who is nowhere the only best one leaves.
    let mut order: Vec<usize> = (0..pool.len()).collect();
    let by = |member: &usize| pool[*member].mean_at(screen);
    order.sort_by(|a, b| by(a).total_cmp(&by(b)));
    for member in order {
        let is_alone = |best: &BTreeSet<usize>| best.contains(&member) && best.len() == 1;
        if !best_for.iter().any(is_alone) {
            for best in &mut best_for {
                best.remove(&member);
            }
        }
    }
    let count = |member: usize| {
        let best = best_for.iter().filter(|best| best.contains(&member));
        best.count()
    };
    let members = (0..pool.len()).map(|member| (member, count(member)));
    members.filter(|(_, count)| *count > 0).collect()
}

/// A member of the front, by chance; the more likely, the more samples it is best for.
fn draw<S>(search: &mut Search<'_, S>, screen: &[usize]) -> usize {
    let front = front(search, screen);
    let all: usize = front.iter().map(|(_, count)| count).sum();
    if all == 0 {
        return 0;
    }
    let mut at = search.draws.below(all);
    for (member, count) in front {
        if at < count {
            return member;
        }
        at -= count;
    }
    0
}

/// Two members of the front, of which each changed a text that the other one did not since the set that both come from.
struct Pair {
    one: usize,
    two: usize,
    merger: Candidate,
}

fn mergeable<S>(
    search: &Search<'_, S>,
    screen: &[usize],
    merged: &mut BTreeSet<(usize, usize)>,
) -> Option<Pair> {
    let front: Vec<usize> = front(search, screen)
        .into_iter()
        .map(|found| found.0)
        .collect();
    for (index, one) in front.iter().enumerate() {
        for two in &front[index + 1..] {
            if merged.contains(&(*one, *two)) {
                continue;
            }
            let (of_one, of_two) = (ancestors(search, *one), ancestors(search, *two));
            if of_one.contains(two) || of_two.contains(one) {
                continue;
            }
            // The latest set that both come from.
            let Some(from) = of_one.intersection(&of_two).max() else {
                continue;
            };
            let merger = merger(search, *from, *one, *two);
            if let Some(merger) = merger.filter(|merger| !search.is_known(merger)) {
                merged.insert((*one, *two));
                return Some(Pair {
                    one: *one,
                    two: *two,
                    merger,
                });
            }
        }
    }
    None
}

fn ancestors<S>(search: &Search<'_, S>, member: usize) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::new(), search.pool[member].parents.clone());
    while let Some(parent) = open.pop() {
        if found.insert(parent) {
            open.extend(&search.pool[parent].parents);
        }
    }
    found
}

/// The texts of both: each as the one has it that changed it; where both did, as the better one has it. `None` where one
/// of them gives nothing.
fn merger<S>(search: &Search<'_, S>, from: usize, one: usize, two: usize) -> Option<Candidate> {
    let of = |member: usize| &search.pool[member].candidate;
    let (from, (a, b)) = (of(from), (of(one), of(two)));
    let better = if search.pool[one].mean() >= search.pool[two].mean() {
        a
    } else {
        b
    };
    let (mut merger, mut by_one, mut by_two) = (from.clone(), false, false);
    for (name, text) in &mut merger.texts {
        let (ours, theirs) = (&a.texts[name], &b.texts[name]);
        let (ours_changed, theirs_changed) = (ours != text, theirs != text);
        *text = match (ours_changed, theirs_changed) {
            (false, false) => continue,
            (true, false) => ours.clone(),
            (false, true) => theirs.clone(),
            (true, true) => better.texts[name].clone(),
        };
        by_one |= ours_changed && !theirs_changed;
        by_two |= theirs_changed && !ours_changed;
    }
    (by_one && by_two).then_some(merger)
}

/// Tries a merger with some samples that its parents differ in, and takes it up where it is not worse than the better one.
async fn merge<S>(search: &mut Search<'_, S>, screen: &[usize], pair: Pair) -> Result<(), Halt>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    if screen.len() + reserved(search, screen) > search.left() {
        return Err(Halt::Tries);
    }
    let validate = &search.optimiser.parts.validate;
    let scores = |member: usize| search.pool[member].scores.clone();
    let (one, two) = (scores(pair.one), scores(pair.two));
    let mut places = screen.to_vec();
    shuffle(&mut places, &mut search.draws);
    places.sort_by_key(|place| one[*place] == two[*place]);
    places.truncate(MERGED);
    let samples: Vec<usize> = places.iter().map(|place| validate[*place]).collect();
    let tried = search.tried(&pair.merger, &samples).await?;
    let sum = |scores: &[Option<f64>]| {
        let scores = places.iter().filter_map(|place| scores[*place]);
        scores.sum::<f64>()
    };
    let is: f64 = tried.iter().filter_map(|tried| tried.score).sum();
    if is >= sum(&one).max(sum(&two)) - SAME {
        let parents = vec![pair.one, pair.two];
        search.screen(pair.merger, parents, screen).await?;
    }
    Ok(())
}
