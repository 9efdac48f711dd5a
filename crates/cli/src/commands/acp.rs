//! `ghostlight protocol acp`.

use ghostlight::{acp::AcpServer, config};
use ghostlight_actors::run::Registry;

use super::standard_streams;
use crate::{
    exit::{Exit, Failure},
    more_arguments::Acp,
};

/// Serves a team to an editor on the standard streams, until the editor closes them.
pub(super) async fn serve(arguments: Acp, registry: Registry) -> Result<Exit, Failure> {
    let file = config::load(&arguments.team_file)?;
    let settings = (&arguments.model, &arguments.store);
    standard_streams::serve(
        file,
        registry,
        settings,
        "an editor",
        async |system, team| AcpServer::new(system, team.name).serve_stdio().await,
    )
    .await
}
