//! Optimisers: searches for better texts of a team.
//!
//! A search is ordinary durable work. Each try is a cell, each proposal a run, and all random choices follow from the
//! suite: started again it reads what is recorded, and continues where it was. It finds a [`Patch`], which a person reads
//! and applies.

mod combining;
mod demonstrating;
mod gepa;
mod patch;
mod proposing;
mod report;
mod search;
mod spec;
mod split;
mod texts;

use std::path::{Path, PathBuf};

use ghostlight_actors::{
    actor::{System, SystemError},
    definition::TeamSpec,
    run::{Registry, Team},
};

pub use self::{
    patch::{Patch, TextPatch},
    report::{CandidateReport, GainReport, Optimised},
    spec::{Method, OptimiseSpec, SplitSpec},
    texts::{TextKind, TextName},
};
use self::{
    search::{Halt, Search},
    split::Parts,
    texts::Candidate,
};
use crate::{
    cell::{Cell, CellResult},
    evaluation::{Evaluation, EvaluationFault, Reach},
    purse::Purse,
    suite::{Sample, SuiteFault, SuiteSpec, TeamSource, VariantSpec},
};

/// A search for better texts of a team that can be carried out.
#[derive(Debug)]
pub struct Optimiser {
    suite: SuiteSpec,
    spec: OptimiseSpec,
    team: TeamSpec,
    samples: Vec<Sample>,
    folder: PathBuf,
    parts: Parts,
    names: Vec<TextName>,
    proposer: TeamSpec,
    by: String,
}

impl Optimiser {
    /// A search for better texts of this team over these samples, as the suite's `optimise` says. Files that the suite
    /// names are looked for in this folder. The suite's variants, gate and judges of pairs play no part.
    ///
    /// # Errors
    /// The first fault of the suite: a text that the team does not have, a measure that there is not, too few samples for
    /// one of the purposes, or fewer tries than choosing once takes.
    pub fn in_folder(
        suite: SuiteSpec,
        team: &TeamSpec,
        samples: Vec<Sample>,
        folder: &Path,
    ) -> Result<Self, EvaluationFault> {
        let spec = suite.optimise.clone().unwrap_or_default();
        let fault = |setting: &str, reason: String| SuiteFault::Setting {
            setting: format!("optimise.{setting}"),
            reason,
        };
        let parts = split::deal(&samples, spec.split).map_err(|reason| fault("split", reason))?;
        if spec.minibatch == 0 {
            return Err(fault(
                "minibatch",
                String::from("is 0, so nothing would be learnt"),
            )
            .into());
        }
        let least = parts.validate.len();
        if (spec.tries as usize) < least {
            let reason = format!("is {}; choosing takes {least} tries alone", spec.tries);
            return Err(fault("tries", reason).into());
        }
        let names = match spec.texts.as_slice() {
            [] => vec![TextName::new(&team.agent.name, TextKind::Instructions)],
            names => names.to_vec(),
        };
        if let Some(unknown) = names.iter().find(|name| name.of(team).is_none()) {
            let reason = format!(
                "names {unknown}, and the team has no agent {:?}",
                unknown.agent
            );
            return Err(fault("texts", reason).into());
        }
        let own = team.agent.model.clone();
        let model = spec.model.clone().or(own);
        let model = model.unwrap_or_else(|| String::from("default"));
        let by = spec.by.clone().unwrap_or_else(|| match suite.reward {
            Some(_) => String::from("reward"),
            None => String::from("success"),
        });
        let optimiser = Self {
            proposer: proposing::team(team, &model),
            team: team.clone(),
            folder: folder.to_owned(),
            suite,
            spec,
            samples,
            parts,
            names,
            by,
        };
        // All faults of the suite are told before anything is tried.
        let base = [(String::from("base"), VariantSpec::default())];
        let whole = optimiser.evaluation(base, optimiser.samples.clone(), 1)?;
        let mut known = whole.scorer_names();
        known.push(String::from("success"));
        known.extend(
            optimiser
                .suite
                .reward
                .iter()
                .map(|_| String::from("reward")),
        );
        if !known.contains(&optimiser.by) {
            let reason = format!("is {:?}; there are: {}", optimiser.by, known.join(", "));
            return Err(fault("by", reason).into());
        }
        Ok(optimiser)
    }

    /// The search: its subject and its way.
    pub fn spec(&self) -> &OptimiseSpec {
        &self.spec
    }

    /// How many samples there are for learning, for choosing, and for the gain at the end.
    pub fn parts(&self) -> (usize, usize, usize) {
        let parts = &self.parts;
        (parts.train.len(), parts.validate.len(), parts.test.len())
    }

