//! Operations of OpenAPI documents: the requests that they make, and what a hostile document, model or server
//! tries.

use std::{net::IpAddr, pin::Pin};

use ghostlight_actors::{
    contract::{ToolHandle, Toolset, ToolsetHandle},
    vocabulary::Effect,
};
use ghostlight_tools::{OpenApi, OpenApiError, OpenApiSpec, web::Resolver};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

mod hostile;

use super::{call, call_as, server::Server, tool};

/// A server that answers by the last part of the path.
async fn serve() -> Server {
    let answered = |mut stream: TcpStream, request: String, _| async move {
        stream.write_all(answer(&request).as_bytes()).await
    };
    Server::start(answered).await
}

fn base(server: &Server) -> String {
    format!("http://127.0.0.1:{}/v1", server.port)
}

fn settings(server: &Server) -> OpenApiSpec {
    OpenApiSpec::new("")
        .base_url(base(server))
        .allow_address("127.0.0.1")
}

fn answer(request: &str) -> String {
    let target = request.split(' ').nth(1).unwrap_or("/");
    let path = target.split('?').next().unwrap_or_default();
    let (status, headers, body) = match path.rsplit('/').next().unwrap_or_default() {
        "locked" => ("401 Unauthorized", "", "who are you?".to_owned()),
        "gateway" => ("504 Gateway Timeout", "", "too slow".to_owned()),
        "echo" => ("200 OK", "", request.to_owned()),
        "pages" => (
            "200 OK",
            "link: <?page=2>; rel=\"next\", <?page=9>; rel=last\r\n",
            "[1, 2]".to_owned(),
        ),
        "away" => (
            "302 Found",
            "location: http://other.test/steal\r\n",
            String::new(),
        ),
        "document.json" => ("200 OK", "", shop().to_string()),
        _ => ("200 OK", "", "{\"done\": true}".to_owned()),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// A document with some of everything.
fn shop() -> Value {
    let text = json!({ "type": "string" });
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let object = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let at = |name: &str, place: &str, more: Value, schema: &Value| {
        let mut parameter = json!({ "name": name, "in": place, "schema": schema });
        let fields = parameter.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        parameter
    };
    let get = |id: &str, parameters: Value| json!({ "operationId": id, "parameters": parameters });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Shop", "version": "1" },
        "servers": [{ "url": "https://{region}.shop.example/v1", "variables": { "region": { "default": "eu" } } }],
        "security": [{ "key": [] }],
        "paths": {
            "/items/{id}": {
                "parameters": [at("id", "path", json!({ "required": true }), &text)],
                "get": get("getItem", json!([at("fields", "query", json!({}), &list)])),
                "put": { "operationId": "putItem", "requestBody": { "$ref": "#/components/requestBodies/Item" } },
                "delete": { "operationId": "deleteItem" },
            },
            "/items": {
                "post": {
                    "operationId": "createItem", "summary": "Makes an item.", "security": [],
                    "requestBody": { "$ref": "#/components/requestBodies/Item" },
                },
                "get": get("listItems", json!([
                    { "$ref": "#/components/parameters/Filter" },
                    at("tags", "query", json!({ "explode": false }), &list),
                    at("spaced", "query", json!({ "style": "spaceDelimited", "explode": false }), &list),
                    at("piped", "query", json!({ "style": "pipeDelimited", "explode": false }), &list),
                    at("sort[by]", "query", json!({}), &text),
                    at("spread", "query", json!({}), &object),
                    at("X-Trace", "header", json!({}), &text),
                    at("Host", "header", json!({}), &text),
                    at("Authorization", "header", json!({}), &text),
                    at("seen", "cookie", json!({}), &text),
                    { "name": "where", "in": "query", "content": { "application/json": { "schema": { "type": "object" } } } },
                ])),
            },
            "/label/{a}/matrix/{b}/list/{c}": {
                "get": get("styles", json!([
                    at("a", "path", json!({ "style": "label", "explode": true, "required": true }), &list),
                    at("b", "path", json!({ "style": "matrix", "explode": true, "required": true }), &list),
                    at("c", "path", json!({ "required": true }), &list),
                ])),
            },
            "/login": {
                "post": {
                    "operationId": "login", "security": [{ "nobody": [] }, { "basic": [] }],
                    "requestBody": { "content": { "application/x-www-form-urlencoded": { "schema": { "type": "object" } } } },
                },
            },
            "/note": { "post": { "operationId": "note", "security": [{ "token": [], "crumb": [] }, {}],
                "requestBody": { "content": { "text/plain": { "schema": { "type": "string" } } } } } },
            "/upload": { "post": { "operationId": "upload",
                "requestBody": { "required": true, "content": { "multipart/form-data": {} } } } },
            "/echo": { "post": { "operationId": "echo" } },
            "/locked": { "get": { "operationId": "locked", "security": [{ "nobody": [] }] } },
            "/gateway": { "post": { "operationId": "slowPost" }, "get": { "operationId": "slowGet" } },
            "/pages": { "get": { "operationId": "pages" } },
            "/away": { "get": { "operationId": "away" } },
            "/v1/{broken}": { "get": { "operationId": "broken" } },
            "/outside": { "get": { "operationId": "outside",
                "parameters": [{ "$ref": "http://127.0.0.1:1/parameters.json" }] } },
        },
        "components": {
            "parameters": { "Filter": at("filter", "query", json!({ "style": "deepObject" }), &json!({ "type": "object" })) },
            "requestBodies": { "Item": { "required": true, "content": { "application/json": {
                "schema": { "$ref": "#/components/schemas/Item" } } } } },
            "schemas": {
                "Item": {
                    "type": "object", "required": ["id", "name"],
                    "properties": {
                        "id": { "type": "integer", "readOnly": true },
                        "name": { "type": "string", "maxLength": 80, "x-internal": 1, "pattern": "^[a-z]+$" },
                        "parent": { "$ref": "#/components/schemas/Item" },
                        "kind": { "oneOf": [{ "const": "a" }, { "enum": ["a", "b"] }] },
                        "odd": { "type": "string", "pattern": "(?=x)y" },
                    },
                },
            },
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "query", "name": "api key" },
                "basic": { "type": "http", "scheme": "Basic" },
                "token": { "type": "oauth2" },
                "crumb": { "type": "apiKey", "in": "cookie", "name": "crumb" },
                "nobody": { "type": "mutualTLS" },
            },
        },
    })
}

