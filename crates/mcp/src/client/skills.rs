//! The skills of a server (the extension `io.modelcontextprotocol/skills`, SEP-2640): listed by their descriptions, and read when a
//! model needs them.
//!
//! A file is given to the model only if its bytes have the size and the digest that the list says, and nothing of a skill is given
//! whose `SKILL.md` has other front matter than the list shows.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ghostlight_actors::{
    contract::{Credential, Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, ToolDefinition},
};
use rmcp::{
    Peer, RoleClient,
    model::{ReadResourceRequestParams, ResourceContents, SKILL_MD, Skill, SkillResources},
};
use serde_json::{Value, json};

use super::{
    catalogue::{line, peer},
    connection::Connection,
    failure::failed,
    pages,
    toolset::McpToolset,
};

/// The largest file of a skill, in bytes.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// How deep the front matter of a skill may be nested.
const MAX_DEPTH: usize = 16;
/// The longest description, in characters, by the format.
const DESCRIPTION: usize = 1_024;
/// How many files of a skill are named to the model.
const MAX_NAMED: usize = 200;
/// How many characters of a file one call gives.
const SHOWN: usize = 30_000;

/// A skill of a server. Its texts are sanitised, so that a model may see them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillInfo {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// The address of its `SKILL.md`.
    pub uri: String,
}

impl McpToolset {
    /// The skills of the server, at most 2,000. One that the server describes against the rules of the format is left out with
    /// a warning.
    ///
    /// # Errors
    /// The server is not connected, or has no skills.
    pub async fn skills(&self) -> Result<Vec<SkillInfo>, ToolError> {
        let peer = peer(self.connection()).await?;
        let skills = listed(self.connection(), &peer).await?.into_iter();
        let skills = skills.map(|skill| SkillInfo {
            name: line(skill.name()),
            description: ghostlight_safety::sanitize_line(
                &skill.frontmatter.description,
                DESCRIPTION,
            ),
            uri: line(&skill.uri),
        });
        Ok(skills.collect())
    }

    /// Reads a file of a skill, which the skill's name or the address of its `SKILL.md` names. The path goes from the skill's
    /// folder; `SKILL.md` are its instructions, with their front matter.
    ///
    /// # Errors
    /// The server is not connected, or has no such skill or file; or a file differs from what the server's list says of it.
    pub async fn skill_file(&self, skill: &str, path: &str) -> Result<String, ToolError> {
        let peer = peer(self.connection()).await?;
        let loaded = Loaded::of(self.connection(), &peer, skill).await?;
        match path {
            SKILL_MD => Ok(loaded.text),
            path => loaded.file(&peer, path).await,
        }
    }
}

/// The entries of all skills that keep to the format.
async fn listed(connection: &Connection, peer: &Peer<RoleClient>) -> Result<Vec<Skill>, ToolError> {
    let skills = pages::all(&connection.shared().name, peer).await;
    let mut skills: Vec<Skill> = skills.map_err(failed)?;
    skills.retain(|skill| match skill.validate() {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "a skill of a server is left out");
            false
        }
    });
    Ok(skills)
}

/// A skill whose `SKILL.md` is what the list says.
struct Loaded {
    skill: Skill,
    text: String,
}

impl Loaded {
    async fn of(
        connection: &Connection,
        peer: &Peer<RoleClient>,
        name: &str,
    ) -> Result<Self, ToolError> {
        let mut named = listed(connection, peer).await?;
        named.retain(|skill| skill.name() == name || skill.uri == name);
        let skill = match named.pop() {
            Some(skill) if named.is_empty() => skill,
            Some(_) => {
                let text = "The server has several skills of this name: give the address instead.";
                return Err(ToolError::new(text));
            }
            None => return Err(ToolError::new("The server has no such skill.")),
        };
        let text = file(peer, &skill, &skill.uri).await?;
        let shown = serde_json::to_value(&skill.frontmatter)?;
        let front = ghostlight_safety::front_matter(&text).and_then(|(front, _)| values(front));
        if !front.is_some_and(|front| same(&front, &shown)) {
            return Err(ToolError::new(
                "The skill's SKILL.md does not begin as the server's list says: the skill is not used.",
            ));
        }
        Ok(Self { skill, text })
    }