    /// Looks for better texts, and measures the gain with samples that the search did not see. `start` opens the
    /// store that is to record it, which a System closes when it stops, and starts a System of these teams over it; one lives
    /// at a time. `seen` is called with the number of samples
    /// tried. Called again it continues with what is not recorded yet, and its result is the same.
    ///
    /// # Errors
    /// The System's error, such as a store that cannot be written. All that is recorded by then stays.
    pub async fn run<S>(
        &self,
        start: S,
        registry: &Registry,
        seen: impl Fn(usize),
    ) -> Result<Optimised, SystemError>
    where
        S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
    {
        let mut search = Search::new(self, &start, registry, &seen);
        let ended = match self.spec.method {
            Method::Bootstrap => demonstrating::search(&mut search).await,
            Method::Instructions => combining::search(&mut search).await,
            Method::Gepa => gepa::search(&mut search).await,
        };
        let closed = search.close().await;
        let stopped = match ended {
            Ok(()) | Err(Halt::Tries) => None,
            Err(Halt::Budget(why)) => Some(why),
            Err(Halt::Infrastructure(why)) => {
                Some(format!("{why}: the same command continues from here"))
            }
            Err(Halt::Fault(fault)) => Some(fault.to_string()),
            Err(Halt::System(error)) => return Err(error),
        };
        closed?;
        let mut found = Optimised::new(&search, stopped);
        if found.stopped.is_none()
            && let Some(best) = search.best().filter(|best| *best > 0)
        {
            let best = search.pool[best].candidate.clone();
            found.gain = self.gain(&search, &best, registry, &start).await?;
            found.patch = Some(self.patch(&best, found.gain.as_ref()));
        }
        Ok(found)
    }

    /// The gain of these texts, with the samples that nobody saw.
    async fn gain<S>(
        &self,
        search: &Search<'_, S>,
        best: &Candidate,
        registry: &Registry,
        start: &S,
    ) -> Result<Option<GainReport>, SystemError>
    where
        S: AsyncFn(Vec<Team>) -> Result<System, SystemError>,
    {
        let name = best.name(&self.team);
        let variants = [
            (String::from("base"), VariantSpec::default()),
            (name.clone(), best.variant(&self.team)),
        ];
        let of = |place: &usize| self.samples[*place].clone();
        let samples: Vec<Sample> = self.parts.test.iter().map(of).collect();
        let Ok(evaluation) = self.evaluation(variants, samples, self.suite.repeat) else {
            return Ok(None);
        };
        let system = start(evaluation.teams(registry)).await?;
        let measured = self.measured(&evaluation, &system, &search.purse).await;
        system.stop().await?;
        let (cells, unreadable) = measured?;
        Ok(GainReport::new(&self.by, &name, &cells, unreadable))
    }

    /// The cells by which the gain is measured. Unreadable ones are counted, and have the lowest scores, as in the search.
    async fn measured(
        &self,
        evaluation: &Evaluation,
        system: &System,
        purse: &Purse,
    ) -> Result<(Vec<Cell>, usize), SystemError> {
        let cells = evaluation.run_from(system, Reach::Try, purse, |_| {});
        let (mut cells, mut unreadable) = (cells.await?, 0);
        for cell in &mut cells {
            let is_unread = matches!(cell.result, CellResult::Unreadable { .. });
            unreadable += usize::from(is_unread && self.measure(cell).is_none());
            evaluation.sink(cell);
        }
        Ok((cells, unreadable))
    }

    fn patch(&self, best: &Candidate, gain: Option<&GainReport>) -> Patch {
        let changes = best.changes(&self.team);
        let texts = changes.into_iter().map(|(name, to)| TextPatch {
            from: name.of(&self.team).unwrap_or_default(),
            text: name,
            to,
        });
        let team = match &self.suite.team {
            TeamSource::File(path) => self.folder.join(path),
            TeamSource::Here(_) => PathBuf::new(),
        };
        Patch {
            evaluation: self.suite.evaluation.clone(),
            team,
            gain: gain.map_or_else(
                || String::from("the gain was not measured"),
                GainReport::text,
            ),
            texts: texts.collect(),
        }
    }

    /// The team's own texts.
    fn own(&self) -> Candidate {
        let names = self.names.iter();
        let texts = names.map(|name| (name.clone(), name.of(&self.team).unwrap_or_default()));
        Candidate {
            texts: texts.collect(),
            demonstrations: Vec::new(),
        }
    }

    /// An evaluation of variants of the team over some samples.
    fn evaluation(
        &self,
        variants: impl IntoIterator<Item = (String, VariantSpec)>,
        samples: Vec<Sample>,
        repeat: u32,
    ) -> Result<Evaluation, EvaluationFault> {
        let mut suite = self.suite.clone();
        suite.variants = variants.into_iter().collect();
        suite.repeat = repeat;
        suite.pairwise.clear();
        suite.gate = None;
        Evaluation::in_folder(suite, &self.team, samples, &self.folder)
    }

    /// The objective.
    fn measure(&self, cell: &Cell) -> Option<f64> {
        match self.by.as_str() {
            "success" => cell.success().map(|success| f64::from(u8::from(success))),
            "reward" => cell.reward,
            scorer => cell.value(scorer),
        }
    }

    /// Whether the measure is a share, of which 1 is the most.
    fn is_share(&self) -> bool {
        self.by != "reward"
    }

    /// Whether an answer with this measure leaves something to learn.
    fn may_rise(&self, score: Option<f64>) -> bool {
        score.is_some_and(|score| !self.is_share() || score < 1.0)
    }

    /// Whether an answer with this measure may be shown as a good one.
    fn is_good(&self, score: f64) -> bool {
        match self.is_share() {
            true => score >= 1.0,
            false => score > 0.0,
        }
    }
}
