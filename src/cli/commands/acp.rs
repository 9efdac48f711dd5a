//! `ghostlight acp`.

use ghostlight_acp::AcpServer;
use ghostlight_actors::{
    actor::{System, SystemError},
    run::{Registry, Team},
};

use crate::{
    cli::{
        default_model,
        exit::{Exit, Failure},
        interrupt::Interrupt,
        keeping::Keeping,
        more_arguments::Acp,
    },
    config,
};

/// Serves a team to an editor on the standard streams, until the editor closes them.
pub(super) async fn serve(arguments: Acp, registry: Registry) -> Result<Exit, Failure> {
    let mut file = config::load(&arguments.team_file)?;
    default_model::define(file.spec_mut(), &registry, &arguments.model)?;
    let keeping = Keeping::open(&arguments.store).await?;
    let spec = file.spec().clone();
    let model = default_model::describe(&spec, &registry);
    let mut interrupt = Interrupt::new()?;
    let name = spec.name.clone();
    let system = System::builder(keeping.store.clone()).team(Team { spec, registry });
    let system = system.start().await.map_err(|error| match error {
        SystemError::Definition(error) => Failure::Config(file.locate(&error)),
        error => error.into(),
    })?;
    let system = system.as_operator();
    super::note(&format!(
        "team {name}, model {model}, in {}; an editor speaks on the standard streams",
        keeping.store.description(),
    ));
    let server = AcpServer::new(system.clone(), name);
    let result = tokio::select! {
        biased;
        () = interrupt.fired() => Ok(Exit::Done),
        served = server.serve_stdio() => match served {
            Ok(()) => Ok(Exit::Done),
            Err(error) => Err(Failure::Usage(error.to_string())),
        },
    };
    super::stop(&system, &mut interrupt, result).await
}
