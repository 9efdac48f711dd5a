//! The resources of a server, its templates of resource addresses, and its prompts.

use ghostlight_actors::{
    contract::{Credential, Tool, ToolContext, ToolError, ToolOutput},
    vocabulary::{Arguments, Effect, Message, Part, ToolDefinition},
};
use rmcp::{
    Peer, RoleClient,
    model::{
        ArgumentInfo, CallToolResult, CompleteRequestParams, CompletionContext, ContentBlock,
        GetPromptRequestParams, Prompt, PromptMessage, ReadResourceRequestParams, Reference,
        Resource, ResourceContents, ResourceTemplate, Role as PromptRole, SubscribeRequestParams,
        SubscriptionFilter, UnsubscribeRequestParams,
    },
};
use serde_json::{Value, json};
use tokio::{sync::broadcast, task::JoinHandle};

use super::{connection::Connection, content, failure::failed, pages, toolset::McpToolset};

/// The longest description, in characters.
const DESCRIPTION: usize = 2_000;

/// A resource of a server, or a template of resource addresses. Its texts are sanitised, so that a model may see them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceInfo {
    /// Its address; a template has variables such as `{id}` in it (RFC 6570).
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its media type, if the server gives one.
    pub media_type: Option<String>,
}

/// A prompt of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptInfo {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The names of its arguments, each with whether it is required.
    pub arguments: Vec<(String, bool)>,
}

/// The subject of [`McpToolset::complete`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completing {
    /// A variable of an address template.
    Resource(String),
    /// An argument of a prompt.
    Prompt(String),
}

/// The changes of a resource, as the server reports them. Dropping it ends the subscription.
#[derive(Debug)]
pub struct ResourceUpdates {
    uri: String,
    heard: broadcast::Receiver<String>,
    listening: JoinHandle<()>,
}

impl ResourceUpdates {
    /// Waits until the resource has changed; `false` when the connection is over.
    pub async fn changed(&mut self) -> bool {
        loop {
            match self.heard.recv().await {
                Ok(uri) if uri == self.uri => return true,
                Ok(_) => {}
                // The missed updates may include this resource.
                Err(broadcast::error::RecvError::Lagged(_)) => return true,
                Err(broadcast::error::RecvError::Closed) => return false,
            }
        }
    }
}

impl Drop for ResourceUpdates {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl McpToolset {
    /// The resources of the server, at most 2,000.
    ///
    /// # Errors
    /// The server is not connected, or refuses.
    pub async fn resources(&self) -> Result<Vec<ResourceInfo>, ToolError> {
        let peer = peer(self.connection()).await?;
        let resources = pages::all(&self.connection().shared().name, &peer).await;
        let resources: Vec<Resource> = resources.map_err(failed)?;
        let resources = resources.into_iter().map(|resource| ResourceInfo {
            uri: resource.uri,
            name: line(&resource.name),
            description: line(&resource.description.unwrap_or_default()),
            media_type: resource.mime_type.as_deref().map(line),
        });
        Ok(resources.collect())
    }

    /// The templates of resource addresses.
    ///
    /// # Errors
    /// The server is not connected, or refuses.
    pub async fn resource_templates(&self) -> Result<Vec<ResourceInfo>, ToolError> {
        let peer = peer(self.connection()).await?;
        let templates = pages::all(&self.connection().shared().name, &peer).await;
        let templates: Vec<ResourceTemplate> = templates.map_err(failed)?;
        let templates = templates.into_iter().map(|template| ResourceInfo {
            uri: template.uri_template,
            name: line(&template.name),
            description: line(&template.description.unwrap_or_default()),
            media_type: template.mime_type.as_deref().map(line),
        });
        Ok(templates.collect())
    }

    /// Reads a resource: its texts as text, everything else as attachments.
    ///
    /// # Errors
    /// The server is not connected, or refuses.
    pub async fn read_resource(&self, uri: &str) -> Result<ToolOutput, ToolError> {
        let peer = peer(self.connection()).await?;
        let params = ReadResourceRequestParams::new(uri);
        let read = peer.read_resource(params).await.map_err(failed)?;
        let blocks = read.contents.into_iter().map(|contents| match contents {
            ResourceContents::TextResourceContents { text, .. } => ContentBlock::text(text),
            contents => ContentBlock::resource(contents),
        });
        content::output(CallToolResult::success(blocks.collect()))
    }

