//! The sections of a team that a server reads: who wakes it, who talks to it, and who hears of its runs. The engine stores
//! them with the team and does not read them.

mod messenger;
mod notification;
mod template_function;
mod webhook;

use std::collections::BTreeSet;

use ghostlight_actors::definition::{DefinitionError, TeamSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use messenger::{Messenger, MessengerForm};
pub use notification::{Notification, RunNews};
pub use webhook::{Webhook, WebhookMethod, WebhookPiece, WebhookSignature};

/// The sections of a team's definition that a server reads.
///
/// ```
/// use ghostlight_actors::definition::{AgentSpec, TeamSpec};
/// use ghostlight_server::{ServedSpec, Webhook};
///
/// let mut team = TeamSpec::new(AgentSpec::new("desk"));
/// team.webhooks.push(Webhook::new("issues", "${GITHUB_SECRET}").into());
/// assert_eq!(ServedSpec::of(&team)?.webhooks[0].name, "issues");
/// # Ok::<(), ghostlight_actors::definition::DefinitionError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct ServedSpec {
    /// When the team is woken by other programs, over HTTP.
    pub webhooks: Vec<Webhook>,
    /// To whom the server posts what becomes of the team's runs.
    pub notifications: Vec<Notification>,
    /// Where people talk to the team as they talk to each other.
    pub messengers: Vec<Messenger>,
}

impl ServedSpec {
    /// Reads and checks the sections of this team.
    ///
    /// # Errors
    /// The first fault.
    pub fn of(team: &TeamSpec) -> Result<Self, DefinitionError> {
        let served = Self {
            webhooks: read("webhook", "name", &team.webhooks)?,
            notifications: read("notification", "url", &team.notifications)?,
            messengers: read("messenger", "name", &team.messengers)?,
        };
        served.check()?;
        Ok(served)
    }

    /// Makes these the sections of a team.
    pub fn put_into(self, team: &mut TeamSpec) {
        team.webhooks = self.webhooks.into_iter().map(Value::from).collect();
        team.notifications = self.notifications.into_iter().map(Value::from).collect();
        team.messengers = self.messengers.into_iter().map(Value::from).collect();
    }

    /// Checks each entry, and that no two are the same.
    ///
    /// # Errors
    /// The first fault, with the entry's name or address.
    pub fn check(&self) -> Result<(), DefinitionError> {
        let mut names = BTreeSet::new();
        for webhook in &self.webhooks {
            let name = &webhook.name;
            if !well_formed(name) {
                let (what, name) = ("webhook", name.clone());
                return Err(DefinitionError::Name { what, name });
            }
            once(names.insert(name), || webhook.check()).map_err(fault("webhook", name))?;
        }
        for (number, to) in self.notifications.iter().enumerate() {
            let is_new = !self.notifications[..number].contains(to);
            once(is_new, || to.check()).map_err(fault("notification", &to.url))?;
        }
        let mut names = BTreeSet::new();
        for messenger in &self.messengers {
            let is_new = names.insert(&messenger.name);
            once(is_new, || messenger.check()).map_err(fault("messenger", &messenger.name))?;
        }
        Ok(())
    }
}

fn once(is_new: bool, check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    match is_new {
        true => check(),
        false => Err("it is there twice".to_owned()),
    }
}

/// The error of an entry that cannot be served.
fn fault(what: &'static str, name: &str) -> impl FnOnce(String) -> DefinitionError {
    let (wanted_by, name) = ("the team".to_owned(), name.to_owned());
    move |reason| DefinitionError::Settings {
        wanted_by,
        what,
        name,
        reason,
    }
}

/// The entries of a section, each of which is known by the text under this key.
fn read<T: DeserializeOwned>(
    what: &'static str,
    key: &str,
    section: &[Value],
) -> Result<Vec<T>, DefinitionError> {
    let read = |entry: &Value| {
        let name = entry[key].as_str().unwrap_or_default();
        T::deserialize(entry).map_err(|error| fault(what, name)(error.to_string()))
    };
    section.iter().map(read).collect()
}

/// An entry of a section, as a team stores it.
macro_rules! stored {
    ($($entry:ty),*) => {
        $(impl From<$entry> for Value {
            fn from(entry: $entry) -> Self {
                // Serialising texts, numbers and lists does not fail.
                serde_json::to_value(entry).unwrap_or_default()
            }
        })*
    };
}

stored!(Webhook, Notification, Messenger);

/// Whether a setting need not be written.
fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

/// Whether this is a name as teams and agents have them.
fn well_formed(name: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= 64 && name.chars().all(ok)
}
