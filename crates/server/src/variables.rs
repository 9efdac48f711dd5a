//! `${NAME}` in addresses and secrets of a team: looked up where they are used, so that no definition holds the values.

use std::{env, fmt};

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

    /// An address with the values of its variables. `$$` is a dollar sign.
    ///
    /// # Errors
    /// The name of a variable that is not set.
    #[cfg(feature = "deliveries")]
    pub(crate) fn reveal(self, address: &str) -> Result<String, String> {
        let (mut revealed, mut rest) = (String::with_capacity(address.len()), address);
        while let Some((before, after)) = rest.split_once('$') {
            revealed.push_str(before);
            let named = after
                .strip_prefix('{')
                .and_then(|after| after.split_once('}'));
            rest = match (after.strip_prefix('$'), named) {
                (Some(after), _) => {
                    revealed.push('$');
                    after
                }
                (None, Some((name, after))) => {
                    let value = self.secret(name);
                    if value.is_empty() {
                        return Err(name.to_owned());
                    }
                    revealed.push_str(&value);
                    after
                }
                (None, None) => {
                    revealed.push('$');
                    after
                }
            };
        }
        revealed.push_str(rest);
        Ok(revealed)
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
            (
                "https://host/$${KEY}?$=$5$",
                Ok("https://host/${KEY}?$=$5$"),
            ),
            ("https://host/${NONE}", Err("NONE")),
        ] {
            let found = variables.reveal(address);
            let found = found.as_deref().map_err(String::as_str);
            assert_eq!(found, revealed, "{address}");
        }
    }
}
