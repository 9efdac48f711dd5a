//! Types of typical answers, with every shape that their schemas can have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Order {
    pub(super) id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    /// How many times it was changed; `null` is not a number of times.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) changes: u8,
    pub(super) items: Vec<Item>,
    /// How it is paid.
    pub(super) payment: Payment,
    pub(super) state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<(f64, f64)>,
    pub(super) contact: Contact,
}

fn is_zero(changes: &u8) -> bool {
    *changes == 0
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Item {
    #[schemars(length(min = 1))]
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Payment {
    Cash,
    Card {
        number: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        owners: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) enum State {
    /// Nobody has looked at it.
    Open,
    /// It is with the customer.
    Delivered,
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Contact {
    Phone {
        phone: String,
        #[serde(default, skip_serializing_if = "is_zero")]
        extension: u8,
        #[serde(default, skip_serializing_if = "is_zero")]
        country: u8,
    },
    Mail {
        mail: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Tree {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) children: Vec<Tree>,
}
