//! A search under way: what was tried, what is left, and the best so far.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::{
    actor::{System, SystemError},
    run::{Registry, Team},
    vocabulary::Digest,
};
use ghostlight_safety::cut;
use serde_json::{Value, json};

use super::{Optimiser, proposing, texts::Candidate};
use crate::{
    cell::{Cell, CellResult},
    evaluation::{Evaluation, EvaluationFault, Reach},
    judged::recorded,
    judges::{NoVerdict, Question},
    purse::Purse,
    statistics::Draws,
    suite::Sample,
};

/// The longest answer that a proposal is shown, and of its calls the longest arguments and results, in characters.
const MAX_SHOWN: usize = 2_000;
/// How many calls of a try a proposal is shown.
const MAX_CALLS: usize = 20;

/// Why a search ended before its method came to an end.
#[derive(Debug)]
pub(super) enum Halt {
    /// All tries are used up, which is its ordinary end.
    Tries,
    /// Nothing may be consumed any more.
    Budget(String),
    /// A server, a network or the store failed: the same command continues.
    Infrastructure(String),
    /// The System failed.
    System(SystemError),
    /// The team cannot be tried with these texts.
    Fault(EvaluationFault),
}

impl From<SystemError> for Halt {
    fn from(error: SystemError) -> Self {
        Self::System(error)
    }
}

/// The result of one sample with one set of texts.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    /// The objective. A verdict that cannot be read counts as the lowest one, so that no text gains by it.
    pub(super) score: Option<f64>,
    /// Whether the verdict could be read.
    pub(super) is_readable: bool,
    /// The answer, if there is one.
    pub(super) answer: Option<String>,
    /// The examples that a proposal is shown.
    pub(super) trace: Value,
}

/// A set of texts that was tried with samples for choosing.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) candidate: Candidate,
    /// The scores, in the order of the samples; `None` where a sample was not tried.
    pub(super) scores: Vec<Option<f64>>,
    /// Whether it was tried with all of them. Only then it can be chosen.
    pub(super) is_whole: bool,
    pub(super) parents: Vec<usize>,
    /// Which of its texts is changed next.
    pub(super) turn: usize,
}

impl Member {
    /// The mean of its scores; lowest where it has none.
    pub(super) fn mean(&self) -> f64 {
        mean(self.scores.iter())
    }

    /// The mean of its scores of the samples at these places.
    pub(super) fn mean_at(&self, places: &[usize]) -> f64 {
        mean(places.iter().map(|place| &self.scores[*place]))
    }
}

fn mean<'a>(scores: impl Iterator<Item = &'a Option<f64>>) -> f64 {
    let known: Vec<f64> = scores.copied().flatten().collect();
    match known.is_empty() {
        true => f64::NEG_INFINITY,
        false => known.iter().sum::<f64>() / known.len() as f64,
    }
}

/// A search under way.
pub(super) struct Search<'a, S> {
    pub(super) optimiser: &'a Optimiser,
    start: &'a S,
    registry: &'a Registry,
    pub(super) purse: Purse,
    /// The tries, by the name of the texts and the place of the sample.
    known: BTreeMap<(String, usize), Tried>,
    open: Option<(String, System)>,
    pub(super) pool: Vec<Member>,
    pub(super) draws: Draws,
    /// How many proposals were asked for, and how many of them could not be read.
    pub(super) proposals: u32,
    pub(super) unreadable: u32,
    seen: &'a dyn Fn(usize),
}

