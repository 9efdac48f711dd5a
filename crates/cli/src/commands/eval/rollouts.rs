//! `ghostlight eval rollouts`.

use std::{cell::RefCell, path::Path, time::Duration};

use futures_util::future;
use ghostlight::evals::{
    Cell, Evaluation, Reach,
    suite::{Sample, SuiteSpec, VariantSpec, Wanted},
};
use ghostlight_actors::{
    actor::System,
    definition::{ModelSpec, TeamSpec},
    run::{Registry, Team},
    vocabulary::Digest,
};
use serde_json::{Map, Value, json};

use super::{
    data,
    gateway::{Gateway, Rollout},
    read, start_anew, team, usage,
};
use crate::{
    arguments::StoreArguments,
    commands::{note, print, stop},
    default_model,
    eval_rollout_arguments::EvalRollouts,
    exit::{Exit, Failure},
    interrupt::Interrupt,
};

/// How long a runner waits before it looks for more rollouts.
const PAUSE: Duration = Duration::from_secs(1);
/// The provider of models whose address can be a gateway's.
const PROVIDER: &str = "openai";

/// Does the rollouts that wait at a trainer's gateway.
pub(super) async fn rollouts(arguments: EvalRollouts, registry: Registry) -> Result<Exit, Failure> {
    let path = &arguments.file;
    let mut suite = read(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let samples = data::samples(&suite, folder, &Wanted::new(), &arguments.store).await?;
    let mut file = team(&suite, path)?;
    default_model::define(file.spec_mut(), &registry, &arguments.model)?;
    suite.repeat = 1;
    suite.gate = None;
    suite.pairwise.clear();
    let team = file.into_spec();
    // A fault of the suite is told before any rollout is taken.
    let any = vec![Sample::new("any", "?")];
    Evaluation::in_folder(suite.clone(), &team, any, folder).map_err(usage)?;
    let is_called_there = |model: &ModelSpec| model.provider == PROVIDER;
    if !team.models.values().any(is_called_there) {
        return Err(usage(format!(
            "the team has no model of the provider `{PROVIDER}`, whose address could be the gateway's"
        )));
    }
    let runner = Runner {
        gateway: Gateway::new(&arguments.gateway, &arguments.key_env)?,
        team,
        store: &arguments.store,
        suite,
        samples,
        folder,
        registry,
        open: RefCell::new(None),
    };
    let mut interrupt = Interrupt::new()?;
    let done = tokio::select! {
        done = runner.run(&arguments) => Some(done),
        () = interrupt.fired() => None,
    };
    match done {
        Some(done) => done,
        None => {
            note("interrupted: the same command with --take-running continues from here");
            let system = runner.open.take();
            match system {
                Some(system) => stop(&system, &mut interrupt, Ok(Exit::Interrupted)).await,
                None => Ok(Exit::Interrupted),
            }
        }
    }
}

/// The source of rollouts.
struct Runner<'a> {
    gateway: Gateway,
    suite: SuiteSpec,
    samples: Vec<Sample>,
    team: TeamSpec,
    folder: &'a Path,
    registry: Registry,
    store: &'a StoreArguments,
    open: RefCell<Option<System>>,
}

