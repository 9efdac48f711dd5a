//! The arguments of the HTTP server and its keys.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, Subcommand, ValueEnum};
use ghostlight::server::{Quota, QuotaFor, Scope, ServerOptionsError, Visibility};

use super::{
    arguments::{Serve, ShowArguments, StoreArguments},
    default_model::ModelArguments,
    retention_arguments::RetentionArguments,
    when::age,
};

/// How `serve` answers over HTTP.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct HttpArguments {
    /// Answer requests over HTTP at this address, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(super) listen: Option<SocketAddr>,
    /// The file of API keys; see `ghostlight key` [default: beside the store]
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(super) keys: Option<PathBuf>,
    /// The identity provider whose tokens (JWT) are accepted, such as https://id.example.org/
    #[arg(long, value_name = "URL", requires_all = ["listen", "audience", "jwks"])]
    pub(super) issuer: Option<String>,
    /// The audience for which its tokens must be issued
    #[arg(long, value_name = "NAME", requires = "issuer")]
    pub(super) audience: Option<String>,
    /// Its published keys: an address or a file
    #[arg(long, value_name = "URL|FILE", requires = "issuer")]
    pub(super) jwks: Option<String>,
    /// The scopes of a role there, such as editor=read,run; may be given several times
    #[arg(long, value_name = "ROLE=SCOPE,…", value_parser = role, requires = "issuer")]
    pub(super) role: Vec<(String, Vec<Scope>)>,
    /// Hosts of identities (did:wba) whose signed requests are let in, with what they may do, such as
    /// agents.example.org=read,run; may be given several times
    #[arg(long, value_name = "HOST=SCOPE,…", value_parser = identities, requires_all = ["listen", "address"])]
    pub(super) did: Vec<(String, Vec<Scope>)>,
    /// The private key (PEM, PKCS#8, Ed25519 or P-256) that signs the cards of the team (Agent2Agent)
    #[arg(long, value_name = "FILE", requires_all = ["listen", "address"])]
    pub(super) card_key: Option<PathBuf>,
    /// A name under which the server answers; may be given several times
    #[arg(long, value_name = "NAME", requires = "listen", value_parser = checked(ServerOptionsError::check_host))]
    pub(super) host: Vec<String>,
    /// Where clients reach the server, such as https://agents.example.org, when that is not where it listens
    #[arg(long, value_name = "URL", requires = "listen", value_parser = checked(ServerOptionsError::check_address))]
    pub(super) address: Option<String>,
    /// Where the other processes over the same database reach this server, such as http://10.0.0.1:8080: they show each other
    /// what is under way, with the key (admin) in GHOSTLIGHT_NODE_KEY
    #[arg(long, value_name = "URL", requires = "listen", value_parser = url)]
    pub(super) node_address: Option<String>,
    /// A site whose pages may use the server, such as https://example.org; may be given several times
    #[arg(long, value_name = "URL", requires = "listen", value_parser = checked(ServerOptionsError::check_origin))]
    pub(super) origin: Vec<String>,
    /// The certificate chain (PEM) with which the server speaks TLS
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_key"])]
    pub(super) tls_certificate: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(super) tls_key: Option<PathBuf>,
    /// The quota of each subject, each tenant, the team, or each subject at the team, such as subject=100/1h,
    /// team=2000000tokens/1d or tenant=20.00cost/1d; may be given several times
    #[arg(long, value_name = "WHOSE=QUOTA", value_parser = quota, requires = "listen")]
    pub(super) quota: Vec<(QuotaFor, Quota)>,
    /// A host to which requests may have answers posted, such as example.org or *.example.org; may be given several times
    #[arg(long, value_name = "HOST", requires = "listen")]
    pub(super) deliver_to: Vec<String>,
    /// A network that is not public, to which messages may be posted nevertheless, such as 10.1.0.0/16; may be given several
    /// times
    #[arg(long, value_name = "NETWORK", requires = "listen")]
    pub(super) deliver_network: Vec<String>,
    /// An evaluation whose recorded cells the page shows to the operator; may be given several times
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(super) eval: Vec<PathBuf>,
    /// The networks that learn of the team
    #[arg(long, value_enum, default_value_t, requires = "listen")]
    pub(super) visibility: Shown,
    /// Whether the page is opened in a browser.
    #[arg(skip)]
    pub(super) opens: bool,
}

/// An address with a port; `localhost` is the machine's own.
fn address(text: &str) -> Result<SocketAddr, String> {
    let of_itself = text.strip_prefix("localhost:");
    let numeric = of_itself.map(|port| format!("127.0.0.1:{port}"));
    let parsed = numeric.as_deref().unwrap_or(text).parse();
    parsed.map_err(|_| {
        "give an address and a port, such as 127.0.0.1:8080, or 0.0.0.0:8080 for all networks"
            .to_owned()
    })
}

