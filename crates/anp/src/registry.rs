//! A registry of agents that are there now.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

/// How many services a registry keeps, and how many of one owner.
const MAX_SERVICES: usize = 10_000;
const MAX_OF_OWNER: usize = 100;
/// The most bytes of a service, as JSON.
const MAX_BYTES: usize = 16 << 10;
/// The longest id and type, in bytes.
const MAX_NAME: usize = 200;
/// How long an announcement holds, in seconds: at least, when it does not say, and at most.
const TTL_S: (u32, u32, u32) = (5, 60, 3_600);

/// The announcement of a service. It comes again before its time is up; otherwise the service is taken for gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Announcement {
    /// Its id, which is its own for as long as it is there.
    pub id: String,
    /// Its type, such as `translator`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The addresses of its descriptions and interfaces.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// Its capabilities, in words that others look for.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Anything else.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// How well it is; 1 is well, and what is not above 0 counts as 1.
    #[serde(default)]
    pub health: f64,
    /// How busy it is, from 0 up.
    #[serde(default)]
    pub load: f64,
    /// How long this holds, in seconds: 5 to 3,600, and 60 where it is left out.
    pub ttl_s: Option<u32>,
}

/// A service that is there.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Service {
    /// Its announcement.
    #[serde(flatten)]
    pub announcement: Announcement,
    /// The identity that announced it, as it was verified; `None` where everybody may do everything.
    pub owner: Option<String>,
    /// How well it fits beside others of its type: health / (1 + load).
    pub score: f64,
    /// The time until it is taken for gone, in seconds.
    pub ends_in_s: u64,
}

/// How many services there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Statistics {
    /// All of them.
    pub services: usize,
    /// Those of each type.
    pub types: BTreeMap<String, usize>,
    /// The mean of their loads.
    pub mean_load: f64,
}

/// Why an announcement is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// It says something that cannot be.
    #[error("the announcement is not taken: {0}")]
    Invalid(String),
    /// The id belongs to another.
    #[error("the service {0:?} belongs to another owner")]
    Foreign(String),
    /// There is no room.
    #[error("the registry is full: try again when services have gone")]
    Full,
}

/// The services that announced themselves and whose time is not up.
///
/// It lives in memory: after a restart the services announce themselves again, as they do all the time.
#[derive(Debug, Default)]
pub struct Registry(Mutex<BTreeMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    announcement: Announcement,
    owner: Option<String>,
    until: Instant,
}

impl Announcement {
    /// The rank of a service beside others of its type: health / (1 + load), where a health that is not above 0 counts
    /// as 1.
    pub fn score(&self) -> f64 {
        let health = if self.health > 0.0 { self.health } else { 1.0 };
        health / (1.0 + self.load)
    }

