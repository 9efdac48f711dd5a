//! `ghostlight store open`: the page over a store, without setting up a server.

use std::collections::BTreeSet;

use ghostlight::server::{Server, page};
use ghostlight_actors::{
    actor::{System, pinned_team},
    contract::{Entropy as _, RunFilter, RunRow, SystemEntropy},
    run::{Registry, Team},
};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
    server_arguments::Open,
};

/// How many of the latest runs are searched for teams.
const LATEST: usize = 256;

/// Shows the page at an address of this machine, until Ctrl-C. A run is resumed only when a person
/// asks for it.
pub(super) async fn open(arguments: Open, registry: Registry) -> Result<Exit, Failure> {
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let row = match &arguments.run {
        Some(prefix) => Some(keeping.find(prefix).await?),
        None => None,
    };
    let mut interrupt = Interrupt::new()?;
    let at = (std::net::Ipv4Addr::LOCALHOST, arguments.port);
    let listener = TcpListener::bind(at).await.map_err(|error| {
        let port = arguments.port;
        Failure::Usage(format!("port {port} cannot be listened at: {error}"))
    })?;
    let at = listener.local_addr()?;
    let system = start(&keeping, row.as_ref(), &registry).await?;
    // The address is secret as long as only this screen shows it: once the cookie is set, the token
    // leaves the browser's address line.
    let token = format!("{:032x}{:032x}", SystemEntropy.bits(), SystemEntropy.bits());
    let server = Server::new(system.clone()).token(&token).page(page::FILES);
    let place = row.map_or_else(String::new, |row| format!("#/runs/{}", row.run));
    super::print(&format!("http://{at}/?token={token}{place}"))?;
    super::note(&format!(
        "open this address in a browser; it shows the runs in {}, and Ctrl-C ends it",
        keeping.store.description()
    ));
    let (stop, stopped) = oneshot::channel();
    let mut served = tokio::spawn(server.serve(listener, stopped));
    let result = tokio::select! {
        biased;
        () = interrupt.fired() => {
            let _ = stop.send(());
            served.await
        }
        ended = &mut served => ended,
    };
    let result = match result {
        Ok(served) => served.map(|()| Exit::Done).map_err(Failure::from),
        Err(error) => Err(std::io::Error::other(error).into()),
    };
    super::stop(&system, &mut interrupt, result).await
}

/// A System with the teams to which the latest runs are pinned, the newest of each name, so that
/// people can talk to them, and fork and retry their runs. A team with tools or behaviors that this
/// program lacks is left out; its runs can still be viewed.
async fn start(
    keeping: &Keeping,
    row: Option<&RunRow>,
    registry: &Registry,
) -> Result<System, Failure> {
    let mut filter = RunFilter::default();
    (filter.roots, filter.limit) = (true, LATEST);
    let latest = keeping.store.runs(filter).await?;
    let mut builder = System::builder(keeping.store.clone()).recover(false);
    let mut seen = BTreeSet::new();
    for row in row.into_iter().chain(&latest) {
        if !seen.insert(row.team.clone()) {
            continue;
        }
        let spec = match pinned_team(&keeping.store, row.root).await {
            Ok(spec) => spec,
            // One unreadable run is no reason to show none.
            Err(error) => {
                super::note(&format!("team {}: {error}", row.team));
                continue;
            }
        };
        let registry = registry.clone();
        match registry.clone().resolve(&spec) {
            Ok(_) => builder = builder.team(Team { spec, registry }),
            Err(error) => super::note(&format!(
                "the runs of team {} can be looked at only: {error}",
                row.team
            )),
        }
    }
    Ok(builder.start().await?.as_operator())
}
