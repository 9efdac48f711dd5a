//! Agent2Agent: who may know and do what, and requests that are none.

use ghostlight_actors::{
    actor::{System, SystemOptions},
    definition::Reach,
    run::Agent,
    testing::InMemoryStore,
    vocabulary::RunId,
};
use ghostlight_server::{Scope, Server, Visibility};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    a2a::{ALL, Binding, VERSION, in_context, message, state, to_task},
    a2a_grpc,
    client::{Answer, Client},
    desk::{Desk, obey, text_at},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_card_says_where_and_how_and_only_to_those_who_may_know() {
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        server
            .keys(keys.clone())
            .visibility("desk", Visibility::Public)
    })
    .await;
    let card = desk
        .client
        .get("/a2a/desk/.well-known/agent-card.json")
        .await
        .is(200);
    let tag = card.headers["etag"].clone();
    let card = card.json();
    assert_eq!(card["name"], "desk");
    let at = format!("http://{}/a2a/desk", desk.client.to);
    let interfaces: Vec<_> = card["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    let base = format!("http://{}", desk.client.to);
    let interfaces: Vec<_> = interfaces
        .iter()
        .map(|one| {
            assert_eq!(one["protocolVersion"], "1.0");
            let tenant = one["tenant"].as_str().unwrap_or_default();
            (
                text_at(one, "/protocolBinding"),
                text_at(one, "/url"),
                tenant,
            )
        })
        .collect();
    assert_eq!(
        interfaces,
        [
            ("JSONRPC".to_owned(), at.clone(), ""),
            ("HTTP+JSON".to_owned(), at.clone(), ""),
            ("GRPC".to_owned(), base, "desk"),
        ]
    );
    assert_eq!(
        card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"],
        "Bearer"
    );
    // The only agent that may be known is the server's; the old place leads there, too.
    for path in [
        "/.well-known/agent-card.json",
        "/.well-known/agent.json",
        "/a2a/desk/.well-known/agent.json",
    ] {
        assert_eq!(desk.client.get(path).await.is(200).json(), card, "{path}");
    }
    let known = format!("If-None-Match: {tag}\r\n");
    let again = desk
        .client
        .request("GET", "/a2a/desk/.well-known/agent-card.json", &known, None)
        .await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let listed = desk.client.get("/a2a").await.is(200).json();
    assert_eq!(
        listed["agents"][0]["card"],
        format!("{at}/.well-known/agent-card.json")
    );
    desk.client
        .get("/a2a/secret/.well-known/agent-card.json")
        .await
        .is(404);
    desk.client.post("/a2a/desk", json!({})).await.is(401);

    let locked = Desk::locked().await;
    locked
        .client
        .get("/a2a/desk/.well-known/agent-card.json")
        .await
        .is(404);
    assert_eq!(
        locked.client.get("/a2a").await.is(200).json(),
        json!({ "agents": [] })
    );
    let ada = locked.client_of("ada", &[Scope::Read]);
    ada.get("/a2a/desk/.well-known/agent-card.json")
        .await
        .is(200);
    ada.get("/a2a/secret/.well-known/agent-card.json")
        .await
        .is(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_reaches_its_own_tasks_and_does_what_its_scopes_let_it() {
    let desk = Desk::locked().await;
    let [ada, eve] = ["ada", "eve"].map(|name| desk.client_of(name, &[Scope::Read, Scope::Run]));
    let looks = desk.client_of("ada", &[Scope::Read]);
    for binding in ALL {
        let said = |what: &str| message(&format!("{what}-{binding:?}"), "ask name?");
        let task = binding.send(&ada, said("k")).await.unwrap();
        let id = json!({ "id": task["id"] });
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            let refused = binding.ask(&eve, method, id.clone()).await;
            assert_eq!(refused.unwrap_err(), "TASK_NOT_FOUND", "{method}");
        }
        let answer = to_task(&task, said("eve"));
        assert_eq!(
            binding.send(&eve, answer).await.unwrap_err(),
            "TASK_NOT_FOUND"
        );
        let list = binding.ask(&eve, "ListTasks", json!({})).await.unwrap();
        assert!(!list.to_string().contains(&text_at(&task, "/id")));
        // The same context and message of somebody else is another task.
        let same = in_context(&text_at(&task, "/contextId"), said("k"));
        let hers = binding.send(&eve, same).await.unwrap();
        assert_ne!(hers["id"], task["id"]);
        binding
            .ask(&eve, "CancelTask", json!({ "id": hers["id"] }))
            .await
            .unwrap();

        binding.ask(&looks, "GetTask", id.clone()).await.unwrap();
        assert_eq!(
            binding
                .ask(&looks, "CancelTask", id.clone())
                .await
                .unwrap_err(),
            "PERMISSION_DENIED"
        );
        binding.ask(&ada, "CancelTask", id).await.unwrap();
    }
    let body = json!({ "jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": { "message": message("x", "y") } });
    let refused = looks
        .request("POST", "/a2a/desk", VERSION, Some(&body.to_string()))
        .await
        .is(200);
    assert_eq!(
        text_at(&refused.json(), "/error/data/0/reason"),
        "PERMISSION_DENIED"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_none_are_refused_with_their_codes() {
    let desk = Desk::open().await;
    let rpc = |method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
    };
    let unknown = RunId::from_random(1).to_string();
    let good = json!({ "message": message("h-1", "well") });
    for (body, more, code) in [
        ("{".to_owned(), VERSION, -32700),
        ("[]".to_owned(), VERSION, -32600),
        (rpc("tasks/get", json!({})), VERSION, -32601),
        (rpc("SendMessage", good.clone()), "", -32009),
        (
            rpc("SendMessage", good.clone()),
            "A2A-Version: 0.3\r\n",
            -32009,
        ),
        (rpc("SendMessage", json!({})), VERSION, -32602),
        (rpc("SendMessage", json!({ "message": 7 })), VERSION, -32602),
        (
            rpc("SendMessage", json!({ "message": { "parts": [] } })),
            VERSION,
            -32602,
        ),
        (
            rpc("SendStreamingMessage", json!({ "message": {} })),
            VERSION,
            -32602,
        ),
        (rpc("GetTask", json!({ "id": unknown })), VERSION, -32001),
        (rpc("GetTask", json!({ "id": "../../x" })), VERSION, -32001),
        (rpc("GetTask", json!({})), VERSION, -32001),
        (rpc("CancelTask", json!({ "id": unknown })), VERSION, -32001),
        (
            rpc("SubscribeToTask", json!({ "id": unknown })),
            VERSION,
            -32001,
        ),
        (rpc("GetExtendedAgentCard", json!({})), VERSION, -32004),
        (
            rpc(
                "CreateTaskPushNotificationConfig",
                json!({ "taskId": unknown }),
            ),
            VERSION,
            -32001,
        ),
    ] {
        let answer = desk
            .client
            .request("POST", "/a2a/desk", more, Some(&body))
            .await
            .is(200);
        assert_eq!(answer.json()["error"]["code"], code, "{body}");
    }
    let mut pushed = good.clone();
    pushed["configuration"] =
        json!({ "taskPushNotificationConfig": { "url": "http://127.0.0.1:1" } });
    let refused = Binding::JsonRpc
        .ask(&desk.client, "SendMessage", pushed)
        .await;
    assert_eq!(refused.unwrap_err(), "PUSH_NOTIFICATION_NOT_SUPPORTED");

    let task = Binding::JsonRpc
        .send(&desk.client, message("h-2", "well"))
        .await
        .unwrap();
    let id = text_at(&task, "/id");
    for (method, path, status) in [
        ("GET", format!("/a2a/desk/tasks/{unknown}"), 404),
        ("GET", format!("/a2a/desk/tasks/{id}:dance"), 404),
        ("POST", format!("/a2a/desk/tasks/{id}"), 404),
        ("POST", format!("/a2a/desk/tasks/{id}:cancel"), 400),
        (
            "GET",
            format!("/a2a/desk/tasks/{id}/pushNotificationConfigs"),
            400,
        ),
        (
            "GET",
            format!("/a2a/desk/tasks/{unknown}/pushNotificationConfigs"),
            404,
        ),
        ("GET", "/a2a/desk/extendedAgentCard".to_owned(), 400),
        ("GET", "/a2a/nobody/tasks".to_owned(), 404),
        ("GET", "/a2a/secret/tasks".to_owned(), 404),
        ("GET", "/a2a/desk/tasks?pageSize=many".to_owned(), 400),
    ] {
        let answer = desk.client.request(method, &path, VERSION, None).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(
            answer.json()["error"]["details"][0]["reason"].is_string(),
            "{answer:?}"
        );
    }
    let path = "/a2a/desk/message:send";
    for (body, status) in [
        ("{", 400),
        ("[]", 400),
        ("7", 400),
        ("{}", 400),
        ("{\"message\":{}}", 400),
    ] {
        let answer = desk.client.request("POST", path, VERSION, Some(body)).await;
        assert_eq!(answer.status, status, "{body}");
    }
    let text = format!(
        "{}\r\n{{}}",
        desk.client.head(
            "POST",
            path,
            &format!("{VERSION}Content-Type: text/plain\r\nContent-Length: 2\r\n")
        )
    );
    assert_eq!(desk.client.send(text.as_bytes()).await.unwrap().status, 415);
    let deep = "[".repeat(100_000);
    let answer: Answer = desk
        .client
        .request("POST", "/a2a/desk", VERSION, Some(&deep))
        .await
        .is(200);
    assert_eq!(answer.json()["error"]["code"], -32700);
    assert_eq!(
        state(
            &Binding::JsonRpc
                .send(&desk.client, message("h-3", "well"))
                .await
                .unwrap()
        ),
        "completed"
    );
}

/// Two agents on one server, which the holder of a token may use.
async fn offices(token: &str) -> Client {
    let archive = Agent::from_fn("archive", obey).description("keeps papers");
    let vault = Agent::from_fn("vault", obey).reach(Reach::Hidden);
    let clerk = Agent::from_fn("clerk", obey).agent(archive);
    let office = Agent::from_fn("office", obey).agent(clerk).agent(vault);
    let post = Agent::from_fn("post", obey);
    let system = System::builder(InMemoryStore::new())
        .team(office.into_team().unwrap())
        .team(post.into_team().unwrap());
    let server = Server::new(system.start().await.unwrap())
        .token(token)
        .visibility("office", Visibility::Public);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    tokio::spawn(server.serve(listener, std::future::pending::<()>()));
    Client { to, key: None }
}

fn skills(card: &Value) -> Vec<String> {
    let skills = card["skills"].as_array().unwrap().iter();
    skills.map(|skill| text_at(skill, "/id")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_has_authenticated_sees_all_agents_of_a_team() {
    let nobody = offices("sesame-0123456789").await;
    let caller = Client {
        key: Some("sesame-0123456789".to_owned()),
        ..nobody.clone()
    };
    let card = nobody.get("/a2a/office/.well-known/agent-card.json").await;
    let card = card.is(200).json();
    assert_eq!(skills(&card), ["office", "clerk"]);
    assert_eq!(card["capabilities"]["extendedAgentCard"], true);
    assert!(card["securitySchemes"]["bearer"].is_object());

    // The other agent is shown to those alone who may use it, also where there are no keys but a token.
    let internal = "/a2a/post/.well-known/agent-card.json";
    nobody.get(internal).await.is(404);
    caller.get(internal).await.is(200);

    let place = "/a2a/office/extendedAgentCard";
    nobody.request("GET", place, VERSION, None).await.is(401);
    let all = ["office", "clerk", "clerk/archive", "vault"];
    let extended = caller.request("GET", place, VERSION, None).await.is(200);
    assert!(extended.headers["cache-control"].starts_with("private"));
    assert_eq!(skills(&extended.json()), all);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard" }).to_string();
    let answer = caller
        .request("POST", "/a2a/office", VERSION, Some(&body))
        .await
        .is(200)
        .json();
    assert_eq!(skills(&answer["result"]), all);
    let of = json!({ "tenant": "office" });
    let answer = a2a_grpc::ask(&caller, "GetExtendedAgentCard", of.clone()).await;
    assert_eq!(skills(&answer.unwrap()), all);
    let refused = a2a_grpc::ask(&nobody, "GetExtendedAgentCard", of).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::Unauthenticated);

    // Where nobody authenticates there is no such card, and the card says so.
    let desk = Desk::open().await;
    let card = desk
        .client
        .get("/a2a/desk/.well-known/agent-card.json")
        .await;
    let card = card.is(200).json();
    assert_eq!(card["capabilities"]["extendedAgentCard"], false);
    for binding in [Binding::JsonRpc, Binding::Grpc] {
        let refused = binding
            .ask(&desk.client, "GetExtendedAgentCard", json!({}))
            .await;
        assert_eq!(refused.unwrap_err(), "UNSUPPORTED_OPERATION");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_agents_of_one_server_keep_their_tasks_apart() {
    let nobody = offices("sesame-0123456789").await;
    let caller = Client {
        key: Some("sesame-0123456789".to_owned()),
        ..nobody
    };
    // A server of several agents has no card of its own.
    caller.get("/.well-known/agent-card.json").await.is(404);
    let unnamed = a2a_grpc::ask(&caller, "ListTasks", json!({ "tenant": "" })).await;
    assert_eq!(a2a_grpc::reason(&unnamed.unwrap_err()), "INVALID_PARAMS");
    let said = json!({ "tenant": "post", "message": message("m", "well") });
    let sent = a2a_grpc::ask(&caller, "SendMessage", said).await.unwrap();
    let id = text_at(&sent, "/task/id");
    let place = |team: &str| format!("/a2a/{team}/tasks/{id}");
    let own = caller.request("GET", &place("post"), VERSION, None).await;
    own.is(200);
    let other = caller.request("GET", &place("office"), VERSION, None).await;
    other.is(404);
    let other = json!({ "tenant": "office", "id": id });
    let other = a2a_grpc::ask(&caller, "GetTask", other).await.unwrap_err();
    assert_eq!(a2a_grpc::reason(&other), "TASK_NOT_FOUND");
    let list = json!({ "tenant": "office" });
    let list = a2a_grpc::ask(&caller, "ListTasks", list).await.unwrap();
    assert_eq!(list["totalSize"], 0);
}
