//! A team that is served on the standard streams.

use std::fmt::Display;

use ghostlight::config::TeamFile;
use ghostlight_actors::{
    actor::{System, SystemError},
    definition::TeamSpec,
    run::{Registry, Team},
};

use crate::{
    arguments::StoreArguments,
    default_model::{self, ModelArguments},
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
    telemetry::Exporter,
};

/// Starts a team and serves it to `client` until that closes the streams, or the command is interrupted.
pub(super) async fn serve<F, E>(
    mut file: TeamFile,
    registry: Registry,
    (model, store): (&ModelArguments, &StoreArguments),
    client: &str,
    served: impl FnOnce(System, TeamSpec) -> F,
) -> Result<Exit, Failure>
where
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    default_model::define(file.spec_mut(), &registry, model)?;
    let keeping = Keeping::open(store).await?;
    let spec = file.spec().clone();
    let model = default_model::describe(&spec, &registry);
    let mut interrupt = Interrupt::new()?;
    let system = System::builder(keeping.store.clone()).team(Team {
        spec: spec.clone(),
        registry,
    });
    let system = system.start().await.map_err(|error| match error {
        SystemError::Definition(error) => Failure::Config(file.locate(&error)),
        error => error.into(),
    })?;
    let system = system.as_operator();
    let exporter = Exporter::begin(&system).await?;
    super::note(&format!(
        "team {}, model {model}, in {}; {client} speaks on the standard streams",
        spec.name,
        keeping.store.description(),
    ));
    let result = tokio::select! {
        biased;
        () = interrupt.fired() => Ok(Exit::Done),
        ended = served(system.clone(), spec) => match ended {
            Ok(()) => Ok(Exit::Done),
            Err(error) => Err(Failure::Usage(error.to_string())),
        },
    };
    exporter.end().await;
    super::stop(&system, &mut interrupt, result).await
}
