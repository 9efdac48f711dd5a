//! Clients' names of sessions.

/// The session names of one owner. Each owner has a space of its own, the same as in the other protocols of a server:
/// nobody can name or take another owner's session.
#[derive(Clone, Debug, Default)]
pub(super) struct Space(Option<String>);

impl Space {
    pub(super) fn of(owner: Option<&str>) -> Self {
        Self(owner.map(str::to_owned))
    }

    /// The key of the session that the client means by this name.
    pub(super) fn key(&self, name: &str) -> String {
        match &self.0 {
            Some(owner) => format!("{owner}/{name}"),
            None => name.to_owned(),
        }
    }

    /// The name of the session of this key; `None` for one outside of the space.
    pub(super) fn name<'k>(&self, key: &'k str) -> Option<&'k str> {
        match &self.0 {
            Some(owner) => key.strip_prefix(owner.as_str())?.strip_prefix('/'),
            None => Some(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_names_its_own_sessions_and_no_other() {
        let [ada, ad, all] = [Some("ada"), Some("ad"), None].map(Space::of);
        let hers = ada.key("1");
        assert_eq!((ada.name(&hers), ad.name(&hers)), (Some("1"), None));
        assert_eq!(all.name(&hers), Some("ada/1"));
        assert_eq!(all.key("ada/1"), hers);
    }
}
