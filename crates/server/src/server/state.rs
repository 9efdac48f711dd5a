//! The state that all endpoints share: it knows callers and teams.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use axum::extract::Request;
#[cfg(feature = "a2a")]
use ghostlight_a2a::CardSigner;
use ghostlight_actors::{actor::System, definition::TeamSpec};
use ring::hmac;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "anp")]
use crate::anp::Identities;
#[cfg(feature = "deliveries")]
use crate::deliveries::Deliveries;
use crate::{
    api,
    caller::Caller,
    issuer::Issuer,
    keys::KeyFile,
    metrics::{Added, Metrics},
    options::ServerOptions,
    problem::Problem,
    quotas::Quotas,
    served::ServedSpec,
    subjects::Subjects,
    variables::Variables,
};

/// The callers that may learn of a team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Visibility {
    /// Everybody sees it in lists of agents; using it needs a key.
    Public,
    /// Holders of a key.
    #[default]
    Internal,
    /// Nobody over the network: clients cannot see it at all.
    Private,
}

/// The state that all endpoints share.
pub(crate) type Shared = Arc<State>;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) system: System,
    pub(crate) keys: Option<KeyFile>,
    pub(super) issuers: Vec<Issuer>,
    #[cfg(feature = "anp")]
    pub(crate) identities: Option<Identities>,
    #[cfg(feature = "a2a")]
    pub(crate) card_signer: Option<CardSigner>,
    /// The services that announced themselves.
    #[cfg(feature = "anp")]
    pub(crate) services: ghostlight_anp::Registry,
    /// The operator's token.
    pub(super) token: Option<Token>,
    /// Whether the server itself speaks TLS.
    pub(crate) has_tls: bool,
    pub(crate) limits: ServerOptions,
    /// The requests that each subject has under way.
    pub(crate) subjects: Subjects,
    /// The room for bodies whose senders are not proven yet, in bytes.
    pub(crate) unverified: Arc<Semaphore>,
    pub(crate) quotas: Quotas,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) added: Option<Added>,
    pub(crate) variables: Variables,
    #[cfg(feature = "evals")]
    pub(crate) evaluations: Vec<api::Scored>,
    /// Readings of trees, page by page.
    pub(crate) readings: api::Readings,
    pub(crate) stopping: CancellationToken,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) schema: Option<Value>,
    /// The address at which clients reach the server, where it is not the one that their requests name.
    pub(crate) address: Option<String>,
    /// Set when the router is made.
    pub(crate) openapi: OnceLock<Value>,
    #[cfg(feature = "deliveries")]
    pub(super) deliveries: Option<Deliveries>,
    pub(super) visibility: BTreeMap<String, Visibility>,
}

/// The operator's token, as a key and its authentication code, so that comparing takes the same time for any text.
#[derive(Clone, Debug)]
pub(super) struct Token(pub(super) hmac::Tag);

pub(super) fn hashing() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, b"ghostlight operator token v1")
}

impl State {
    /// How the server knows its callers; nothing where everybody may do everything.
    pub(crate) fn knows_by(&self) -> Vec<&'static str> {
        let mut ways = Vec::new();
        ways.extend(self.keys.is_some().then_some("api_key"));
        ways.extend(self.token.is_some().then_some("operator_token"));
        ways.extend((!self.issuers.is_empty()).then_some("jwt"));
        #[cfg(feature = "anp")]
        ways.extend(self.identities.is_some().then_some("signed_request"));
        ways
    }

    /// Whether every caller may do everything.
    pub(crate) fn is_open(&self) -> bool {
        self.knows_by().is_empty()
    }

    /// The caller that signed a request; `None` where it is not signed, or no identities are let in.
    #[cfg(feature = "anp")]
    pub(crate) async fn signer(&self, request: &mut Request) -> Result<Option<Caller>, Problem> {
        match &self.identities {
            Some(identities) if Identities::sees(request.headers()) => {
                identities.caller(self, request).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The caller that signed a request: nobody, since no identities are known without the feature `anp`.
    #[cfg(not(feature = "anp"))]
    pub(crate) async fn signer(&self, _: &mut Request) -> Result<Option<Caller>, Problem> {
        Ok(None)
    }

    /// The caller with this key; `None` for a key that is not accepted.
    pub(crate) async fn caller(&self, key: &str) -> Result<Option<Caller>, Problem> {
        let is_token = |token: &Token| hmac::verify(&hashing(), key.as_bytes(), token.0.as_ref());
        if self
            .token
            .as_ref()
            .is_some_and(|token| is_token(token).is_ok())
        {
            return Ok(Some(Caller::Operator));
        }
        if let Some(keys) = &self.keys {
            let found = keys.caller(key).await;
            if let Some(found) = found.map_err(|error| Problem::internal(&error))? {
                return Ok(Some(found));
            }
        }
        for issuer in &self.issuers {
            if let Some(found) = issuer.caller(key).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    pub(crate) fn visibility(&self, team: &str) -> Visibility {
        self.visibility.get(team).copied().unwrap_or_default()
    }

    /// The deliveries of messages to other programs.
    #[cfg(feature = "deliveries")]
    pub(crate) fn deliveries(&self) -> Result<&Deliveries, Problem> {
        self.deliveries.as_ref().ok_or_else(Problem::no_deliveries)
    }

    /// The teams that clients may know of.
    pub(crate) fn teams(&self) -> Vec<TeamSpec> {
        let mut teams = self.system.teams();
        teams.retain(|team| self.visibility(&team.name) != Visibility::Private);
        teams
    }

    /// The team of this name, if clients may know of it.
    pub(crate) fn team(&self, name: &str) -> Option<TeamSpec> {
        let is_private = self.visibility(name) == Visibility::Private;
        self.system.team(name).filter(|_| !is_private)
    }

    /// The sections that a server reads of the team of this name, if clients may know of it.
    pub(crate) fn served(&self, name: &str) -> Result<Option<ServedSpec>, Problem> {
        let served = self.team(name).map(|team| ServedSpec::of(&team));
        served
            .transpose()
            .map_err(|error| Problem::internal(&error))
    }

    /// Whether there is a team of this name that clients may know of.
    pub(crate) fn has_team(&self, team: &str) -> bool {
        self.visibility(team) != Visibility::Private && self.system.has_team(team)
    }

    /// Checks that clients may know of a team.
    pub(crate) fn check_team(&self, team: &str) -> Result<(), Problem> {
        match self.visibility(team) {
            Visibility::Private => Err(Problem::not_found(format!("team {team:?}"))),
            _ => Ok(()),
        }
    }
}
