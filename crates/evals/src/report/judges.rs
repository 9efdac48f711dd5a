//! How far judges can be trusted.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    cell::{Cell, CellResult},
    evaluation::Evaluation,
    judged::Judged,
    judges::{Judge, LabelVerdicts},
    scorers::JudgeVerdict,
    scoring::resting_on,
    statistics::{Distance, cohens_kappa, krippendorffs_alpha},
};

/// How far a judge can be trusted.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct JudgeReport {
    /// The judge.
    pub judge: String,
    /// Each of its models.
    pub models: Vec<JudgeModelReport>,
    /// The agreement among its models (Krippendorff's alpha, for squared differences) about the answers of the variant that
    /// others are compared with, and about those that people judged: no other variant decides whether its judge counts.
    /// `None` for one model, and where nothing tells.
    pub alpha: Option<f64>,
    /// Its agreement with people; `None` where the suite has no verdicts of people.
    pub people: Option<PeopleReport>,
    /// The agreement that the suite asks for.
    pub needed: Option<f64>,
    /// Whether its score counts for the success of cells.
    pub counts: bool,
    /// The model calls for the answers that people judged.
    pub label_calls: u64,
}

/// The work of one model of a judge.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct JudgeModelReport {
    /// The model, by the team's name for it.
    pub by: String,
    /// Its verdicts.
    pub verdicts: usize,
    /// Those of them that could not be read.
    pub unreadable: usize,
    /// The mean of its scores.
    pub mean: Option<f64>,
    /// Its own agreement with people (Cohen's kappa, weighted by squares).
    pub kappa: Option<f64>,
}

/// The agreement of a judge with people.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PeopleReport {
    /// The verdicts of people that the suite has.
    pub labels: usize,
    /// How many answers both a person and the judge gave a score.
    pub both: usize,
    /// Cohen's kappa, weighted by squares; `None` where nothing tells. An answer about which the judge gave no verdict that
    /// can be read counts as one with the verdict farthest from the person's.
    pub kappa: Option<f64>,
}

/// The reports of an evaluation's judges.
pub(super) fn reports(
    evaluation: &Evaluation,
    cells: &[Cell],
    judged: &Judged,
) -> Vec<JudgeReport> {
    let (none, base) = (LabelVerdicts::default(), evaluation.base());
    let judges = evaluation.judges();
    judges
        .map(|judge| {
            let labels = judged.labels.get(&judge.name).unwrap_or(&none);
            report(judge, (cells, &base), labels)
        })
        .collect()
}

/// The scorers that count for nothing, since they rest on a judge that has not shown its agreement; each with that judge.
pub(super) fn distrusted(
    evaluation: &Evaluation,
    reports: &[JudgeReport],
) -> BTreeMap<String, String> {
    let judges = reports.iter().filter(|report| !report.counts);
    let judges: Vec<&str> = judges.map(|report| report.judge.as_str()).collect();
    resting_on(&evaluation.scorings, &judges)
}

fn report(judge: &Judge, (cells, base): (&[Cell], &str), labels: &LabelVerdicts) -> JudgeReport {
    let said = |cell| verdicts(cell, &judge.name);
    let (of_base, of_others): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| cell.variant == base);
    let mut all: Vec<&[JudgeVerdict]> = of_base.into_iter().filter_map(said).collect();
    all.extend(labels.pairs.iter().map(|(_, verdicts)| verdicts.as_slice()));
    let alpha = among_models(&all);
    all.extend(of_others.into_iter().filter_map(said));
    let mut pairs: Vec<(f64, &[JudgeVerdict])> = Vec::new();
    pairs.extend(
        labels
            .pairs
            .iter()
            .map(|(score, said)| (*score, said.as_slice())),
    );
    let named = judge.labels.of_cells(cells, base).into_iter();
    pairs.extend(named.filter_map(|(score, cell)| Some((score, said(cell)?))));
    let mut models = BTreeMap::<&str, Vec<&JudgeVerdict>>::new();
    for verdict in all.iter().copied().flatten() {
        models.entry(&verdict.by).or_default().push(verdict);
    }
    let models = models.into_iter().map(|(by, verdicts)| {
        let scores: Vec<f64> = verdicts.iter().filter_map(|v| v.score).collect();
        let own = pairs.iter().filter_map(|(person, said)| {
            let own = said.iter().find(|verdict| verdict.by == by)?;
            Some((*person, own.score?))
        });
        JudgeModelReport {
            by: by.to_owned(),
            verdicts: verdicts.len(),
            unreadable: verdicts.len() - scores.len(),
            mean: mean(&scores),
            kappa: cohens_kappa(&own.collect::<Vec<_>>(), Distance::Squared),
        }
    });
    let models = models.collect();
    let given: Vec<(f64, Option<f64>)> = pairs
        .iter()
        .map(|(person, said)| (*person, mean(&scores(said))))
        .collect();
    let highest = f64::from(judge.spec.scale);
    let compared = given.iter().map(|(person, given)| {
        let farthest = if 2.0 * person > 1.0 + highest {
            1.0
        } else {
            highest
        };
        (*person, given.unwrap_or(farthest))
    });
    let people = (!judge.labels.is_empty()).then(|| PeopleReport {
        labels: judge.labels.len(),
        both: given.iter().filter(|(_, given)| given.is_some()).count(),
        kappa: cohens_kappa(&compared.collect::<Vec<_>>(), Distance::Squared),
    });
    let shown = match &people {
        Some(people) => people.kappa,
        None => alpha,
    };
    let needed = judge.spec.agreement;
    JudgeReport {
        judge: judge.name.clone(),
        models,
        alpha,
        people,
        needed,
        counts: needed.is_none_or(|needed| shown.is_some_and(|shown| shown >= needed)),
        label_calls: labels.spent.model_calls,
    }
}

/// The agreement among several models about the same answers.
fn among_models(all: &[&[JudgeVerdict]]) -> Option<f64> {
    let by_thing: Vec<Vec<f64>> = all.iter().map(|verdicts| scores(verdicts)).collect();
    krippendorffs_alpha(&by_thing, Distance::Squared)
}

/// The scores of the verdicts that can be read.
fn scores(verdicts: &[JudgeVerdict]) -> Vec<f64> {
    verdicts
        .iter()
        .filter_map(|verdict| verdict.score)
        .collect()
}

/// The verdicts of a judge about a cell; none where it could not be read.
fn verdicts<'a>(cell: &'a Cell, judge: &str) -> Option<&'a [JudgeVerdict]> {
    match &cell.result {
        CellResult::Scored { scores } | CellResult::Unreadable { scores, .. } => {
            Some(scores.get(judge).map_or(&[], |score| &score.verdicts))
        }
        _ => None,
    }
}

fn mean(scores: &[f64]) -> Option<f64> {
    match scores {
        [] => None,
        scores => Some(scores.iter().sum::<f64>() / scores.len() as f64),
    }
}
