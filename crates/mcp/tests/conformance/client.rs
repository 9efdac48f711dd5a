//! Our client as the scenarios want it: it signs in where that is wanted, calls every tool, and answers what is asked.

use std::time::Duration;

use ghostlight_actors::{
    contract::{ToolContext, ToolError, ToolHandle, ToolOutput, Toolset},
    vocabulary::{Arguments, Continued, Question, QuestionKind},
};
use ghostlight_mcp::{IdentityProvider, McpToolset, OAuthSpec, ServerSpec};
use serde_json::{Map, Value, json};

/// The document about the client that the kit's authorization servers know.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";
/// How often the client signs in for one thing; our own bound is lower.
const SIGNING_IN: usize = 8;

#[tokio::main]
pub(crate) async fn run() {
    let url = std::env::args().next_back().unwrap();
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let text = |key: &str| context.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut oauth = match text("client_id") {
        Some(id) => OAuthSpec::client(id, text("client_secret")),
        None => OAuthSpec::default().client_metadata_url(CLIENT_METADATA),
    };
    if scenario.contains("client-credentials") {
        oauth = oauth.client_credentials();
    }
    let file = |name: &str, content: Option<String>| {
        let name = format!("ghostlight-conformance-{}-{name}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, content.unwrap()).unwrap();
        file
    };
    match scenario.as_str() {
        "auth/client-credentials-jwt" => {
            oauth = oauth.private_key_file(file("key", text("private_key_pem")));
        }
        "auth/wif-jwt-bearer" => {
            oauth = oauth.platform_token_file(file("token", text("valid_jwt")));
        }
        "auth/enterprise-managed-authorization" => {
            let [endpoint, id, token] = ["idp_token_endpoint", "idp_client_id", "idp_id_token"]
                .map(|key| text(key).unwrap());
            oauth = oauth.identity_provider(IdentityProvider::new(endpoint, id, token));
        }
        _ => {}
    }
    if oauth.client_id.is_some() {
        oauth.issuer = issuer_of(&url).await;
    }
    let mut settings = ServerSpec::url(url)
        .oauth(oauth)
        .connect_timeout(Duration::from_secs(10));
    let uses_skills = scenario.starts_with("sep-2640-");
    settings.skills = uses_skills;
    let toolset = McpToolset::new("kit", settings).unwrap();
    connect(&toolset).await;
    let calls = context.get("toolCalls").and_then(Value::as_array).cloned();
    let tools = toolset.tools().unwrap();
    let of_skills = || {
        let name = json!("pdf-processing");
        let file = json!({ "name": name, "path": "references/FORMS.md" });
        let calls = [
            ("list_skills", json!({})),
            ("use_skill", json!({ "name": name })),
            ("read_skill_file", file),
        ];
        let calls = calls.map(|(tool, arguments)| {
            let found = tools.iter().find(|one| one.definition().name == tool);
            (found.unwrap().clone(), arguments)
        });
        // A skill that was only listed is not read.
        let wanted = if scenario.ends_with("no-prefetch") {
            1
        } else {
            3
        };
        calls.into_iter().take(wanted).collect()
    };
    let calls = match calls {
        _ if uses_skills => of_skills(),
        Some(calls) => calls
            .iter()
            .map(|call| {
                let name = call["name"].as_str().unwrap();
                let tool = tools.iter().find(|tool| tool.definition().name == name);
                (tool.unwrap().clone(), call["arguments"].clone())
            })
            .collect(),
        None => tools
            .iter()
            .map(|tool| {
                let arguments = arguments(&tool.definition().parameters);
                (tool.clone(), arguments)
            })
            .collect::<Vec<_>>(),
    };
    // At once, but for those by which somebody signs in, and those that follow from each other.
    let at_once = !scenario.starts_with("auth/") && !uses_skills;
    let mut under_way = tokio::task::JoinSet::new();
    for (tool, arguments) in calls {
        let toolset = toolset.clone();
        under_way.spawn(async move {
            match call(&toolset, &tool, arguments).await {
                Ok(output) => println!("called: {}", output.text),
                Err(error) => println!("refused: {error}"),
            }
        });
        if !at_once {
            under_way.join_next().await;
        }
    }
    under_way.join_all().await;
    toolset.disconnect().await;
}

async fn connect(toolset: &McpToolset) {
    for _ in 0..SIGNING_IN {
        match toolset.connect().await {
            Ok(()) => return,
            Err(error) => println!("not connected: {error}"),
        }
        sign_in(toolset).await;
    }
}

/// Plays a person with a browser, who says yes to everything.
async fn sign_in(toolset: &McpToolset) {
    let signed_in = toolset.sign_in(|address| {
        let address = address.to_owned();
        tokio::spawn(async move {
            let came = reqwest::get(&address).await;
            println!(
                "the browser came back: {:?}",
                came.map(|page| page.status())
            );
        });
    });
    let signed_in = tokio::time::timeout(Duration::from_secs(8), signed_in).await;
    if let Err(error) = signed_in.unwrap() {
        println!("not signed in: {error}");
        std::process::exit(1);
    }
}

/// Calls a tool to its end.
async fn call(
    toolset: &McpToolset,
    tool: &ToolHandle,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    for _ in 0..SIGNING_IN {
        let called = to_its_end(tool, &arguments).await;
        match called {
            Err(error) if error.message.contains("sign in") => {
                println!("{error}");
                sign_in(toolset).await;
            }
            called => return called,
        }
    }
    Err(ToolError::new(
        "it wants somebody to sign in again and again",
    ))
}

async fn to_its_end(tool: &ToolHandle, arguments: &Value) -> Result<ToolOutput, ToolError> {
    let mut cx = ToolContext::detached();
    loop {
        let output = tool.call(Arguments::from(arguments.clone()), cx).await?;
        let Some(continuation) = output.continuation else {
            return Ok(output);
        };
        let answer = continuation.question.map(|question| answer(&question));
        let continued = Continued::with(continuation.state, answer);
        cx = ToolContext::detached().with_continued(Some(continued.into()));
    }
}

/// What a person says who is content with all that is set beforehand.
fn answer(question: &Question) -> Value {
    println!("asked: {}", question.prompt);
    match question.kind {
        QuestionKind::Confirmation => json!(true),
        QuestionKind::Choice => json!(question.options[0]),
        _ if question.prompt.contains("JSON object") => json!({}),
        _ => json!("yes"),
    }
}

/// Arguments that fit a schema.
fn arguments(schema: &Value) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let each = properties.into_iter().flatten().map(|(name, schema)| {
        let value = match schema.get("type").and_then(Value::as_str) {
            Some("number" | "integer") => json!(2),
            Some("boolean") => json!(true),
            Some("object") => json!({}),
            Some("array") => json!([]),
            _ => json!("text"),
        };
        (name.clone(), value)
    });
    Value::Object(each.collect::<Map<_, _>>())
}

/// The authorization server of the suite, which stands at a port of its own; people name it in the settings.
async fn issuer_of(url: &str) -> Option<String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = reqwest::Url::parse(url).unwrap();
    for path in [url.path(), ""] {
        let well_known = format!("/.well-known/oauth-protected-resource{path}");
        let address = url.join(&well_known).unwrap();
        let Ok(answer) = reqwest::get(address).await else {
            continue;
        };
        let answer = answer.bytes().await.unwrap_or_default();
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let found = answer.pointer("/authorization_servers/0");
        if let Some(found) = found.and_then(Value::as_str) {
            return Some(found.to_owned());
        }
    }
    None
}
