//! The samples of an evaluation.

use std::path::Path;

use ghostlight::evals::suite::{
    DataFault, DataSpec, Sample, SuiteSpec, Wanted, load_wanted, of_runs,
};

use crate::{arguments::StoreArguments, commands::note, exit::Failure, keeping::Keeping};

/// The samples that are wanted. Lines that cannot be read are named, and so are recorded runs that are not samples.
pub(super) async fn samples(
    suite: &SuiteSpec,
    folder: &Path,
    wanted: &Wanted,
    store: &StoreArguments,
) -> Result<Vec<Sample>, Failure> {
    let mut data = Vec::with_capacity(suite.data.len());
    for source in &suite.data {
        let DataSpec::Runs(spec) = source else {
            data.push(source.clone());
            continue;
        };
        let mut store = store.clone();
        if let Some(named) = &spec.store {
            // An address is not a path below the suite's folder.
            let is_address = named.to_string_lossy().contains("://");
            let path = if is_address {
                named.clone()
            } else {
                folder.join(named)
            };
            store.store = Some(path);
        }
        let keeping = Keeping::open_what_is_there(&store).await?;
        let (samples, left_out) = of_runs(&keeping.store, spec, &suite.evaluation).await?;
        tell(&left_out, wanted)?;
        data.push(DataSpec::Inline(samples));
    }
    let found = load_wanted(&data, folder, wanted).map_err(super::usage)?;
    tell(&found.left_out, wanted)?;
    if found.more_left_out > 0 {
        note(&format!("warning: left out: {} more", found.more_left_out));
    }
    Ok(found.samples)
}

fn tell(left_out: &[DataFault], wanted: &Wanted) -> Result<(), Failure> {
    match left_out.first() {
        Some(first) if wanted.strict => Err(super::usage(first)),
        _ => {
            for fault in left_out {
                note(&format!("warning: left out: {fault}"));
            }
            Ok(())
        }
    }
}
