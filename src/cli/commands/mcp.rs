//! `ghostlight mcp`.

use ghostlight_actors::{
    actor::{System, SystemError},
    definition::TeamSpec,
    run::{Registry, Team},
};
use ghostlight_mcp::McpServer;

use crate::{
    cli::{
        default_model,
        exit::{Exit, Failure},
        interrupt::Interrupt,
        keeping::Keeping,
        more_arguments::Mcp,
    },
    config, mcp,
};

/// Serves a team on the standard streams, until the client closes them.
pub(super) async fn serve(arguments: Mcp, registry: Registry) -> Result<Exit, Failure> {
    let mut file = config::load(&arguments.team_file)?;
    if let Some(server) = &arguments.sign_in {
        return sign_in(file.spec(), server).await;
    }
    default_model::define(file.spec_mut(), &registry, &arguments.model)?;
    let keeping = Keeping::open(&arguments.store).await?;
    let spec = file.spec().clone();
    let model = default_model::describe(&spec, &registry);
    let mut interrupt = Interrupt::new()?;
    let (name, description) = (spec.name.clone(), described(&spec));
    let system = System::builder(keeping.store.clone()).team(Team { spec, registry });
    let system = system.start().await.map_err(|error| match error {
        SystemError::Definition(error) => Failure::Config(file.locate(&error)),
        error => error.into(),
    })?;
    let system = system.as_operator();
    super::note(&format!(
        "team {name}, model {model}, in {}; an MCP client speaks on the standard streams",
        keeping.store.description(),
    ));
    let server = McpServer::new(system.clone()).team(name, description);
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

/// The description of a team for a client's model.
pub(super) fn described(team: &TeamSpec) -> String {
    match team.agent.description.as_str() {
        "" => format!(
            "Gives the team {} something to do and returns its answer.",
            team.name
        ),
        description => description.to_owned(),
    }
}

/// Lets a person sign in at a server of the team.
async fn sign_in(team: &TeamSpec, server: &str) -> Result<Exit, Failure> {
    let found = team.tools.get(server).filter(|tool| tool.kind == "mcp");
    let Some(found) = found else {
        let known = team.tools.iter().filter(|(_, tool)| tool.kind == "mcp");
        let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
        return Err(Failure::Usage(format!(
            "the team file has no MCP server {server:?}; it has: {}",
            known.join(", ")
        )));
    };
    let server = mcp::connection(server, &found.settings).map_err(Failure::Usage)?;
    let mut interrupt = Interrupt::new()?;
    let signing_in = server.sign_in(|address| {
        super::note(&format!(
            "open this address in a browser of this machine: {address}"
        ));
    });
    let signed_in = tokio::select! {
        biased;
        () = interrupt.fired() => return Ok(Exit::Interrupted),
        signed_in = signing_in => signed_in,
    };
    signed_in.map_err(|error| Failure::Usage(error.to_string()))?;
    super::note("signed in");
    Ok(Exit::Done)
}