impl Runner<'_> {
    async fn run(&self, arguments: &EvalRollouts) -> Result<Exit, Failure> {
        let (mut done, mut failed) = (0, 0);
        let mut running = arguments.take_running;
        loop {
            // As many as may be under way at once, in one System.
            let found = self
                .gateway
                .rollouts(running, self.suite.concurrency)
                .await?;
            if found.is_empty() {
                if !arguments.wait {
                    break;
                }
                running = false;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let cells = self.several(&found).await?;
            failed += found.len() - cells.len();
            for cell in cells {
                let (reward, why) = reward(&cell);
                match reward {
                    Some(_) => done += 1,
                    None => failed += 1,
                }
                if arguments.show.json {
                    let (id, runs) = (&cell.sample, &cell.runs);
                    let line = json!({ "rollout": id, "reward": reward, "why": why, "runs": runs });
                    print(&line.to_string())?;
                }
            }
        }
        if !arguments.show.json {
            print(&format!("{done} rollouts with a reward, {failed} without"))?;
        }
        Ok(match failed {
            0 => Exit::Done,
            _ => Exit::Failed,
        })
    }

    /// Does these rollouts side by side, and tells the gateway what came of each. Those that hold no sample have failed, and
    /// no cell.
    async fn several(&self, found: &[Rollout]) -> Result<Vec<Cell>, Failure> {
        let mut able = Vec::new();
        for rollout in found {
            match self.evaluation(rollout) {
                Ok(evaluation) => able.push((rollout, evaluation)),
                Err(fault) => {
                    let why = fault.to_string();
                    note(&why);
                    self.gateway
                        .state(&rollout.id, "failed", Some(&why))
                        .await?;
                }
            }
        }
        let teams = able.iter().flat_map(|(_, one)| one.teams(&self.registry));
        let mut teams: Vec<Team> = teams.collect();
        teams.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        teams.dedup_by(|a, b| a.spec.name == b.spec.name);
        let system = start_anew(self.store, teams).await?;
        *self.open.borrow_mut() = Some(system.clone());
        let cells = able
            .iter()
            .map(|(rollout, evaluation)| self.one(&system, rollout, evaluation));
        let cells = future::try_join_all(cells).await;
        drop(self.open.take());
        system.stop().await?;
        cells
    }

    async fn one(
        &self,
        system: &System,
        rollout: &Rollout,
        evaluation: &Evaluation,
    ) -> Result<Cell, Failure> {
        if !rollout.is_running() {
            self.gateway.state(&rollout.id, "running", None).await?;
        }
        let cells = evaluation.run_within(system, Reach::Try, |_| {}).await?;
        let cell = cells.into_iter().next();
        let mut cell = cell.ok_or_else(|| usage("the rollout has no sample"))?;
        match reward(&cell) {
            (Some(value), why) => {
                // A runner that is killed between the two tells the reward once all the same.
                self.gateway.reward(&rollout.id, value, &why).await?;
                self.gateway.state(&rollout.id, "succeeded", None).await?;
            }
            (None, why) => {
                self.gateway
                    .state(&rollout.id, "failed", Some(&why))
                    .await?
            }
        }
        cell.sample.clone_from(&rollout.id);
        Ok(cell)
    }

    /// The evaluation of one rollout: its sample, with a team whose models are called at the rollout's own address. Judges
    /// keep their models.
    fn evaluation(&self, rollout: &Rollout) -> Result<Evaluation, Failure> {
        let change = json!({ "base_url": self.gateway.model_address(rollout) });
        let models = self.team.models.iter();
        let models = models.filter(|(_, model)| model.provider == PROVIDER);
        let models: Map<String, Value> = models
            .map(|(name, _)| (name.clone(), change.clone()))
            .collect();
        let mut variant = VariantSpec::default();
        let models = Value::Object(models);
        variant.team.insert(String::from("models"), models);
        let mut suite = self.suite.clone();
        let name = Digest::of(rollout.id.as_bytes()).short();
        suite.variants = [(format!("rollout-{name:016x}"), variant)].into();
        let sample = self.sample(rollout)?;
        Evaluation::in_folder(suite, &self.team, vec![sample], self.folder).map_err(usage)
    }

    /// The sample of a rollout: one of the suite's that it names by `data_id`, or one that it holds, or a text.
    fn sample(&self, rollout: &Rollout) -> Result<Sample, Failure> {
        let fault = |why: String| usage(format!("the rollout {}: {why}", rollout.id));
        if let Value::String(text) = &rollout.input {
            return Ok(Sample::new(&rollout.id, text));
        }
        if let Some(id) = rollout.input.get("data_id").and_then(Value::as_str) {
            let known = self.samples.iter().find(|sample| sample.id == id);
            return known
                .cloned()
                .ok_or_else(|| fault(format!("the evaluation has no sample {id:?}")));
        }
        let mut sample: Sample = serde_json::from_value(rollout.input.clone())
            .map_err(|error| fault(format!("its input is not a sample: {error}")))?;
        if sample.id.is_empty() {
            sample.id.clone_from(&rollout.id);
        }
        match sample.texts().is_empty() {
            true => Err(fault(String::from("its input asks nothing"))),
            false => Ok(sample),
        }
    }
}

/// The reward of a cell, or that there is none, and why: the suite's reward, or else success.
fn reward(cell: &Cell) -> (Option<f64>, String) {
    let success = || cell.success().map(|success| f64::from(u8::from(success)));
    (cell.reward.or_else(success), cell.why())
}