fn secret() -> OpenApiSpec {
    OpenApiSpec::new("")
        .base_url("https://shop.example/v1")
        .credential("key", "k-3141592")
}

fn shop_at(server: &Server) -> OpenApi {
    let settings = settings(server)
        .credential("key", "k-3141592")
        .credential("basic", "ada:hunter2")
        .credential("token", "t-2718281")
        .credential("crumb", "c-1414213");
    OpenApi::read(&shop().to_string(), settings).unwrap()
}

fn names(toolset: &impl Toolset) -> Vec<String> {
    let tools = toolset.tools().unwrap();
    tools
        .iter()
        .map(|tool| tool.definition().name.clone())
        .collect()
}

fn schema_of(tool: &ToolHandle) -> Value {
    tool.definition().parameters.clone()
}

#[tokio::test]
async fn arguments_go_where_the_document_says() {
    let server = serve().await;
    let shop = shop_at(&server);
    let key = "api%20key=k-3141592";
    for (name, arguments, line, more) in [
        (
            "getItem",
            json!({ "id": "a/b c?", "fields": ["x", "y&z"] }),
            format!("GET /v1/items/a%2Fb%20c%3F?fields=x&fields=y%26z&{key} "),
            vec![],
        ),
        (
            "putItem",
            json!({ "id": "7", "body": { "name": "lamp" } }),
            format!("PUT /v1/items/7?{key} "),
            vec![
                "content-type: application/json",
                "\r\n\r\n{\"name\":\"lamp\"}",
            ],
        ),
        (
            "createItem",
            json!({ "body": { "name": "lamp" } }),
            "POST /v1/items ".to_owned(),
            vec!["{\"name\":\"lamp\"}"],
        ),
        (
            "listItems",
            json!({
                "filter": { "price": { "max": 3 }, "in": ["a"] }, "tags": ["a", "b,c"], "spaced": ["a", "b"],
                "piped": ["a", "b"], "sort_by_": "name", "spread": { "p": "q r" }, "X-Trace": "t1", "seen": "y;z",
                "where": { "a": [1] },
            }),
            format!(
                "GET /v1/items?filter%5Bin%5D%5B%5D=a&filter%5Bprice%5D%5Bmax%5D=3&tags=a,b%2Cc&spaced=a%20b&piped=a%7Cb&\
                 sort%5Bby%5D=name&p=q%20r&where=%7B%22a%22%3A%5B1%5D%7D&{key} "
            ),
            vec!["x-trace: t1", "cookie: seen=y%3Bz"],
        ),
        (
            "styles",
            json!({ "a": ["1", "2"], "b": ["3", "4"], "c": ["5", "6"] }),
            format!("GET /v1/label/.1.2/matrix/;b=3;b=4/list/5,6?{key} "),
            vec![],
        ),
        (
            "login",
            json!({ "body": { "user": "ada", "tags": ["a b", "c"], "none": null } }),
            "POST /v1/login ".to_owned(),
            vec![
                "authorization: Basic YWRhOmh1bnRlcjI=",
                "content-type: application/x-www-form-urlencoded",
                "\r\n\r\ntags=a%20b&tags=c&user=ada",
            ],
        ),
        (
            "note",
            json!({ "body": "hello" }),
            "POST /v1/note ".to_owned(),
            vec![
                "authorization: Bearer t-2718281",
                "cookie: crumb=c-1414213",
                "\r\n\r\nhello",
            ],
        ),
    ] {
        call(&tool(&shop, name), arguments).await.unwrap();
        let asked = server.asked().pop().unwrap();
        assert!(asked.starts_with(&line), "{name}: {line}\n{asked}");
        for part in more {
            assert!(asked.contains(part), "{name}: {part:?} is not in\n{asked}");
        }
    }
}

