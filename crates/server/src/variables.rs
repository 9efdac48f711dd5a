//! `${NAME}` in addresses and secrets of a team: looked up where they are used, so that no definition holds the values.

use std::{env, fmt};

#[cfg(feature = "deliveries")]
use ghostlight_safety::{references, revealed};

/// How variables are looked up.
#[derive(Clone, Copy)]
pub(crate) struct Variables(fn(&str) -> Option<String>);

impl Variables {
    pub(crate) fn of(look_up: fn(&str) -> Option<String>) -> Self {
        Self(look_up)
    }

    /// The secret that a variable holds; empty where it is not set.
    pub(crate) fn secret(self, name: &str) -> String {
        let found = (self.0)(name).unwrap_or_default();
        found.trim().to_owned()
    }

    /// An address with the values of its variables.
    ///
    /// # Errors
    /// The fault of a variable, in words.
    #[cfg(feature = "deliveries")]
    pub(crate) fn reveal(self, address: &str) -> Result<String, String> {
        let pieces = references(address).map_err(|error| error.to_string())?;
        revealed(&pieces, |name| Some(self.secret(name)))
            .map_err(|name| format!("the variable {name} of the address is not set"))
    }
}

impl Default for Variables {
    fn default() -> Self {
        Self(|name| env::var(name).ok())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variables")
    }
}

#[cfg(all(test, feature = "deliveries"))]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_revealed_once() {
        let variables = Variables::of(|name| (name == "KEY").then(|| " ${KEY}$$ ".to_owned()));
        for (address, revealed) in [
            ("https://host/${KEY}/x", Ok("https://host/${KEY}$$/x")),
            ("https://${HOST:-host}/x", Ok("https://host/x")),
            (
                "https://host/${NONE}",
                Err("the variable NONE of the address is not set"),
            ),
            (
                "https://host/${KEY",
                Err(
                    "there is a `${` without its `}`; write ${NAME} for a variable, or $$ for a dollar",
                ),
            ),
        ] {
            let found = variables.reveal(address);
            let found = found.as_deref().map_err(String::as_str);
            assert_eq!(found, revealed, "{address}");
        }
    }
}