    /// The address of the skill's folder, with a slash at its end.
    fn home(&self) -> &str {
        let uri = &self.skill.uri;
        uri.strip_suffix(SKILL_MD).unwrap_or(uri)
    }

    async fn file(&self, peer: &Peer<RoleClient>, path: &str) -> Result<String, ToolError> {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        let is_below = !path.contains(['?', '#', '%', '\\']) && path.split('/').all(is_plain);
        // The files of a list are below the folder.
        if !is_below && !matches!(self.skill.resources, SkillResources::Files(_)) {
            return Err(ToolError::new("The path must lead to a file of the skill."));
        }
        file(peer, &self.skill, &format!("{}{path}", self.home())).await
    }

    /// The instructions, and what else there is.
    fn told(&self) -> String {
        let mut told = ghostlight_safety::front_matter(&self.text)
            .map_or_else(String::new, |(_, body)| body.trim().into());
        let tools = match self.skill.frontmatter.extra.get("allowed-tools") {
            Some(Value::String(tools)) => tools.clone(),
            Some(Value::Array(tools)) => {
                let tools = tools.iter().filter_map(Value::as_str);
                tools.collect::<Vec<_>>().join(", ")
            }
            _ => String::new(),
        };
        if !tools.is_empty() {
            let _ = write!(told, "\n\n(It is written for the tools {}.)", line(&tools));
        }
        if let SkillResources::Files(files) = &self.skill.resources {
            let paths = files.iter().filter_map(|file| {
                let path = file.uri.strip_prefix(self.home())?;
                (path != SKILL_MD).then(|| line(path))
            });
            let paths: Vec<String> = paths.take(MAX_NAMED).collect();
            if !paths.is_empty() {
                let _ = write!(
                    told,
                    "\n\n(Its files, for `read_skill_file`: {}.)",
                    paths.join(", ")
                );
            }
        }
        told
    }
}

/// The text at an address, compared with the skill's entry.
async fn file(peer: &Peer<RoleClient>, skill: &Skill, uri: &str) -> Result<String, ToolError> {
    let expected = match &skill.resources {
        SkillResources::Files(files) => {
            let listed = files.iter().find(|file| file.uri == uri);
            Some(listed.ok_or_else(|| ToolError::new("The skill has no such file."))?)
        }
        // A server whose skill changes all the time names no digests.
        _ => None,
    };
    let too_large = |size: u64| {
        let text = format!("The file has {size} bytes, more than {MAX_FILE_BYTES}.");
        ToolError::new(text)
    };
    if let Some(expected) = expected.filter(|expected| expected.size > MAX_FILE_BYTES) {
        return Err(too_large(expected.size));
    }
    let read = peer
        .read_resource(ReadResourceRequestParams::new(uri))
        .await;
    let mut contents = read.map_err(failed)?.contents.into_iter();
    let bytes = match (contents.next(), contents.next()) {
        (Some(ResourceContents::TextResourceContents { text, .. }), None) => text.into_bytes(),
        (Some(ResourceContents::BlobResourceContents { blob, .. }), None) => {
            let bytes = BASE64.decode(blob);
            bytes.map_err(|_| ToolError::new("The server sends bytes that are not base64."))?
        }
        _ => {
            return Err(ToolError::new(
                "The server sends something else than one file.",
            ));
        }
    };
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    if let Some(Err(error)) = expected.map(|expected| expected.verify(&bytes)) {
        let text =
            format!("The file is not the one of the server's list, and is not used: {error}");
        return Err(ToolError::new(line(&text)));
    }
    let size = bytes.len();
    String::from_utf8(bytes).map_err(|_| ToolError::new(format!("It is not text: {size} bytes.")))
}

fn values(yaml: &str) -> Option<Value> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 1_000 },
    };
    serde_saphyr::from_str_with_options(yaml, options).ok()
}

/// Whether two values are the same. In JSON a number may be written in several ways, such as `1` and `1.0`.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let found = |(key, value): (&String, &Value)| {
                other.get(key).is_some_and(|other| same(value, other))
            };
            one.len() == other.len() && one.iter().all(found)
        }
        (one, other) => one == other,
    }
}

