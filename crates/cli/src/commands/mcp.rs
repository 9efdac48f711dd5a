//! `ghostlight protocol mcp`.

use ghostlight::{
    config,
    mcp::{self, McpServer},
};
use ghostlight_actors::{definition::TeamSpec, run::Registry};

use super::standard_streams;
use crate::{
    exit::{Exit, Failure},
    interrupt::Interrupt,
    more_arguments::Mcp,
};

/// Serves a team on the standard streams, until the client closes them.
pub(super) async fn serve(arguments: Mcp, registry: Registry) -> Result<Exit, Failure> {
    let file = config::load(&arguments.team_file)?;
    if let Some(server) = &arguments.sign_in {
        return sign_in(file.spec(), server).await;
    }
    let settings = (&arguments.model, &arguments.store);
    standard_streams::serve(
        file,
        registry,
        settings,
        "an MCP client",
        async |system, team| {
            let description = described(&team);
            let mut server = McpServer::new(system).team(team.name, description);
            if let Some(folder) = &arguments.skills {
                server = server.skills(folder).map_err(|error| error.to_string())?;
            }
            let served = server.serve_stdio().await;
            served.map_err(|error| error.to_string())
        },
    )
    .await
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
