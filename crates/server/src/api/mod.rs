//! The JSON interface: sessions, runs, events and questions as the engine knows them.

mod asked;
#[cfg(feature = "evals")]
mod evaluations;
mod events;
mod load;
mod me;
#[cfg(feature = "memory")]
mod memories;
mod questions;
mod runs;
mod sessions;
mod status;
mod teams;
mod turns;
mod views;

use axum::http::Method;

use crate::{
    caller::Scope,
    endpoint::{Access, Endpoints},
};

pub(crate) use asked::Asked;
#[cfg(feature = "evals")]
pub(crate) use evaluations::Scored;
pub(crate) use events::Readings;
#[cfg(all(feature = "deliveries", feature = "memory"))]
pub(crate) use memories::names as memory_names;
pub(crate) use turns::{PATIENCE, TurnView, Unsaid, answer, turn_id};
#[cfg(feature = "anp")]
pub(crate) use views::End;

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const PUBLIC: Access = Access::Public;
const READ: Access = Access::Needs(Scope::Read);
const RUN: Access = Access::Needs(Scope::Run);
const ADMIN: Access = Access::Needs(Scope::Admin);

/// All endpoints of the interface.
pub(crate) fn endpoints(endpoints: Endpoints) -> Endpoints {
    let endpoints = status::endpoints(endpoints);
    let endpoints = load::endpoints(endpoints);
    let endpoints = me::endpoints(endpoints);
    #[cfg(feature = "memory")]
    let endpoints = memories::endpoints(endpoints);
    #[cfg(feature = "evals")]
    let endpoints = evaluations::endpoints(endpoints);
    let endpoints = teams::endpoints(endpoints);
    let endpoints = sessions::endpoints(endpoints);
    let endpoints = runs::endpoints(endpoints);
    questions::endpoints(endpoints)
}
