//! Connections to the database: address, TLS and session settings.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use ghostlight_actors::contract::StoreError;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    Options,
    fault::Fault,
    libpq::{self, Parameters, host},
    tls::Tls,
};

/// How long a connection may be silent before it is considered broken.
const SILENCE: Duration = Duration::from_secs(10);

/// A parsed address, with the TLS settings.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
    /// The address for people, without the password.
    pub(crate) place: String,
    /// The schema of the tables.
    pub(crate) schema: String,
}

impl Address {
    pub(crate) fn read(url: &str, options: &Options) -> Result<Self, StoreError> {
        let unread = |reason: String| StoreError::Io {
            place: "the address of the PostgreSQL store".to_owned(),
            reason,
        };
        let mut parameters = Parameters::read(url, &options.variables).map_err(unread)?;
        let tls = Tls::take(&mut parameters).map_err(unread)?;
        let passwords = parameters.file("passfile", ".pgpass");
        let mut config = parameters.config().map_err(unread)?;
        config.ssl_mode(tls.mode);
        let schema = &options.schema;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || schema.len() > 63 || !schema.chars().all(is_name) {
            let allowed = "small letters, digits and underscores, at most 63";
            return Err(unread(format!(
                "the schema {schema:?} is not a name of {allowed}"
            )));
        }
        if config.get_password().is_none()
            && let Some(password) = &options.password
        {
            config.password(password.as_bytes());
        }
        if config.get_password().is_none()
            && let Some(file) = passwords
            && let Some(password) = libpq::password(&file, &config).map_err(unread)?
        {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("ghostlight");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(SILENCE / 2);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
            config.keepalives_idle(SILENCE / 2);
            config.keepalives_interval(SILENCE / 5);
        }
        // A process that freezes during a commit holds up all the others only for this long.
        let frozen = options.lease.max(Duration::from_secs(1)).as_millis();
        let given = config.get_options().unwrap_or_default();
        let all = format!(
            "{given} -c search_path={schema} -c idle_in_transaction_session_timeout={frozen}"
        );
        config.options(all.trim());
        let ports = config.get_ports().iter().chain(std::iter::repeat(&5432));
        let hosts = config.get_hosts().iter().zip(ports);
        let hosts: Vec<String> = hosts
            .map(|(at, port)| format!("{}:{port}", host(at)))
            .collect();
        let database = config
            .get_dbname()
            .or(config.get_user())
            .unwrap_or_default();
        let place = format!("postgres://{}/{database} ({schema})", hosts.join(","));
        let schema = schema.clone();
        Ok(Self {
            config,
            tls: tls.connect,
            place,
            schema,
        })
    }

    /// One connection. It ends when the client is dropped.
    pub(crate) async fn connect(&self) -> Result<Client, Fault> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        tokio::spawn(async move {
            // The next request reports why the connection broke.
            let _ = connection.await;
        });
        Ok(client)
    }

    pub(crate) fn pool(&self, connections: usize) -> Result<Pool, StoreError> {
        let recycling_method = RecyclingMethod::Fast;
        let manager = Manager::from_config(
            self.config.clone(),
            self.tls.clone(),
            ManagerConfig { recycling_method },
        );
        let built = Pool::builder(manager).max_size(connections.max(1)).build();
        built.map_err(|error| StoreError::Io {
            place: self.place.clone(),
            reason: error.to_string(),
        })
    }
}