    /// Subscribes to the changes of a resource, for as long as this connection to the server lasts.
    ///
    /// # Errors
    /// The server is not connected, or has no subscriptions.
    pub async fn resource_updates(&self, uri: &str) -> Result<ResourceUpdates, ToolError> {
        let peer = peer(self.connection()).await?;
        let updates = self.connection().shared().updates.clone();
        let heard = updates.subscribe();
        let is_old = peer
            .peer_info()
            .is_some_and(|info| info.protocol_version.has_initialize());
        let (address, closed) = (
            uri.to_owned(),
            Closing(peer.clone(), uri.to_owned(), is_old),
        );
        let listening = if is_old {
            let params = SubscribeRequestParams::new(uri);
            #[expect(deprecated, reason = "the older wire has nothing else")]
            peer.subscribe(params).await.map_err(failed)?;
            tokio::spawn(async move {
                let _closed = closed;
                std::future::pending::<()>().await;
            })
        } else {
            let filter = SubscriptionFilter::builder()
                .resource_subscriptions([uri])
                .build();
            let mut subscription = peer.listen(filter).await.map_err(failed)?;
            let accepted = subscription.acknowledged().resource_subscriptions.as_ref();
            if !accepted.is_some_and(|accepted| accepted.iter().any(|one| one == uri)) {
                return Err(ToolError::new(format!(
                    "The server does not tell when {uri} changes."
                )));
            }
            tokio::spawn(async move {
                let _closed = closed;
                while let Ok(Some(_)) = subscription.next().await {
                    // There may be no listener any more.
                    let _ = updates.send(address.clone());
                }
            })
        };
        Ok(ResourceUpdates {
            uri: uri.to_owned(),
            heard,
            listening,
        })
    }

    /// The prompts of the server, at most 2,000.
    ///
    /// # Errors
    /// The server is not connected, or refuses.
    pub async fn prompts(&self) -> Result<Vec<PromptInfo>, ToolError> {
        let peer = peer(self.connection()).await?;
        let prompts = pages::all(&self.connection().shared().name, &peer).await;
        let prompts: Vec<Prompt> = prompts.map_err(failed)?;
        let prompts = prompts.into_iter().map(|prompt| PromptInfo {
            name: prompt.name,
            description: line(&prompt.description.unwrap_or_default()),
            arguments: prompt
                .arguments
                .unwrap_or_default()
                .into_iter()
                .map(|argument| (argument.name, argument.required == Some(true)))
                .collect(),
        });
        Ok(prompts.collect())
    }

    /// A prompt filled with arguments, as messages for a conversation. Content other than text is attached.
    ///
    /// # Errors
    /// The server is not connected, or refuses.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Vec<Message>, ToolError> {
        let peer = peer(self.connection()).await?;
        let mut params = GetPromptRequestParams::new(name);
        let arguments = arguments
            .into_iter()
            .map(|(name, value)| (name, value.into()));
        params.arguments = Some(arguments.collect());
        let prompt = peer.get_prompt(params).await.map_err(failed)?;
        prompt.messages.into_iter().map(message).collect()
    }

    /// The server's completions for a partly typed argument; `known` has the values of other arguments. At most 100.
    ///
    /// # Errors
    /// The server is not connected, or refuses.
    pub async fn complete(
        &self,
        of: Completing,
        argument: &str,
        typed: &str,
        known: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Vec<String>, ToolError> {
        let peer = peer(self.connection()).await?;
        let of = match of {
            Completing::Resource(template) => Reference::for_resource(template),
            Completing::Prompt(name) => Reference::for_prompt(name),
        };
        let argument = ArgumentInfo::new(argument, typed);
        let known = CompletionContext::with_arguments(known.into_iter().collect());
        let params = CompleteRequestParams::new(of, argument).with_context(known);
        let completed = peer.complete(params).await.map_err(failed)?;
        let values = completed.completion.values.into_iter().take(100);
        Ok(values.map(|value| line(&value)).collect())
    }
}

/// Ends the subscription at a server of an older revision.
struct Closing(Peer<RoleClient>, String, bool);

impl Drop for Closing {
    fn drop(&mut self) {
        if self.2
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (peer, params) = (self.0.clone(), UnsubscribeRequestParams::new(&self.1));
            runtime.spawn(async move {
                // Should the server be gone, the subscription is, too.
                #[expect(deprecated, reason = "the older wire has nothing else")]
                let _ = peer.unsubscribe(params).await;
            });
        }
    }
}