impl<'a, S> Search<'a, S> {
    pub(super) fn new(
        optimiser: &'a Optimiser,
        start: &'a S,
        registry: &'a Registry,
        seen: &'a dyn Fn(usize),
    ) -> Self {
        let seed = Digest::of(optimiser.suite.evaluation.as_bytes()).short();
        Self {
            optimiser,
            start,
            registry,
            purse: Purse::new(optimiser.suite.budget),
            known: BTreeMap::new(),
            open: None,
            pool: Vec::new(),
            draws: Draws::new(seed ^ optimiser.spec.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            proposals: 0,
            unreadable: 0,
            seen,
        }
    }

    /// How many samples were tried.
    pub(super) fn used(&self) -> usize {
        self.known.len()
    }

    /// How many more may be tried.
    pub(super) fn left(&self) -> usize {
        (self.optimiser.spec.tries as usize).saturating_sub(self.used())
    }

    /// How many of these samples were not tried with these texts.
    pub(super) fn untried(&self, candidate: &Candidate, samples: &[usize]) -> usize {
        self.new_ones(&candidate.name(&self.optimiser.team), samples)
            .len()
    }

    fn new_ones(&self, name: &str, samples: &[usize]) -> BTreeSet<usize> {
        let is_new = |sample: &&usize| !self.known.contains_key(&(name.to_owned(), **sample));
        samples.iter().filter(is_new).copied().collect()
    }

    /// Whether these texts are in the pool.
    pub(super) fn is_known(&self, candidate: &Candidate) -> bool {
        self.pool
            .iter()
            .any(|member| member.candidate == *candidate)
    }

    /// The result of a cell.
    async fn look(
        &self,
        (system, evaluation): (&System, &Evaluation),
        place: usize,
        mut cell: Cell,
    ) -> Result<Tried, Halt> {
        match &cell.result {
            CellResult::NotRun { why } => return Err(Halt::Budget(why.clone())),
            CellResult::Infrastructure { why } => {
                let sample = &cell.sample;
                return Err(Halt::Infrastructure(format!("the sample {sample}: {why}")));
            }
            _ => {}
        }
        let recording = recorded(system, &cell).await?;
        let short = |text: &str| cut(text, MAX_SHOWN).into_owned();
        let calls = recording.calls.iter().take(MAX_CALLS).map(|call| {
            json!({
                "tool": call.tool,
                "arguments": short(call.shown_arguments().text()),
                "status": call.status,
                "result": short(&call.result),
            })
        });
        let sample = &self.optimiser.samples[place];
        let answer = recording.answer().map(str::to_owned);
        let read = self.optimiser.measure(&cell);
        let why = cell.why();
        evaluation.sink(&mut cell);
        let score = self.optimiser.measure(&cell);
        Ok(Tried {
            score,
            is_readable: read.is_some() || score.is_none(),
            trace: json!({
                "asked": sample.texts(),
                "expected": sample.expected,
                "answer": answer.as_deref().map(short),
                "calls": calls.collect::<Vec<Value>>(),
                "score": score,
                "why": short(&why),
            }),
            answer,
        })
    }

    /// Stops the System that is open.
    pub(super) async fn close(&mut self) -> Result<(), SystemError> {
        match self.open.take() {
            Some((_, system)) => system.stop().await,
            None => Ok(()),
        }
    }

    /// The result of a sample with these texts, if it was tried.
    pub(super) fn known(&self, candidate: &Candidate, sample: usize) -> Option<&Tried> {
        let name = candidate.name(&self.optimiser.team);
        self.known.get(&(name, sample))
    }

    /// How many verdicts about the samples for choosing could not be read with these texts.
    pub(super) fn unread(&self, candidate: &Candidate) -> usize {
        let samples = self.optimiser.parts.validate.iter();
        let tried = samples.filter_map(|sample| self.known(candidate, *sample));
        tried.filter(|tried| !tried.is_readable).count()
    }

    /// The place of the best texts in the pool: of those that were tried with all samples, the first with the highest mean.
    pub(super) fn best(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (place, member) in self.pool.iter().enumerate() {
            let is_better = |best: usize| member.mean() > self.pool[best].mean() + 1e-12;
            if member.is_whole && best.is_none_or(is_better) {
                best = Some(place);
            }
        }
        best
    }

    /// Asks for a text; `None` where none can be read. Each proposal is a run of its own.
    pub(super) async fn propose(&mut self, material: Value) -> Result<Option<String>, Halt> {
        if let Some(why) = self.purse.exhausted() {
            return Err(Halt::Budget(why));
        }
        let Some(system) = self.open.as_ref().map(|(_, system)| system.clone()) else {
            return Ok(None);
        };
        self.proposals += 1;
        // The same question is another one for each time that it is asked, so that another answer may come.
        let text = material.to_string().replace('<', "\\u003c");
        let number = self.proposals.to_string();
        let parts: [&[u8]; 4] = [
            self.optimiser.suite.evaluation.as_bytes(),
            &self.optimiser.spec.seed.to_le_bytes(),
            number.as_bytes(),
            text.as_bytes(),
        ];
        let key = format!("{:016x}", Digest::of_parts(&parts).short());
        let question = Question {
            team: &self.optimiser.proposer,
            key: &key,
            turn: "proposal",
            material: &text,
        };
        let Some(said) = question.answered(&system, true).await? else {
            return Ok(None);
        };
        self.purse.add(&said.spent);
        let read = match said.answer {
            Ok(answer) => proposing::read(&answer).ok(),
            Err(NoVerdict::Unreadable(_)) => None,
            Err(NoVerdict::Infrastructure(why)) => {
                let why = format!("the model that proposes texts failed: {why}");
                return Err(Halt::Infrastructure(why));
            }
        };
        if read.is_none() {
            self.unreadable += 1;
        }
        Ok(read)
    }
}

impl<S> Search<'_, S>
where
    S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
{
    /// Tries samples with these texts. What was tried before is not tried again. Nothing is tried where more would be than
    /// may be.
    pub(super) async fn tried(
        &mut self,
        candidate: &Candidate,
        samples: &[usize],
    ) -> Result<Vec<Tried>, Halt> {
        let name = candidate.name(&self.optimiser.team);
        let new = self.new_ones(&name, samples);
        if new.len() > self.left() {
            return Err(Halt::Tries);
        }
        if !new.is_empty() {
            let of = |place: &usize| self.optimiser.samples[*place].clone();
            let wanted: Vec<Sample> = new.iter().map(of).collect();
            let variants = [(name.clone(), candidate.variant(&self.optimiser.team))];
            let evaluation = self.optimiser.evaluation(variants, wanted, 1);
            let evaluation = evaluation.map_err(Halt::Fault)?;
            let system = self.system(&name, &evaluation).await?;
            let cells = evaluation.run_from(&system, Reach::Try, &self.purse, |_| {});
            for (place, cell) in new.into_iter().zip(cells.await?) {
                let tried = self.look((&system, &evaluation), place, cell).await?;
                self.known.insert((name.clone(), place), tried);
                (self.seen)(self.used());
            }
        }
        let of = |place: &usize| self.known.get(&(name.clone(), *place)).cloned();
        Ok(samples.iter().filter_map(of).collect())
    }

    /// The System of these texts. One is open at a time.
    async fn system(&mut self, name: &str, evaluation: &Evaluation) -> Result<System, Halt> {
        if let Some((open, system)) = &self.open
            && open == name
        {
            return Ok(system.clone());
        }
        self.close().await?;
        let mut teams = evaluation.teams(self.registry);
        teams.push(Team {
            spec: self.optimiser.proposer.clone(),
            registry: self
                .registry
                .clone()
                .behavior(proposing::BEHAVIOR, proposing::behavior),
        });
        let system = (self.start)(teams).await?;
        self.open = Some((name.to_owned(), system.clone()));
        Ok(system)
    }

    /// Puts these texts into the pool, and tries all samples for choosing with them.
    pub(super) async fn validate(
        &mut self,
        candidate: Candidate,
        parents: Vec<usize>,
    ) -> Result<usize, Halt> {
        let all: Vec<usize> = (0..self.optimiser.parts.validate.len()).collect();
        let member = self.screen(candidate, parents, &all).await?;
        self.pool[member].is_whole = true;
        Ok(member)
    }

    /// Puts these texts into the pool, and tries the samples for choosing at these places with them.
    pub(super) async fn screen(
        &mut self,
        candidate: Candidate,
        parents: Vec<usize>,
        places: &[usize],
    ) -> Result<usize, Halt> {
        let validate = &self.optimiser.parts.validate;
        let samples: Vec<usize> = places.iter().map(|place| validate[*place]).collect();
        let mut scores = vec![None; validate.len()];
        let tried = self.tried(&candidate, &samples).await?;
        for (place, tried) in places.iter().zip(tried) {
            scores[*place] = tried.score;
        }
        let turn = parents.first().map_or(0, |parent| self.pool[*parent].turn);
        self.pool.push(Member {
            candidate,
            scores,
            is_whole: false,
            parents,
            turn,
        });
        Ok(self.pool.len() - 1)
    }

    /// Tries the other samples for choosing with a member of the pool.
    pub(super) async fn complete(&mut self, member: usize) -> Result<(), Halt> {
        let candidate = self.pool[member].candidate.clone();
        let tried = self
            .tried(&candidate, &self.optimiser.parts.validate)
            .await?;
        let scores = tried.into_iter().map(|tried| tried.score);
        self.pool[member].scores = scores.collect();
        self.pool[member].is_whole = true;
        Ok(())
    }
}

/// Samples in random order, over and over.
#[derive(Debug)]
pub(super) struct Deck {
    samples: Vec<usize>,
    next: usize,
}

impl Deck {
    pub(super) fn new(samples: &[usize]) -> Self {
        Self {
            samples: samples.to_vec(),
            next: samples.len(),
        }
    }

    /// The next `count` samples, all different, fewer where there are fewer.
    pub(super) fn take(&mut self, count: usize, draws: &mut Draws) -> Vec<usize> {
        let count = count.min(self.samples.len());
        if self.next + count > self.samples.len() {
            shuffle(&mut self.samples, draws);
            self.next = 0;
        }
        self.next += count;
        self.samples[self.next - count..self.next].to_vec()
    }
}

/// Puts items into a random order (Fisher and Yates).
pub(super) fn shuffle<T>(items: &mut [T], draws: &mut Draws) {
    for end in (1..items.len()).rev() {
        items.swap(end, draws.below(end + 1));
    }
}

/// The sum of the scores that both sides have, of each side.
pub(super) fn sums(one: &[Tried], two: &[Tried]) -> (f64, f64) {
    let both = one
        .iter()
        .zip(two)
        .filter_map(|(one, two)| Some((one.score?, two.score?)));
    both.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}