#[tokio::test]
async fn methods_say_what_repeating_a_call_does_and_the_team_says_it_louder() {
    let server = serve().await;
    let shop = shop_at(&server);
    let effect = |toolset: &OpenApi, name: &str| tool(toolset, name).definition().effect;
    for (name, expected) in [
        ("getItem", Effect::Read),
        ("putItem", Effect::Idempotent),
        ("deleteItem", Effect::Idempotent),
        ("createItem", Effect::Once),
    ] {
        assert_eq!(effect(&shop, name), expected, "{name}");
    }
    let settings = secret()
        .effect("*Item", Effect::Once)
        .effect("createItem", Effect::Idempotent);
    let changed = OpenApi::read(&shop_text(), settings).unwrap();
    assert_eq!(effect(&changed, "getItem"), Effect::Once);
    assert_eq!(effect(&changed, "createItem"), Effect::Idempotent);

    // A server that knows the key does the same call once.
    let make = tool(&shop, "createItem");
    let mut keys = Vec::new();
    for number in [1, 1, 2] {
        call_as(&make, number, json!({ "body": { "name": "lamp" } }))
            .await
            .unwrap();
        let asked = server.asked().pop().unwrap();
        let key = asked
            .lines()
            .find(|line| line.starts_with("idempotency-key"));
        keys.push(key.unwrap().to_owned());
    }
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[1], keys[2]);

    // The answer of a gateway that waited in vain tells nothing of a call that must not be repeated.
    let slow = tool(&shop, "slowPost");
    let failed = slow.call(
        json!({}).into(),
        ghostlight_actors::contract::ToolContext::detached(),
    );
    let kind = failed.await.unwrap_err().kind;
    assert_eq!(kind, ghostlight_actors::contract::ToolErrorKind::InDoubt);
    let slow = tool(&shop, "slowGet");
    let failed = slow.call(
        json!({}).into(),
        ghostlight_actors::contract::ToolContext::detached(),
    );
    let kind = failed.await.unwrap_err().kind;
    assert_eq!(kind, ghostlight_actors::contract::ToolErrorKind::Failed);
}

fn shop_text() -> String {
    shop().to_string()
}

