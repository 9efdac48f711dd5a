//! Sessions, artifacts and documents as resources.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ghostlight_actors::{
    actor::{SessionQuery, System, SystemError},
    vocabulary::{ArtifactInfo, Scope, SessionId},
};
use rmcp::{
    ErrorData,
    handler::server::skill_catalog::SkillCatalog,
    model::{
        CompletionInfo, ContentBlock, ListResourceTemplatesResult, ListResourcesResult,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    },
};

use super::{
    addresses::{ARTIFACT_TEMPLATE, Address, SESSION_TEMPLATE},
    documents::{Document, DocumentTemplate},
    space::Space,
};

/// How many sessions are listed, the latest first, and how many of these with their artifacts.
const LISTED: usize = 500;
const WITH_ARTIFACTS: usize = 50;
/// How many artifacts of one session are listed.
const ARTIFACTS: usize = 200;
/// The largest artifact that is embedded in a result; a larger one is given by its address.
const MAX_EMBEDDED: u64 = 1 << 20;

/// The resources for a client that acts for an owner.
pub(super) struct Resources<'a> {
    pub(super) system: System,
    pub(super) space: Space,
    pub(super) teams: &'a BTreeMap<String, String>,
    pub(super) documents: &'a BTreeMap<String, Document>,
    pub(super) skills: Option<&'a SkillCatalog>,
    pub(super) document_templates: &'a [DocumentTemplate],
}

impl Resources<'_> {
    /// The documents, the skills, and the sessions of the teams with their artifacts.
    pub(super) async fn list(
        &self,
        cursor: Option<String>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if cursor.is_some() {
            return Err(ErrorData::invalid_params("there is one page only", None));
        }
        let documents = self.documents.iter().map(|(uri, document)| {
            let mut resource = Resource::new(uri, uri);
            resource.mime_type = Some(document.media_type.clone());
            resource.size = Some(document.content.len() as u64);
            resource
        });
        let mut resources: Vec<Resource> = documents.collect();
        resources.extend(self.skills.iter().flat_map(|skills| skills.resources()));
        for (place, session) in self.sessions().await?.into_iter().enumerate() {
            let SessionId { team, key } = session;
            let name = self.space.name(&key).unwrap_or(&key);
            let mut resource =
                Resource::new(Address::session(&team, name), format!("{team}/{name}"));
            resource.mime_type = Some("application/json".to_owned());
            resources.push(resource);
            if place >= WITH_ARTIFACTS {
                continue;
            }
            let session = self.system.session(&team, &key);
            let kept = session.artifacts(Scope::Session).await;
            let kept = kept.map_err(|error| internal(&error))?;
            let kept = kept.iter().take(ARTIFACTS);
            resources.extend(kept.map(|artifact| described(&team, name, artifact)));
        }
        Ok(ListResourcesResult::with_all_items(resources))
    }

    /// The sessions of the teams, the latest first.
    async fn sessions(&self) -> Result<Vec<SessionId>, ErrorData> {
        let mut query = SessionQuery::default();
        query.limit = LISTED;
        let page = self.system.sessions().list(query).await;
        let page = page.map_err(|error| internal(&error))?;
        let sessions = page.sessions.into_iter().map(|session| session.session);
        let sessions = sessions.filter(|session| {
            self.teams.contains_key(&*session.team) && self.space.name(&session.key).is_some()
        });
        Ok(sessions.collect())
    }

    /// The resource at an address.
    pub(super) async fn read(&self, uri: &str) -> Result<ReadResourceResponse, ErrorData> {
        if let Some(file) = self.skills.and_then(|skills| skills.read_resource(uri)) {
            return Ok(file.into());
        }
        let found = self.found(uri).await?;
        let contents = contents(uri, &found.media_type, &found.content);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    /// The resource at an address as a part of a message: images and audio are embedded, a large resource is given by
    /// its address.
    pub(super) async fn embedded(&self, uri: &str) -> Result<ContentBlock, ErrorData> {
        let found = self.found(uri).await?;
        let size = found.content.len() as u64;
        if size <= MAX_EMBEDDED {
            let shown = picture_or_sound(&found.media_type, &found.content);
            let contents =
                || ContentBlock::resource(contents(uri, &found.media_type, &found.content));
            return Ok(shown.unwrap_or_else(contents));
        }
        let mut link = Resource::new(uri, uri);
        (link.mime_type, link.size) = (Some(found.media_type), Some(size));
        Ok(ContentBlock::resource_link(link))
    }

    /// The document at an address.
    async fn found(&self, uri: &str) -> Result<Document, ErrorData> {
        let unknown = || {
            let about = serde_json::json!({ "uri": uri });
            ErrorData::resource_not_found(format!("there is no resource {uri:?}"), Some(about))
        };
        let failed = |error: SystemError| match error {
            SystemError::Foreign { .. } => unknown(),
            error => internal(&error),
        };
        if let Some(document) = self.documents.get(uri) {
            return Ok(document.clone());
        }
        for template in self.document_templates {
            if let Some(document) = template.at(uri).await {
                return Ok(document);
            }
        }
        let address = Address::read(uri).ok_or_else(unknown)?;
        let (Address::Session { team, .. } | Address::Artifact { team, .. }) = &address;
        if !self.teams.contains_key(team) {
            return Err(unknown());
        }
        match &address {
            Address::Session { team, key } => {
                let log = self.system.session(team, self.space.key(key)).log().await;
                let log = log.map_err(failed)?;
                if log.turns.is_empty() {
                    return Err(unknown());
                }
                let turns = serde_json::to_value(&log.turns);
                let turns = turns.map_err(|error| internal(&error))?;
                Ok(Document {
                    media_type: "application/json".to_owned(),
                    content: ghostlight_safety::redact_json(&turns)
                        .to_string()
                        .into_bytes()
                        .into(),
                })
            }
            Address::Artifact { team, key, name } => {
                let session = self.system.session(team, self.space.key(key));
                let found = session.artifact(Scope::Session, name, None).await;
                let found = found.map_err(failed)?.ok_or_else(unknown)?;
                Ok(Document {
                    media_type: found.info.media_type,
                    content: found.content,
                })
            }
        }
    }

    /// The values of a template's variable that begin with this text.
    pub(super) async fn complete(
        &self,
        template: &str,
        variable: &str,
        begun: &str,
        team: Option<&str>,
    ) -> Result<CompletionInfo, ErrorData> {
        let is_ours = template == SESSION_TEMPLATE || template == ARTIFACT_TEMPLATE;
        let mut values: Vec<String> = match variable {
            "team" if is_ours => self.teams.keys().cloned().collect(),
            "session" if is_ours => {
                let sessions = self.sessions().await?.into_iter();
                let sessions = sessions.filter(|one| team.is_none_or(|team| *team == *one.team));
                let names = sessions.filter_map(|one| self.space.name(&one.key).map(str::to_owned));
                names.collect()
            }
            _ => Vec::new(),
        };
        values.retain(|value| value.starts_with(begun));
        let total = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let has_more = values.len() > CompletionInfo::MAX_VALUES;
        values.truncate(CompletionInfo::MAX_VALUES);
        CompletionInfo::with_pagination(values, Some(total), has_more)
            .map_err(|reason| ErrorData::internal_error(reason, None))
    }

    /// Artifacts as parts of a result: small images, audio and texts are embedded, others are given by their addresses.
    pub(super) async fn shown(
        &self,
        session: &SessionId,
        saved: &[ArtifactInfo],
    ) -> Vec<ContentBlock> {
        let SessionId { team, key } = session;
        let handle = self.system.session(team, key);
        let key = self.space.name(key).unwrap_or(key);
        let mut blocks = Vec::with_capacity(saved.len());
        for info in saved {
            let uri = Address::artifact(team, key, &info.name);
            let found = match info.bytes <= MAX_EMBEDDED {
                true => handle
                    .artifact(Scope::Session, &info.name, Some(info.version))
                    .await
                    .ok()
                    .flatten(),
                false => None,
            };
            let block = found.and_then(|found| {
                let block = picture_or_sound(&info.media_type, &found.content);
                let is_text = std::str::from_utf8(&found.content).is_ok();
                let text =
                    || ContentBlock::resource(contents(&uri, &info.media_type, &found.content));
                block.or_else(|| is_text.then(text))
            });
            let link = || ContentBlock::resource_link(described(team, key, info));
            blocks.push(block.unwrap_or_else(link));
        }
        blocks
    }
}

