//! The pages of a listing.

use std::{collections::HashSet, future::Future};

use rmcp::{
    Peer, RoleClient,
    model::{PaginatedRequestParams, Prompt, Resource, ResourceTemplate, Skill, Tool},
    service::ServiceError,
};

use super::failure;

/// The most members, and the most pages, of one listing.
const MAX_ITEMS: usize = 2_000;
const MAX_PAGES: usize = 200;

/// A page: its members, and where the next one begins.
type Page<T> = (Vec<T>, Option<String>);

/// The lists that a server gives in pages.
pub(super) trait Listed: Sized + Send {
    /// Their kind, for a warning.
    const WHAT: &str;

    /// The key by which each is unique.
    fn key(&self) -> &str;

    /// Requests a page.
    fn page(
        peer: &Peer<RoleClient>,
        params: PaginatedRequestParams,
    ) -> impl Future<Output = Result<Page<Self>, ServiceError>> + Send;
}

macro_rules! listed {
    ($what:literal: $kind:ident by $key:ident, $ask:ident, $members:ident) => {
        impl Listed for $kind {
            const WHAT: &str = $what;

            fn key(&self) -> &str {
                &self.$key
            }

            async fn page(
                peer: &Peer<RoleClient>,
                params: PaginatedRequestParams,
            ) -> Result<Page<Self>, ServiceError> {
                let page = peer.$ask(Some(params)).await?;
                Ok((page.$members, page.next_cursor))
            }
        }
    };
}

listed!("tools": Tool by name, list_tools, tools);
listed!("resources": Resource by uri, list_resources, resources);
listed!("templates of resources": ResourceTemplate by uri_template, list_resource_templates, resource_templates);
listed!("prompts": Prompt by name, list_prompts, prompts);
listed!("skills": Skill by uri, list_skills, skills);

/// Requests page after page, up to 2,000 members; of two members with one key the first stays. A listing that turns in
/// a circle, or whose server refuses its own cursor, ends with what was read.
///
/// # Errors
/// The first page is refused, or a request is lost.
pub(super) async fn all<T: Listed>(
    server: &str,
    peer: &Peer<RoleClient>,
) -> Result<Vec<T>, ServiceError> {
    let what = T::WHAT;
    let (mut all, mut keys, mut cursors) = (Vec::new(), HashSet::new(), HashSet::new());
    let mut cursor = None;
    for number in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let (members, next) = match T::page(peer, params).await {
            Ok(page) => page,
            Err(error @ ServiceError::McpError(_)) if number > 0 => {
                let reason = failure::reason(&error);
                tracing::warn!(%server, %reason, "it refuses the cursor that it gave for more {what}");
                return Ok(all);
            }
            Err(error) => return Err(error),
        };
        for member in members {
            if keys.contains(member.key()) {
                continue;
            }
            if all.len() == MAX_ITEMS {
                tracing::warn!(%server, "it has more than {MAX_ITEMS} {what}; the others are left out");
                return Ok(all);
            }
            keys.insert(member.key().to_owned());
            all.push(member);
        }
        // Some servers end with an empty cursor instead of none.
        let Some(next) = next.filter(|next| !next.is_empty()) else {
            return Ok(all);
        };
        if !cursors.insert(next.clone()) {
            tracing::warn!(%server, "its pages of {what} turn in a circle, and are read once");
            return Ok(all);
        }
        cursor = Some(next);
    }
    tracing::warn!(%server, "it has more than {MAX_PAGES} pages of {what}; the others are left out");
    Ok(all)
}