    /// The fault in it.
    fn fault(&self) -> Option<String> {
        let is_name = |name: &str| {
            (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
        };
        if !is_name(&self.id) || !is_name(&self.kind) {
            return Some(
                "`id` and `type` have 1 to 200 bytes without control characters".to_owned(),
            );
        }
        if !self.health.is_finite() || !self.load.is_finite() || self.load < 0.0 {
            return Some("`health` and `load` are numbers, and `load` is not below 0".to_owned());
        }
        let (least, _, most) = TTL_S;
        if self.ttl_s.is_some_and(|ttl| !(least..=most).contains(&ttl)) {
            return Some(format!("`ttl_s` is {least} to {most}"));
        }
        let size = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        (size > MAX_BYTES).then(|| format!("it has more than {MAX_BYTES} bytes"))
    }

    fn has(&self, kind: Option<&str>, capabilities: &[&str]) -> bool {
        let can = |wanted: &&str| self.capabilities.iter().any(|own| own == wanted);
        kind.is_none_or(|kind| self.kind == kind) && capabilities.iter().all(can)
    }
}

impl Entry {
    fn service(&self, now: Instant) -> Service {
        Service {
            announcement: self.announcement.clone(),
            owner: self.owner.clone(),
            score: self.announcement.score(),
            ends_in_s: (self.until - now).as_secs(),
        }
    }
}

impl Registry {
    /// Takes what a service of this owner says of itself, instead of what it said before.
    ///
    /// # Errors
    /// A malformed service, another owner's id, or a registry with 10,000 services (100 of one owner).
    pub fn announce(
        &self,
        owner: Option<&str>,
        announcement: Announcement,
    ) -> Result<Service, RegistryError> {
        if let Some(fault) = announcement.fault() {
            return Err(RegistryError::Invalid(fault));
        }
        let mut entries = self.alive();
        let now = Instant::now();
        let id = announcement.id.clone();
        match entries.get(&id) {
            Some(before) if before.owner.as_deref() != owner => {
                return Err(RegistryError::Foreign(id));
            }
            Some(_) => {}
            None => {
                let of_owner = entries
                    .values()
                    .filter(|entry| entry.owner.as_deref() == owner);
                let is_full = owner.is_some() && of_owner.count() >= MAX_OF_OWNER;
                if is_full || entries.len() >= MAX_SERVICES {
                    return Err(RegistryError::Full);
                }
            }
        }
        let ttl = announcement.ttl_s.unwrap_or(TTL_S.1);
        let entry = Entry {
            announcement,
            owner: owner.map(str::to_owned),
            until: now + Duration::from_secs(ttl.into()),
        };
        let service = entry.service(now);
        entries.insert(id, entry);
        Ok(service)
    }

    /// Removes a service of this owner; says whether it was there.
    ///
    /// # Errors
    /// A service of another owner.
    pub fn withdraw(&self, owner: Option<&str>, id: &str) -> Result<bool, RegistryError> {
        let mut entries = self.alive();
        match entries.get(id) {
            None => Ok(false),
            Some(entry) if entry.owner.as_deref() != owner => {
                Err(RegistryError::Foreign(id.chars().take(MAX_NAME).collect()))
            }
            Some(_) => Ok(entries.remove(id).is_some()),
        }
    }

    /// The services of this type (or of all types) that have all these capabilities, in the order of their ids.
    pub fn discover(&self, kind: Option<&str>, capabilities: &[&str]) -> Vec<Service> {
        let now = Instant::now();
        let entries = self.alive();
        let fitting = entries
            .values()
            .filter(|entry| entry.announcement.has(kind, capabilities));
        fitting.map(|entry| entry.service(now)).collect()
    }

    /// The service with the highest [score](Announcement::score) of those that [`Self::discover`] finds; of equal ones
    /// the first.
    pub fn best(&self, kind: Option<&str>, capabilities: &[&str]) -> Option<Service> {
        self.best_by(kind, capabilities, |service| service.score)
    }

    /// The service for which a function gives the highest number; of equal ones the first.
    pub fn best_by(
        &self,
        kind: Option<&str>,
        capabilities: &[&str],
        score: impl Fn(&Service) -> f64,
    ) -> Option<Service> {
        let found = self.discover(kind, capabilities).into_iter();
        // Of equal ones `max_by` gives the last.
        found.rev().max_by(|a, b| score(a).total_cmp(&score(b)))
    }

    /// How many services there are.
    pub fn statistics(&self) -> Statistics {
        let entries = self.alive();
        let mut statistics = Statistics {
            services: entries.len(),
            ..Statistics::default()
        };
        for entry in entries.values() {
            *statistics
                .types
                .entry(entry.announcement.kind.clone())
                .or_default() += 1;
            statistics.mean_load += entry.announcement.load / entries.len() as f64;
        }
        statistics
    }

    /// The services whose time is not up.
    fn alive(&self) -> parking_lot::MutexGuard<'_, BTreeMap<String, Entry>> {
        let mut entries = self.0.lock();
        let now = Instant::now();
        entries.retain(|_, entry| entry.until > now);
        entries
    }
}
