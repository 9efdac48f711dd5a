//! The names of owners.

/// The tenant in the name of an owner: `acme` in `acme:ada`. Names of tenants and of their users hold no colon, so an owner
/// with more than one, such as a person in a chat (`messenger:chat:ada`), has no tenant.
pub fn tenant_of(owner: &str) -> Option<&str> {
    let (tenant, user) = owner.split_once(':')?;
    let is_of_tenant = !tenant.is_empty() && !user.is_empty() && !user.contains(':');
    is_of_tenant.then_some(tenant)
}

#[cfg(test)]
mod tests {
    use super::tenant_of;

    #[test]
    fn an_owner_of_a_tenant_has_one_colon_between_two_names() {
        assert_eq!(tenant_of("acme:ada"), Some("acme"));
        for owner in ["ada", ":ada", "acme:", ":", "messenger:chat:ada", ""] {
            assert_eq!(tenant_of(owner), None, "{owner}");
        }
    }
}
