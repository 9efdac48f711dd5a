//! Descriptions of agents, and the page that lists them (ANP-07 and ANP-08 of the protocol's specification).

use serde_json::{Value, json};

/// The description that an agent gives of itself.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// The address of this description.
    pub address: String,
    /// The address that answers its methods, as JSON-RPC 2.0.
    pub rpc: String,
    /// Whether callers have to sign their requests.
    pub is_guarded: bool,
}

impl Description {
    /// The document, with the interface inside: one method, `ask`, that gives the agent something to do.
    pub fn document(&self) -> Value {
        let about = match self.about.trim() {
            "" => &self.name,
            about => about,
        };
        let mut document = json!({
            "protocolType": "ANP",
            "protocolVersion": "1.0.0",
            "type": "AgentDescription",
            "url": self.address,
            "name": self.name,
            "description": about,
            "interfaces": [{
                "type": "StructuredInterface",
                "protocol": "openrpc",
                "description": "Gives the agent something to do.",
                "content": self.interface(about),
            }],
        });
        if self.is_guarded {
            secure(&mut document);
        }
        document
    }

    /// The interface, as OpenRPC.
    fn interface(&self, about: &str) -> Value {
        let text = |name: &str, about: &str, required: bool| {
            json!({
                "name": name, "description": about, "required": required, "schema": { "type": "string" },
            })
        };
        let mut interface = json!({
            "openrpc": "1.3.2",
            "info": { "title": self.name, "version": "1.0.0", "description": about },
            "servers": [{ "name": self.name, "url": self.rpc }],
            "methods": [{
                "name": "ask",
                "description": format!("Gives {} something to do, and waits for its answer. {about}", self.name),
                "params": [
                    text("text", "What is to be done.", true),
                    text("session", "The conversation that it belongs to; a new one, when left out.", false),
                    text("id", "An id of the request: under one id it is done once.", false),
                ],
                "result": {
                    "name": "answer",
                    "schema": {
                        "type": "object",
                        "properties": {
                            "text": { "type": "string", "description": "The answer." },
                            "session": { "type": "string", "description": "The conversation, to go on with it." },
                            "run": { "type": "string", "description": "The id of the run that gave it." },
                        },
                        "required": ["text", "run"],
                    },
                },
            }],
        });
        if self.is_guarded {
            secure(&mut interface);
        }
        interface
    }
}

/// Says that requests are signed by an identity of `did:wba`.
fn secure(document: &mut Value) {
    document["securityDefinitions"] =
        json!({ "didwba_sc": { "scheme": "didwba", "in": "header", "name": "Authorization" } });
    document["security"] = json!("didwba_sc");
}

/// The page at `/.well-known/agent-descriptions`, where the agents of a site are found: names, with the addresses of
/// their descriptions.
pub fn descriptions<'d>(
    address: &str,
    agents: impl IntoIterator<Item = (&'d str, String)>,
) -> Value {
    let items = agents.into_iter().map(
        |(name, address)| json!({ "@type": "ad:AgentDescription", "name": name, "@id": address }),
    );
    json!({
        "@context": { "@vocab": "https://schema.org/", "ad": "https://agent-network-protocol.com/ad#" },
        "@type": "CollectionPage",
        "url": address,
        "items": items.collect::<Vec<Value>>(),
    })
}