#[tokio::test]
async fn an_answer_tells_where_the_next_page_is_and_which_credential_is_missing() {
    let server = serve().await;
    let shop = shop_at(&server);
    let pages = call(&tool(&shop, "pages"), json!({})).await.unwrap();
    assert!(
        pages.contains("next page") && pages.contains("/v1/pages?page=2"),
        "{pages}"
    );
    let refused = call(&tool(&shop, "locked"), json!({})).await.unwrap_err();
    assert!(refused.contains("not set: nobody"), "{refused}");
}

#[test]
fn what_cannot_be_called_is_left_out_and_the_rest_stands() {
    let shop = OpenApi::read(&shop_text(), secret()).unwrap();
    let names = names(&shop);
    for gone in ["upload", "broken", "outside"] {
        assert!(!names.contains(&gone.to_owned()), "{gone}");
    }
    assert_eq!(names.len(), 14, "{names:?}");
    let some = ToolsetHandle::new(shop)
        .only(ghostlight_actors::vocabulary::ToolFilter::names(["*Item"]))
        .prefixed("shop_");
    let tools = some.tools().unwrap();
    let mut some: Vec<&str> = tools
        .iter()
        .map(|tool| tool.definition().name.as_str())
        .collect();
    some.sort_unstable();
    assert_eq!(
        some,
        [
            "shop_createItem",
            "shop_deleteItem",
            "shop_getItem",
            "shop_putItem"
        ]
    );
}

#[test]
fn schemas_are_trees_of_what_a_caller_may_say() {
    let shop = OpenApi::read(&shop_text(), secret()).unwrap();
    let make = tool(&shop, "createItem");
    assert_eq!(make.definition().description, "Makes an item.\nPOST /items");
    let schema = schema_of(&make);
    let item = &schema["properties"]["body"];
    assert_eq!(item["required"], json!(["name"]), "the server gives the id");
    assert!(item["properties"].get("id").is_none());
    assert_eq!(
        item["properties"]["name"],
        json!({ "type": "string", "maxLength": 80, "pattern": "^[a-z]+$" })
    );
    assert_eq!(
        item["properties"]["odd"],
        json!({ "type": "string" }),
        "a pattern that looks ahead"
    );
    assert_eq!(
        item["properties"]["parent"],
        json!({ "type": "object", "description": "A Item." })
    );
    assert!(item["properties"]["kind"].get("anyOf").is_some());
    assert!(!schema.to_string().contains("$ref"));
    let list = schema_of(&tool(&shop, "listItems"));
    for gone in ["Host", "Authorization"] {
        assert!(list["properties"].get(gone).is_none(), "{gone}");
    }
    let old = json!({
        "openapi": "3.0.3",
        "paths": { "/x": { "get": { "parameters": [
            { "name": "a", "in": "query", "schema": { "type": "string", "nullable": true, "enum": ["x"] } },
            { "name": "b", "in": "query", "schema": { "type": "integer", "minimum": 3, "exclusiveMinimum": true } },
        ] } } },
    });
    let old = OpenApi::read(&old.to_string(), secret_less()).unwrap();
    let schema = schema_of(&tool(&old, "get_x"));
    assert_eq!(
        schema["properties"]["a"],
        json!({ "type": ["string", "null"], "enum": ["x", null] })
    );
    assert_eq!(
        schema["properties"]["b"],
        json!({ "type": "integer", "exclusiveMinimum": 3 })
    );
}

fn secret_less() -> OpenApiSpec {
    OpenApiSpec::new("").base_url("https://shop.example")
}

