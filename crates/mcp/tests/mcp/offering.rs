//! What a server offers besides calls: news of what changes, messages of a log, prompts that ask and bring resources, and
//! forms.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::System,
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    testing::InMemoryStore,
    vocabulary::{Arguments, Effect, Outcome, Question, Scope, ToolCall, ToolDefinition},
};
use ghostlight_mcp::{McpServer, PromptTemplate};
use parking_lot::Mutex;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, ContentBlock, ElicitRequestParams,
        ElicitResult, ElicitationAction, GetPromptRequestParams, Implementation, ProtocolVersion,
        ReadResourceRequestParams, RequestMetaObject, RequestParamsMeta as _, ResourceContents,
        ResourceUpdatedNotificationParam, ServerNotification, SubscribeRequestParams,
        SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, json};

use crate::serving::connect;

struct Counts;

impl Tool for Counts {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("counts", "Counts.").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        cx.progress(None, "counted to three");
        Ok(ToolOutput::text("3"))
    }
}

/// The team `desk`: it saves a note, counts, or asks who somebody is.
async fn desk() -> System {
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "save" => {
                let kept = cx.artifacts(Scope::Session);
                kept.save("note.txt", "text/plain", b"kept".to_vec())
                    .await?;
            }
            "count" => drop(cx.tool(ToolCall::new("1", "counts", json!({}))).await?),
            "who" => {
                let name = json!({ "name": { "type": "string" } });
                let schema = json!({ "title": "visitor", "type": "object", "properties": name, "required": ["name"] });
                let who = cx.ask(Question::form("Who are you?", schema)).await?;
                return Ok(Outcome::answer(format!("hello {}", who["name"])));
            }
            _ => {}
        }
        Ok(Outcome::answer("done"))
    });
    let system = System::builder(InMemoryStore::new()).team(desk.tool(Counts).into_team().unwrap());
    system.start().await.unwrap()
}

/// A client whose person gives these forms, one after the other.
#[derive(Clone, Default)]
struct Client {
    says: Arc<Mutex<VecDeque<Value>>>,
    asked: Arc<Mutex<Vec<String>>>,
    updated: Arc<Mutex<Vec<String>>>,
    logged: Arc<Mutex<Vec<String>>>,
}

impl Client {
    /// Waits until exactly these messages were logged: notifications may come after the result.
    async fn heard(&self, wanted: &[&str]) {
        let all = async {
            while self.logged.lock().len() < wanted.len() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let all = tokio::time::timeout(Duration::from_secs(10), all).await;
        assert!(
            all.is_ok() && *self.logged.lock() == wanted,
            "{:?}",
            self.logged.lock()
        );
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(Default::default());
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = asked else {
            panic!("{asked:?}")
        };
        self.asked.lock().push(message);
        let says = self.says.lock().pop_front().expect("asked once too often");
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(says))
    }

    async fn on_resource_updated(
        &self,
        told: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.updated.lock().push(told.uri);
    }

    #[expect(deprecated, reason = "older clients have it")]
    async fn on_logging_message(
        &self,
        told: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let logger = told.logger.unwrap_or_default();
        self.logged
            .lock()
            .push(format!("{logger}: {}", told.data.as_str().unwrap()));
    }
}

fn says(message: &str) -> CallToolRequestParams {
    let arguments = json!({ "message": message, "session": "s" });
    CallToolRequestParams::new("desk").with_arguments(arguments.as_object().cloned().unwrap())
}

const SESSION: &str = "ghostlight://sessions/desk/s";
const NOTE: &str = "ghostlight://artifacts/desk/s/note.txt";

/// Waits for long enough that every change is told.
async fn a_while() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_is_told_when_what_it_watches_changes_and_of_nothing_else() {
    let system = desk().await;
    let server = McpServer::new(system.clone()).team("desk", "");
    let person = Client::default();
    let old = connect(&server, person.clone(), false).await;
    let newest = connect(&server, Client::default(), true).await;
    #[expect(deprecated, reason = "the older wire has nothing else")]
    let watch = async |uri: &str| old.subscribe(SubscribeRequestParams::new(uri)).await;
    assert!(watch("ghostlight://sessions/nobody/s").await.is_err());
    assert!(watch("file:///etc/passwd").await.is_err());
    watch(SESSION).await.unwrap();
    watch(NOTE).await.unwrap();
    let filter = SubscriptionFilter::builder();
    let filter = filter.resource_subscriptions([NOTE, "ghostlight://sessions/nobody/s"]);
    let mut subscription = newest.peer().listen(filter.build()).await.unwrap();
    let accepted = subscription.acknowledged().resource_subscriptions.clone();
    assert_eq!(accepted, Some(vec![NOTE.to_owned()]));

    // The session changes, and the note does not; another session changes as well.
    old.call_tool(says("hello")).await.unwrap();
    system
        .session("desk", "other")
        .send("hello")
        .await
        .unwrap()
        .outcome()
        .await
        .unwrap();
    a_while().await;
    let told = std::mem::take(&mut *person.updated.lock());
    assert!(
        !told.is_empty() && told.iter().all(|uri| uri == SESSION || uri == NOTE),
        "{told:?}"
    );
    a_while().await;
    assert!(person.updated.lock().is_empty(), "nothing changed");

    old.call_tool(says("save")).await.unwrap();
    a_while().await;
    let told = std::mem::take(&mut *person.updated.lock());
    assert!(
        told.contains(&SESSION.to_owned()) && told.contains(&NOTE.to_owned()),
        "{told:?}"
    );
    let Ok(Some(ServerNotification::ResourceUpdatedNotification(told))) = subscription.next().await
    else {
        panic!("the newest wire tells nothing")
    };
    assert_eq!(told.params.uri, NOTE);

    #[expect(deprecated, reason = "the older wire has nothing else")]
    old.unsubscribe(UnsubscribeRequestParams::new(SESSION))
        .await
        .unwrap();
    old.call_tool(says("hello again")).await.unwrap();
    a_while().await;
    assert!(
        person.updated.lock().is_empty(),
        "{:?}",
        person.updated.lock()
    );
}

