//! `ghostlight serve --listen`: the HTTP server beside the team.

use std::{io, path::Path, sync::Arc};

use ghostlight_actors::{actor::System, run::Registry};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use super::key;
use crate::{
    cli::{arguments::StoreArguments, exit::Failure, server_arguments::HttpArguments},
    config,
    server::{KeyFile, Server, page},
};
#[cfg(feature = "mcp")]
use crate::{
    mcp::{self, McpServer},
    server::{Scope, Visibility},
};

/// What is to be served, checked before anything begins.
pub(super) struct Served {
    arguments: HttpArguments,
    keys: Option<KeyFile>,
    tls: Option<Arc<ServerConfig>>,
    schema: Value,
}

impl Served {
    pub(super) fn new(
        arguments: HttpArguments,
        store: &StoreArguments,
        registry: &Registry,
    ) -> Result<Self, Failure> {
        let mut keys = None;
        if let Some(address) = arguments.listen {
            let file = key::file_of(arguments.keys.clone(), store)?;
            let has_keys = arguments.keys.is_some() || file.path().exists();
            if !has_keys && !address.ip().is_loopback() {
                return Err(Failure::Usage(format!(
                    "{address} can be reached from other machines: make a key first \
                     (`ghostlight key add NAME`), or listen at 127.0.0.1"
                )));
            }
            keys = has_keys.then_some(file);
        }
        let tls = match (&arguments.tls_certificate, &arguments.tls_key) {
            (Some(certificate), Some(key)) => Some(Arc::new(tls(certificate, key)?)),
            _ => None,
        };
        let schema = config::schema_for(registry);
        Ok(Self {
            arguments,
            keys,
            tls,
            schema,
        })
    }
}

/// The settings of TLS from these files.
fn tls(certificate: &Path, key: &Path) -> Result<ServerConfig, Failure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "{} cannot be used for TLS: {error}",
            path.display()
        ))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| failed(certificate, &error))
}

/// A server that answers.
pub(super) struct Listening {
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Listening {
    /// Begins to answer; nothing where no address was given.
    pub(super) async fn begin(system: &System, served: &Served) -> Result<Option<Self>, Failure> {
        let Served {
            arguments,
            keys,
            tls,
            schema,
        } = served;
        let Some(address) = arguments.listen else {
            return Ok(None);
        };
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| Failure::Usage(format!("{address} cannot be listened at: {error}")))?;
        let mut server = Server::new(system.clone())
            .team_schema(schema.clone())
            .page(page::FILES);
        for team in system.teams() {
            server = server.visibility(team.name, arguments.visibility.into());
        }
        for host in &arguments.host {
            server = server.host(host);
        }
        for (whose, quota) in &arguments.quota {
            server = server.quota(*whose, *quota);
        }
        if let Some(address) = &arguments.address {
            server = server.address(address);
        }
        for origin in &arguments.origin {
            server = server.origin(origin);
        }
        #[cfg(feature = "mcp")]
        if Visibility::from(arguments.visibility) != Visibility::Private {
            let mcp = system
                .teams()
                .iter()
                .fold(McpServer::new(system.clone()), |mcp, team| {
                    mcp.team(&team.name, super::mcp::described(team))
                });
            server = server.service("/mcp", Scope::Run, mcp::endpoint(&mcp));
        }
        let guarded = match keys {
            Some(keys) => {
                server = server.keys(keys.clone());
                format!("keys in {}", keys.path().display())
            }
            None => "without keys: everybody on this machine may do everything".to_owned(),
        };
        if let Some(tls) = tls {
            server = server.tls(tls.clone());
        }
        let at = listener.local_addr()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        super::note(&format!(
            "listens at {scheme}://{at} (a page for browsers is there), {guarded}"
        ));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.serve(listener, stopped));
        Ok(Some(Self { stop, task }))
    }

    /// Is done at once where the server has ended by itself, which it does only when it fails, and otherwise never:
    /// it is asked for again and again.
    pub(super) async fn ended(&mut self) {
        if !self.task.is_finished() {
            std::future::pending().await
        }
    }

    /// Accepts no more, and waits until what is under way has ended.
    pub(super) async fn end(self) -> Result<(), Failure> {
        let _ = self.stop.send(());
        match self.task.await {
            Ok(served) => Ok(served?),
            Err(error) => Err(io::Error::other(error).into()),
        }
    }
}