pub(super) async fn peer(connection: &Connection) -> Result<Peer<RoleClient>, ToolError> {
    Ok(connection.peer_after(0).await?.1)
}

pub(super) fn line(said: &str) -> String {
    ghostlight_safety::sanitize_line(said, DESCRIPTION)
}

fn message(said: PromptMessage) -> Result<Message, ToolError> {
    let output = content::output(CallToolResult::success(vec![said.content]))?;
    let text = ghostlight_safety::sanitize(&output.text).into_owned();
    let mut message = match said.role {
        PromptRole::Assistant => Message::assistant(text),
        _ => Message::user(text),
    };
    let data = output.attachments.into_iter();
    message.parts.extend(data.map(Part::Data));
    Ok(message)
}

/// Tools for resources and prompts, if the settings want them.
pub(super) enum CatalogueTool {
    ListResources(McpToolset),
    ReadResource(McpToolset),
    ListPrompts(McpToolset),
    GetPrompt(McpToolset),
}

impl Tool for CatalogueTool {
    fn definition(&self) -> ToolDefinition {
        let (name, description, parameters) = match self {
            Self::ListResources(_) => (
                "list_resources",
                "Lists what can be read by read_resource: addresses, and templates of addresses with places in braces.",
                json!({ "type": "object", "properties": {}, "additionalProperties": false }),
            ),
            Self::ReadResource(_) => (
                "read_resource",
                "Reads what is at one of the addresses that list_resources gives.",
                json!({
                    "type": "object", "properties": { "uri": { "type": "string" } }, "required": ["uri"],
                    "additionalProperties": false,
                }),
            ),
            Self::ListPrompts(_) => (
                "list_prompts",
                "Lists texts that get_prompt gives, with their arguments.",
                json!({ "type": "object", "properties": {}, "additionalProperties": false }),
            ),
            Self::GetPrompt(_) => (
                "get_prompt",
                "Gives one of the texts that list_prompts names, with its arguments put in.",
                json!({
                    "type": "object",
                    "properties": {
                        "name": { "type": "string" },
                        "arguments": { "type": "object", "additionalProperties": { "type": "string" } },
                    },
                    "required": ["name"], "additionalProperties": false,
                }),
            ),
        };
        ToolDefinition::new(name, description)
            .parameters(parameters)
            .effect(Effect::Read)
    }

    fn secrets(&self) -> Vec<Credential> {
        match self {
            Self::ListResources(server)
            | Self::ReadResource(server)
            | Self::ListPrompts(server)
            | Self::GetPrompt(server) => server.secrets(),
        }
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let given = arguments.value().cloned().unwrap_or_default();
        let text = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default();
        match self {
            Self::ListResources(server) => {
                let mut resources = server.resources().await?;
                // Servers without templates refuse to list them.
                resources.extend(server.resource_templates().await.unwrap_or_default());
                let lines = resources.iter().map(|one| {
                    let (uri, kind) = (
                        line(&one.uri),
                        one.media_type.as_deref().unwrap_or_default(),
                    );
                    format!("{uri} {} {kind} {}", one.name, one.description)
                });
                Ok(ToolOutput::text(lines.collect::<Vec<_>>().join("\n")))
            }
            Self::ReadResource(server) => server.read_resource(text("uri")).await,
            Self::ListPrompts(server) => {
                let prompts = server.prompts().await?;
                let lines = prompts.iter().map(|one| {
                    let arguments = one.arguments.iter().map(|(name, _)| line(name));
                    let arguments = arguments.collect::<Vec<_>>().join(", ");
                    format!("{}({arguments}) {}", line(&one.name), one.description)
                });
                Ok(ToolOutput::text(lines.collect::<Vec<_>>().join("\n")))
            }
            Self::GetPrompt(server) => {
                let arguments = given.get("arguments").and_then(Value::as_object);
                let arguments = arguments
                    .into_iter()
                    .flatten()
                    .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
                let messages = server.prompt(text("name"), arguments).await?;
                let text = messages.iter().map(Message::content);
                let mut output = ToolOutput::text(text.collect::<Vec<_>>().join("\n"));
                let parts = messages.into_iter().flat_map(|message| message.parts);
                output
                    .attachments
                    .extend(parts.filter_map(|part| match part {
                        Part::Data(data) => Some(data),
                        _ => None,
                    }));
                Ok(output)
            }
        }
    }
}