/// Tools for skills, if the settings want them.
pub(super) enum SkillTool {
    List(McpToolset),
    Use(McpToolset),
    ReadFile(McpToolset),
}

impl Tool for SkillTool {
    fn definition(&self) -> ToolDefinition {
        let name = json!({ "type": "string", "description": "The skill's name, or its address where two have one name." });
        let (tool, about, properties, required) = match self {
            Self::List(_) => (
                "list_skills",
                "Lists skills, which are instructions for tasks that their descriptions name, for use_skill.",
                json!({}),
                json!([]),
            ),
            Self::Use(_) => (
                "use_skill",
                "Reads the instructions of a skill that list_skills names. Use one when a task is what its description says.",
                json!({ "name": name }),
                json!(["name"]),
            ),
            Self::ReadFile(_) => (
                "read_skill_file",
                "Reads a file of a skill, which the skill's instructions name by its path.",
                json!({
                    "name": name,
                    "path": { "type": "string", "description": "From the skill's folder, such as `references/forms.md`." },
                    "from": { "type": "integer", "minimum": 0, "description": "From which character on." },
                }),
                json!(["name", "path"]),
            ),
        };
        let parameters = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        ToolDefinition::new(tool, about)
            .parameters(parameters)
            .effect(Effect::Read)
    }

    fn secrets(&self) -> Vec<Credential> {
        match self {
            Self::List(server) | Self::Use(server) | Self::ReadFile(server) => server.secrets(),
        }
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let given = arguments.value().cloned().unwrap_or_default();
        let text = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default();
        let told = match self {
            Self::List(server) => {
                let skills = server.skills().await?.into_iter();
                let skills =
                    skills.map(|one| format!("{} ({}): {}", one.name, one.uri, one.description));
                skills.collect::<Vec<_>>().join("\n")
            }
            Self::Use(server) => {
                let peer = peer(server.connection()).await?;
                Loaded::of(server.connection(), &peer, text("name"))
                    .await?
                    .told()
            }
            Self::ReadFile(server) => {
                let file = server.skill_file(text("name"), text("path")).await?;
                let from = given
                    .get("from")
                    .and_then(Value::as_u64)
                    .unwrap_or_default();
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let mut left = file.chars().skip(from);
                let mut shown: String = left.by_ref().take(SHOWN).collect();
                if left.next().is_some() {
                    let _ = write!(
                        shown,
                        "\n(There is more: go on with from {}.)",
                        from + SHOWN
                    );
                }
                shown
            }
        };
        Ok(ToolOutput::text(
            ghostlight_safety::sanitize(&told).into_owned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_the_same_however_its_numbers_and_keys_are_written() {
        let text = "---\r\nname: a\r\ndescription: >\r\n  b\r\n  c\r\nversion: 1.0\r\nmetadata: { on: yes, x: [1] }\r\n---\r\n---\r\nbody";
        let (front, body) = ghostlight_safety::front_matter(text).unwrap_or_default();
        assert_eq!(body, "---\r\nbody");
        let read = values(front).unwrap_or_default();
        let shown = json!({
            "version": 1, "name": "a", "description": "b c\n", "metadata": { "x": [1.0], "on": "yes" },
        });
        assert!(same(&read, &shown), "{read}");
        for other in [
            json!({ "name": "a", "description": "b c\n", "metadata": { "on": "yes", "x": [1] } }),
            json!({ "version": 1, "name": "a", "description": "b c", "metadata": { "on": "yes", "x": [1] } }),
            json!({ "version": 1, "name": "a", "description": "b c\n", "metadata": { "on": true, "x": [1] } }),
        ] {
            assert!(!same(&read, &other), "{other}");
        }
    }

    #[test]
    fn hostile_front_matter_is_refused() {
        for text in [
            "",
            "---",
            "---\n",
            "---\nname: a\n",
            "name: a\n---\n",
            "\n---\na: b\n---\n",
        ] {
            assert!(ghostlight_safety::front_matter(text).is_none(), "{text:?}");
        }
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c]\n";
        for yaml in [bomb, &"[".repeat(100_000), "a: 1\na: 2", "a: ["] {
            assert!(values(yaml).is_none());
        }
    }
}