#[tokio::test]
async fn no_argument_leads_to_another_place_of_the_server() {
    let server = serve().await;
    let shop = shop_at(&server);
    let item = tool(&shop, "deleteItem");
    for id in ["..", ".", "", "../admin", "..\\admin", "a/../.."] {
        call(&item, json!({ "id": id })).await.unwrap_err();
    }
    assert!(server.asked().is_empty());
    for id in [
        "../admin",
        "..%2fadmin",
        "%2e%2e",
        "..\\admin",
        "a/../..",
        "x?admin=1",
        "x#y",
        "a\r\nHost: evil",
        "\0",
        "{id}",
        "//evil.test/",
        "@evil.test",
        ";a=b",
        "ü",
    ] {
        let _ = call(&item, json!({ "id": id })).await;
        for asked in server.asked() {
            let line = asked.lines().next().unwrap();
            assert!(line.starts_with("DELETE /v1/items/"), "{id:?}: {line}");
            assert_eq!(line.matches('/').count(), 4, "{id:?}: {line}");
            assert_eq!(line.matches('?').count(), 1, "{id:?}: {line}");
            assert!(!asked.contains("\nHost: evil"), "{asked}");
        }
    }
    let list = tool(&shop, "listItems");
    let refused = call(&list, json!({ "X-Trace": "a\r\nx-evil: 1" }))
        .await
        .unwrap_err();
    assert!(refused.contains("cannot be a header"), "{refused}");
    call(&list, json!({ "tags": ["x".repeat(10_000)] }))
        .await
        .unwrap_err();
    call(
        &list,
        json!({ "sort_by_": "a&api key=mine", "seen": "a; crumb=b" }),
    )
    .await
    .unwrap();
    let asked = server.asked().pop().unwrap();
    assert!(
        asked.contains("sort%5Bby%5D=a%26api%20key%3Dmine&")
            && asked.contains("seen=a%3B%20crumb%3Db"),
        "{asked}"
    );
}

#[tokio::test]
async fn credentials_go_to_the_api_alone_and_no_model_reads_them() {
    let server = serve().await;
    let shop = shop_at(&server);
    let told = call(&tool(&shop, "echo"), json!({})).await.unwrap();
    assert!(
        told.contains("***") && !told.contains("k-3141592"),
        "{told}"
    );
    let refused = call(&tool(&shop, "away"), json!({})).await.unwrap_err();
    assert!(
        refused.contains("other.test") && !refused.contains("k-3141592"),
        "{refused}"
    );
    assert!(!format!("{shop:?} {:?}", shop.tools().unwrap()).contains("3141592"));

    // A document does not decide where they go.
    let error = OpenApi::read(
        &shop_text(),
        OpenApiSpec::new("").credential("key", "k-3141592"),
    );
    assert!(error.unwrap_err().to_string().contains("base_url"));
    OpenApi::read(&shop_text(), OpenApiSpec::new("")).unwrap();
    let error = OpenApi::read(&shop_text(), secret().credential("nobody", "x"));
    let error = error.unwrap_err();
    assert!(
        matches!(error, OpenApiError::Scheme { ref name, .. } if name == "nobody"),
        "{error}"
    );
}

/// What leads every name to this machine.
struct Here;

impl Resolver for Here {
    fn resolve(
        &self,
        _: String,
    ) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

#[tokio::test]
async fn private_addresses_are_asked_only_where_the_team_allows_it() {
    let server = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.json");
    std::fs::write(&file, shop_text()).unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "public.test",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "169.254.169.254",
    ] {
        let settings = OpenApiSpec::new(file.to_str().unwrap())
            .base_url(format!("http://{host}:{}/v1", server.port));
        let shop = OpenApi::with_resolver(settings, Here).unwrap();
        call(
            &tool(&shop, "createItem"),
            json!({ "body": { "name": "lamp" } }),
        )
        .await
        .unwrap_err();
    }
    assert!(server.asked().is_empty());

    // So it is with the document, which is fetched when the System starts.
    let address = format!("http://public.test:{}/document.json", server.port);
    let fetched = |settings: OpenApiSpec| {
        OpenApi::with_resolver(settings.base_url(base(&server)), Here).unwrap()
    };
    let refused = fetched(OpenApiSpec::new(&address));
    refused.tools().unwrap_err();
    Toolset::open(&refused).await.unwrap_err();
    assert!(server.asked().is_empty());
    let allowed = fetched(OpenApiSpec::new(&address).allow_address("127.0.0.1"));
    let before = allowed.revision();
    Toolset::open(&allowed).await.unwrap();
    assert_ne!(allowed.revision(), before);
    assert!(names(&allowed).contains(&"getItem".to_owned()));
}