/// The templates of addresses.
pub(super) fn templates(documents: &[DocumentTemplate]) -> ListResourceTemplatesResult {
    let session = ResourceTemplate::new(SESSION_TEMPLATE, "session")
        .with_description("What was said in a session of a team.")
        .with_mime_type("application/json");
    let artifact = ResourceTemplate::new(ARTIFACT_TEMPLATE, "artifact")
        .with_description("The latest version of a file that a team keeps for a session.");
    let documents = documents.iter().map(|document| {
        ResourceTemplate::new(&document.template, &document.template)
            .with_mime_type(&document.media_type)
    });
    let all = [session, artifact].into_iter().chain(documents);
    ListResourceTemplatesResult::with_all_items(all.collect())
}

/// An image or audio as content of that kind.
fn picture_or_sound(media_type: &str, content: &[u8]) -> Option<ContentBlock> {
    if media_type.starts_with("image/") {
        return Some(ContentBlock::image(BASE64.encode(content), media_type));
    }
    let is_sound = media_type.starts_with("audio/");
    is_sound.then(|| ContentBlock::audio(BASE64.encode(content), media_type))
}

fn described(team: &str, key: &str, artifact: &ArtifactInfo) -> Resource {
    let uri = Address::artifact(team, key, &artifact.name);
    let mut resource = Resource::new(uri, artifact.name.clone());
    resource.mime_type = Some(artifact.media_type.clone());
    resource.size = Some(artifact.bytes);
    resource.description = Some(artifact.to_string());
    resource
}

fn contents(uri: &str, media_type: &str, content: &[u8]) -> ResourceContents {
    let contents = match std::str::from_utf8(content) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(_) => ResourceContents::blob(BASE64.encode(content), uri),
    };
    contents.with_mime_type(media_type)
}

/// A failure in words without secrets.
pub(super) fn internal(error: &dyn std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(
        ghostlight_safety::redact_text(&error.to_string()).into_owned(),
        None,
    )
}