/// An address of HTTP.
fn url(text: &str) -> Result<String, String> {
    let written = ghostlight::models::http_client(text);
    written
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

/// A role, or a host of identities, and what it stands for.
fn role(text: &str) -> Result<(String, Vec<Scope>), String> {
    let (role, scopes) = text
        .split_once('=')
        .ok_or_else(|| "give a name and what is allowed, such as editor=read,run".to_owned())?;
    let scopes: Result<Vec<Scope>, String> = scopes.split(',').map(str::parse).collect();
    Ok((role.to_owned(), scopes?))
}

/// A host of identities, and what they may do. They have no tenant that they could see.
fn identities(text: &str) -> Result<(String, Vec<Scope>), String> {
    let (host, scopes) = role(text)?;
    match scopes.contains(&Scope::Tenant) {
        true => Err("identities have no tenant: leave the scope tenant out".to_owned()),
        false => Ok((host, scopes)),
    }
}

/// A text that stands for itself once it was checked.
fn checked(
    check: fn(&str) -> Result<(), ServerOptionsError>,
) -> impl Fn(&str) -> Result<String, ServerOptionsError> + Clone + Send + Sync + 'static {
    move |text| check(text).map(|()| text.to_owned())
}

/// A quota, and whose it is.
fn quota(text: &str) -> Result<(QuotaFor, Quota), String> {
    let (whose, quota) = text
        .split_once('=')
        .ok_or_else(|| "give whose it is, such as subject=100/1h".to_owned())?;
    Ok((whose.parse()?, quota.parse()?))
}

/// The networks that learn of the team.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Shown {
    /// Everybody; using it needs a key
    Public,
    /// Every holder of a key
    #[default]
    Internal,
    /// Nobody: the team works for its schedules and other processes alone
    Private,
}

impl From<Shown> for Visibility {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::Public => Self::Public,
            Shown::Internal => Self::Internal,
            Shown::Private => Self::Private,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Dev {
    /// The team file (YAML); each change of it is taken for new runs
    pub(super) team_file: PathBuf,
    /// The port at 127.0.0.1 [default: one that is free]
    #[arg(long, value_name = "PORT", default_value_t, hide_default_value = true)]
    pub(super) port: u16,
    /// Only print the address, and open no browser
    #[arg(long)]
    pub(super) no_browser: bool,
    /// An evaluation whose recorded cells the page shows; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) eval: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

impl Dev {
    /// The same as arguments of `serve`.
    pub(super) fn into_serve(self) -> Serve {
        let http = HttpArguments {
            listen: Some((Ipv4Addr::LOCALHOST, self.port).into()),
            opens: !self.no_browser,
            eval: self.eval,
            ..HttpArguments::default()
        };
        Serve {
            team_file: self.team_file,
            http,
            retention: RetentionArguments::default(),
            expire_silent: None,
            live_runs: None,
            patience: None,
            model: self.model,
            store: self.store,
            show: ShowArguments { json: false },
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Open {
    /// The run that is shown first, or the beginning of its id [default: all runs]
    pub(super) run: Option<String>,
    /// The port at 127.0.0.1 [default: one that is free]
    #[arg(long, value_name = "PORT", default_value_t, hide_default_value = true)]
    pub(super) port: u16,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

/// Where keys are.
#[derive(Clone, Debug, Args)]
pub(super) struct KeyArguments {
    /// The file of API keys [default: beside the store]
    #[arg(long, value_name = "FILE")]
    pub(super) keys: Option<PathBuf>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
}

#[derive(Debug, Args)]
pub(super) struct Key {
    #[command(subcommand)]
    pub(super) command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Make a key and print it; only its hash is kept
    Add {
        /// Its subject: the owner of the sessions that it begins
        subject: String,
        /// The scopes of its holder: read, run, tenant (see all of its tenant), metrics, admin
        #[arg(
            long,
            value_name = "SCOPE,…",
            value_delimiter = ',',
            default_value = "read,run"
        )]
        scopes: Vec<Scope>,
        /// The tenant of that subject: subjects of two tenants share nothing, whatever they are called [default: none]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// When it ends, such as 12h or 90d [default: never]
        #[arg(long, value_name = "AGE", value_parser = life)]
        expires: Option<Duration>,
        /// Its quota, such as 100/1h, 200000tokens/1d or 2.50cost/1d; may be given several times
        #[arg(long, value_name = "QUOTA")]
        quota: Vec<Quota>,
        #[command(flatten)]
        keys: KeyArguments,
    },
    /// List the keys, including those that have expired
    List {
        #[command(flatten)]
        keys: KeyArguments,
        #[command(flatten)]
        show: ShowArguments,
    },
    /// Revoke a key at once, even while a server runs
    Revoke {
        /// The key's id, as `ghostlight key list` shows it
        id: String,
        #[command(flatten)]
        keys: KeyArguments,
    },
}

/// How long a key is to be accepted.
fn life(text: &str) -> Result<Duration, String> {
    let life = age(text)?;
    match life.is_zero() {
        true => Err("a key that ends at once opens nothing: give 1s or more".to_owned()),
        false => Ok(life),
    }
}