#[tokio::test]
#[expect(deprecated, reason = "older clients have it")]
async fn what_agents_do_is_logged_for_a_client_that_sets_a_level() {
    use rmcp::model::{LoggingLevel, SetLevelRequestParams};
    let server = McpServer::new(desk().await).team("desk", "");
    let wanted = ["desk: calls counts", "desk: counted to three"];
    let person = Client::default();
    let old = connect(&server, person.clone(), false).await;
    old.call_tool(says("count")).await.unwrap();
    old.set_level(SetLevelRequestParams::new(LoggingLevel::Error))
        .await
        .unwrap();
    old.call_tool(says("count")).await.unwrap();
    assert!(person.logged.lock().is_empty());
    old.set_level(SetLevelRequestParams::new(LoggingLevel::Info))
        .await
        .unwrap();
    old.call_tool(says("count")).await.unwrap();
    person.heard(&wanted).await;

    let person = Client::default();
    let newest = connect(&server, person.clone(), true).await;
    newest.call_tool(says("count")).await.unwrap();
    assert!(person.logged.lock().is_empty());
    let mut call = says("count");
    let mut meta = RequestMetaObject::default();
    meta.set_log_level(LoggingLevel::Debug);
    *call.meta_mut() = Some(meta);
    newest.call_tool(call).await.unwrap();
    person.heard(&wanted).await;
}

#[tokio::test]
async fn a_form_is_asked_through_the_client_until_its_answer_fits() {
    for newest in [false, true] {
        let server = McpServer::new(desk().await).team("desk", "");
        let person = Client::default();
        let wrong = if newest { 2 } else { 0 };
        let answers = [json!({ "name": 1 }), json!({}), json!({ "name": "Ann" })];
        person
            .says
            .lock()
            .extend(answers.into_iter().skip(2 - wrong));
        let client = connect(&server, person.clone(), newest).await;
        let answered = client.call_tool(says("who")).await.unwrap();
        assert_eq!(
            answered.content[0].as_text().unwrap().text,
            r#"hello "Ann""#
        );
        assert_eq!(person.asked.lock().len(), wrong + 1);
    }
    // On the older wire an answer that does not fit leaves the question open, and the call says so.
    let server = McpServer::new(desk().await).team("desk", "");
    let person = Client::default();
    person.says.lock().push_back(json!({}));
    let client = connect(&server, person, false).await;
    let asking = client.call_tool(says("who")).await.unwrap();
    assert!(
        asking.content[0]
            .as_text()
            .unwrap()
            .text
            .contains("Who are you?"),
        "{asking:?}"
    );
}

#[tokio::test]
async fn a_prompt_brings_resources_and_asks_for_arguments_that_are_missing() {
    let server = McpServer::new(desk().await)
        .team("desk", "")
        .document("docs://logo", "image/png", &b"\x89PNG"[..])
        .document_template("docs://pages/{number}", "text/plain", |values| async move {
            let number: u32 = values.get("number")?.parse().ok()?;
            (number < 10).then(|| format!("page {number}").into_bytes())
        })
        .prompt(
            PromptTemplate::new("explain", "Explains a page", "Explain it to {whom}.")
                .resource("docs://logo")
                .resource("docs://pages/{number}"),
        );
    let person = Client::default();
    person.says.lock().push_back(json!({ "whom": "Ann" }));
    let newest = connect(&server, person.clone(), true).await;
    let templates = newest.list_all_resource_templates().await.unwrap();
    assert!(
        templates
            .iter()
            .any(|one| one.uri_template == "docs://pages/{number}")
    );
    let arguments = json!({ "number": "7" }).as_object().cloned().unwrap();
    let params = GetPromptRequestParams::new("explain").with_arguments(arguments.clone());
    let prompt = newest.get_prompt(params.clone()).await.unwrap();
    let [logo, page, text] = &prompt.messages[..] else {
        panic!("{prompt:?}")
    };
    assert!(matches!(&logo.content, ContentBlock::Image(image) if image.mime_type == "image/png"));
    let ContentBlock::Resource(page) = &page.content else {
        panic!("{page:?}")
    };
    let ResourceContents::TextResourceContents {
        text: page, uri, ..
    } = &page.resource
    else {
        panic!("{page:?}")
    };
    assert_eq!((page.as_str(), uri.as_str()), ("page 7", "docs://pages/7"));
    assert_eq!(text.content.as_text().unwrap().text, "Explain it to Ann.");
    assert_eq!(person.asked.lock().len(), 1);

    let old = connect(&server, Client::default(), false).await;
    let refused = old.get_prompt(params).await.unwrap_err();
    assert!(refused.to_string().contains("whom"), "{refused}");
    for number in ["10", "x", "../logo", ""] {
        let mut arguments = arguments.clone();
        arguments.insert("number".to_owned(), number.into());
        arguments.insert("whom".to_owned(), "Ann".into());
        let params = GetPromptRequestParams::new("explain").with_arguments(arguments);
        assert!(old.get_prompt(params).await.is_err(), "{number}");
        let uri = format!("docs://pages/{number}");
        assert!(
            old.read_resource(ReadResourceRequestParams::new(uri))
                .await
                .is_err(),
            "{number}"
        );
    }
}
