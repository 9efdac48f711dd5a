//! The page for people, in a real browser over the real command: what it shows, and what clicks on it do, also while the
//! server is killed and started again.

use std::time::Duration;

use ghostlight::tools::tool_fn;
use ghostlight_actors::{
    contract::ModelHandle,
    run::{BehaviorHandle, Registry, RunContext, operations::Subscription},
    testing::{Script, ScriptedModel},
    vocabulary::{AgentError, Effect, Outcome, ToolCall, ToolDefinition},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Journey {
    from: String,
    to: String,
}

#[derive(Deserialize, JsonSchema)]
struct Town {
    town: String,
}

#[derive(Deserialize, JsonSchema)]
struct Booking {
    what: String,
    price: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Dawdle {}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

/// What the teams of these tests are made of: a model that follows its script, tools of a travel agency, and a function
/// that does what its input says.
pub(crate) fn register(registry: Registry) -> Registry {
    let definition = ToolDefinition::new;
    let slowly = |ms| tokio::time::sleep(Duration::from_millis(ms));
    registry
        .provider("scripted", |settings| {
            let script: Script = serde_json::from_value(settings["script"].clone())
                .map_err(|error| error.to_string())?;
            let ms = |name: &str| Duration::from_millis(settings[name].as_u64().unwrap_or(0));
            let model = ScriptedModel::script(script).delay(ms("delay_ms"));
            Ok(ModelHandle::new(model.piece_delay(ms("piece_ms"))))
        })
        .tool(tool_fn(
            definition("find_trains", "Finds trains.").effect(Effect::Read),
            move |asked: Journey| async move {
                slowly(90).await;
                Ok(format!(
                    "{} to {}: 08:12, 49.90; 10:12, 29.90",
                    asked.from, asked.to
                ))
            },
        ))
        .tool(tool_fn(
            definition("find_rooms", "Finds rooms.").effect(Effect::Read),
            move |asked: Town| async move {
                slowly(140).await;
                Ok(format!(
                    "{}: Blue Pike, 118 a night; Old Mill, 94 a night",
                    asked.town
                ))
            },
        ))
        .tool(tool_fn(
            definition("book", "Books something and pays for it."),
            move |asked: Booking| async move {
                slowly(40).await;
                Ok(format!("booked {} for {}", asked.what, asked.price))
            },
        ))
        .tool(tool_fn(
            definition("echo", "Says it again.").effect(Effect::Read),
            |asked: Echo| async move { Ok(asked.text) },
        ))
        .tool(tool_fn(
            definition("dawdle", "Takes an hour.").effect(Effect::Read),
            move |_: Dawdle| async move {
                slowly(3_600_000).await;
                Ok("done at last".to_owned())
            },
        ))
        .behavior("stage", |_: &Value| {
            Ok(BehaviorHandle::from_fn(|cx| Box::pin(stage(cx))))
        })
}

/// Does what its input says.
async fn stage(cx: RunContext) -> Result<Outcome, AgentError> {
    let told = cx.input().content();
    let (word, rest) = told.split_once(' ').unwrap_or((&told, ""));
    let number = || rest.parse::<u64>().map_err(AgentError::failed);
    match word {
        "count" => {
            for count in 0..number()? {
                cx.emit("counted", &count);
            }
        }
        "tick" => {
            for _ in 0..number()? {
                cx.sleep(Duration::from_millis(40)).await?;
                cx.emit("tick", &cx.now().await?.0);
            }
        }
        "wait" => cx.sleep(Duration::from_secs(36_000)).await?,
        "long" => return Ok(Outcome::answer("word ".repeat(1000))),
        "ask" => {
            let answer = cx.ask(rest).await?;
            return Ok(Outcome::answer(format!("answered {answer}")));
        }
        "stumble" => assert!(std::path::Path::new(rest).exists(), "stumbles"),
        "think" => {
            let said = cx.model(cx.model_request(cx.conversation())).await?;
            let instructions = &cx.agent().instructions;
            let said = said.content();
            return Ok(Outcome::answer(format!("{said}, {instructions}")));
        }
        "flow" => return Ok(Outcome::answer(cx.delegate("flow", rest).await?.text)),
        "loop" => {
            // As a tree of goals tells of its own nodes, which are no steps of a graph.
            cx.emit("node", &json!({ "goal": told, "is": "begun" }));
            for number in 0..number()? {
                let text = json!({ "text": number.to_string() });
                cx.tool(ToolCall::new("c", "echo", text)).await?;
            }
        }
        "dawdle" => {
            // The page that is to cancel the call hears of it while it is under way.
            cx.sleep(Duration::from_millis(1500)).await?;
            let call = ToolCall::new("c", "dawdle", json!({}));
            let beside = async {
                for _ in 0..number()? {
                    cx.sleep(Duration::from_millis(20)).await?;
                    cx.emit("tick", &());
                }
                Ok::<_, AgentError>(())
            };
            let (called, ticked) = tokio::join!(cx.tool(call), beside);
            ticked?;
            let called = called.map_or_else(|error| error.to_string(), |result| result.text);
            return Ok(Outcome::answer(format!("went on: {called}")));
        }
        "publish" => {
            let topic = cx.topic::<String>("news");
            let queue = Subscription::new("readers").capacity(4);
            topic.subscribe(queue).await?;
            topic.publish(&rest.to_owned()).await?;
            cx.ask("Was it read?").await?;
        }
        #[cfg(feature = "full")]
        "utter" => {
            let texts: Vec<String> = serde_json::from_str(rest).map_err(AgentError::failed)?;
            return utter(&cx, &texts).await;
        }
        #[cfg(feature = "full")]
        "remember" => {
            use ghostlight::memory::{Memory, MemoryScope, NewMemory};
            let memory = Memory::new("memory");
            memory
                .on(&cx, MemoryScope::Team)
                .add(NewMemory::fact(rest))
                .await?;
        }
        _ => {
            return Err(AgentError::failed(format!(
                "{word:?} is no word of the stage"
            )));
        }
    }
    Ok(Outcome::answer(format!("did {told}")))
}

/// Says these texts in every place where the page shows one: events, tools, topics, artifacts, memories, a question, an error.
#[cfg(feature = "full")]
async fn utter(cx: &RunContext, texts: &[String]) -> Result<Outcome, AgentError> {
    use ghostlight::memory::{Memory, MemoryScope, NewMemory};
    use ghostlight_actors::vocabulary::{Question, Scope};
    let memory = Memory::new("memory");
    for (number, text) in texts.iter().enumerate() {
        cx.emit(text.clone(), text);
        cx.tool(ToolCall::new("c", text.as_str(), json!({ text: text })))
            .await?;
        if number % 3 == 0 {
            let file = cx.artifacts(Scope::Session);
            // A name that cannot be one is refused.
            let _ = file
                .save(text.as_str(), "text/plain", b"x".as_slice())
                .await;
            let fact = NewMemory::fact(format!("{number} {text}"));
            memory.on(cx, MemoryScope::Team).add(fact).await?;
        }
        if number < 20 {
            let topic = cx.topic::<String>(text.as_str());
            topic.subscribe(Subscription::new(text.as_str())).await?;
            topic.publish(text).await?;
        }
    }
    let all = texts.join(" ");
    cx.ask(Question::choice(
        all.as_str(),
        texts.iter().take(30).cloned(),
    ))
    .await?;
    Err(AgentError::failed(all))
}

#[cfg(all(unix, feature = "full"))]
mod in_a_browser {
    use std::{
        env, fs,
        io::{BufRead as _, BufReader, Read as _, Write as _},
        net::TcpListener,
        path::{Path, PathBuf},
        process::{Command, Stdio},
        thread,
    };

    use serde_json::{Value, json};

    use crate::own_command::{Desk, Started};

    #[cfg(feature = "full")]
    mod workflows;

    /// Where playwright-core and axe-core are; `None` where these tests are left out.
    fn browser() -> Option<PathBuf> {
        if env::var_os("GHOSTLIGHT_SKIP_BROWSER").is_some_and(|skip| skip == "1") {
            eprintln!("left out, because GHOSTLIGHT_SKIP_BROWSER=1");
            return None;
        }
        let home = env::var_os("GHOSTLIGHT_BROWSER").map(PathBuf::from);
        Some(home.expect(
            "GHOSTLIGHT_BROWSER names the folder of playwright-core that ./test makes; \
             GHOSTLIGHT_SKIP_BROWSER=1 leaves these tests out",
        ))
    }

    /// A folder below `target/` in which the pictures of a test are kept.
    fn pictures(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("page")
            .join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn free() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    }

    fn serve(desk: &Desk, at: &str) -> Started {
        let mut serving = desk.start(&["serve", "team.yaml", "--listen", at]);
        serving.says("listens at");
        serving
    }

    /// Lets the script `tests/cli/page/NAME.mjs` drive a browser, and does what it asks for in between: a line of its
    /// output that begins with `> ` is a word for `does`. Everything else that it prints is what it measured.
    fn drive(home: &Path, name: &str, arguments: &Value, mut does: impl FnMut(&str)) -> String {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/page/{name}.mjs"));
        let mut node = Command::new("node")
            .arg(script)
            .arg(arguments.to_string())
            .env("GHOSTLIGHT_BROWSER", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("node starts");
        let mut input = node.stdin.take().unwrap();
        let mut errors = node.stderr.take().unwrap();
        let errors = thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        let mut printed = String::new();
        for line in BufReader::new(node.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            match line.strip_prefix("> ") {
                Some(word) => {
                    does(word);
                    writeln!(input, "done").unwrap();
                }
                None => printed += &format!("{line}\n"),
            }
        }
        let status = node.wait().unwrap();
        let errors = errors.join().unwrap();
        assert!(
            status.success(),
            "{name}.mjs: {status}\n{printed}\n{errors}"
        );
        eprintln!("{printed}");
        printed
    }

    fn scripted(delay_ms: u64, replies: Value) -> Value {
        let script = json!({ "order": "turns", "replies": replies, "repeat_last": true,
            "usage": { "input_tokens": 812, "output_tokens": 64, "cost_micros": 2_310 } });
        json!({ "provider": "scripted", "delay_ms": delay_ms, "piece_ms": 8, "script": script })
    }

    /// A travel agency: two agents look for trains and rooms side by side, and a person approves the booking.
    fn trip() -> Value {
        let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
        json!({
            "name": "trip",
            "models": {
                "planner": scripted(160, json!([
                    { "calls": [
                        call("delegate_to_trains", json!({ "task": "Trains from Berlin to Ulm on Friday" })),
                        call("delegate_to_rooms", json!({ "task": "A room in Ulm for two nights" })),
                    ] },
                    { "calls": [call("book", json!({ "what": "train 10:12 and two nights at the Old Mill", "price": 217.9 }))] },
                    { "text": "You take the 10:12 to Ulm on Friday for 29.90 and stay two nights at the Old Mill for 188, \
                               both for 217.90 together. That leaves 182.10 of your 400 euro." },
                ])),
                "searcher": scripted(110, json!([
                    { "calls": [call("find_trains", json!({ "from": "Berlin", "to": "Ulm" }))] },
                    { "text": "The 10:12 is the cheaper one: 29.90." },
                ])),
                "host": scripted(70, json!([
                    { "calls": [call("find_rooms", json!({ "town": "Ulm" }))] },
                    { "text": "The Old Mill is quiet and costs 94 a night." },
                ])),
            },
            "budget": { "model_calls": 20 },
            "agent": {
                "name": "planner", "model": "planner", "description": "Plans a trip and books it.", "stream": true,
                "tools": ["book"], "approval": { "book": { "prompt": "Shall I book {what} for {price} euro?" } },
                "agents": [
                    { "name": "trains", "model": "searcher", "description": "Knows trains.", "reach": "delegate", "tools": ["find_trains"] },
                    { "name": "rooms", "model": "host", "description": "Knows hotels.", "reach": "delegate", "tools": ["find_rooms"] },
                ],
            },
        })
    }

    #[test]
    fn a_team_is_run_watched_approved_steered_forked_and_cancelled_by_clicks() {
        let Some(home) = browser() else { return };
        let desk = Desk::new("stage", json!({}));
        desk.write("team.yaml", &trip().to_string());
        let at = free();
        let mut serving = Some(serve(&desk, &at));
        let arguments = json!({ "at": format!("http://{at}"), "pictures": pictures("trip") });
        drive(&home, "trip", &arguments, |word| match word {
            // Killed in the middle of a run, with the page open; the page is to go on by itself.
            "kill" => {
                let killed = serving.take().unwrap();
                killed.signal("KILL");
                killed.ends();
            }
            "serve" => serving = Some(serve(&desk, &at)),
            word => panic!("{word:?}"),
        });
        let done = serving.take().unwrap();
        done.signal("INT");
        done.ends().exits(0);
    }

    /// Each button that the trip does not press, pressed as slowly as people do while the page is drawn anew, and all
    /// that can be written or opened, which is to stay there meanwhile.
    #[cfg(feature = "full")]
    #[test]
    fn every_button_is_pressed_and_nothing_that_a_person_writes_or_opens_is_lost() {
        let Some(home) = browser() else { return };
        let desk = Desk::new("stage", json!({}));
        let gate = desk.path("mended");
        let team = json!({
            "name": "desk",
            "models": {
                "default": scripted(0, json!([{ "text": "small" }])),
                "other": scripted(0, json!([{ "text": "large" }])),
            },
            "agent": {
                "name": "desk", "behavior": "stage", "instructions": "be kind",
                "tools": ["dawdle", "echo"], "memory": { "team": "write" },
                "agents": [{
                    "name": "flow", "reach": "hidden",
                    "behavior": { "name": "graph", "entry": "draft", "nodes": {
                        "draft": { "agent": "writer", "prompt": "ask is it drafted?", "then": "judge" },
                        "judge": { "agent": "critic", "prompt": "tick 1", "then": [
                            { "when": { "contains": { "judge": "did" } }, "to": "end" }, { "to": "draft" },
                        ] },
                    } },
                    "agents": [
                        { "name": "writer", "behavior": "stage" }, { "name": "critic", "behavior": "stage" },
                    ],
                }],
            },
        });
        desk.write("team.yaml", &team.to_string());
        let at = free();
        let serving = serve(&desk, &at);
        let layout = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/page/layout.json");
        let arguments = json!({
            "at": format!("http://{at}"), "pictures": pictures("buttons"), "gate": gate, "layout": layout,
        });
        drive(&home, "buttons", &arguments, |word| match word {
            "mend" => desk.write("mended", ""),
            word => panic!("{word:?}"),
        });
        serving.signal("INT");
        serving.ends().exits(0);
    }

    #[test]
    fn of_ten_thousand_entries_only_those_that_are_seen_are_in_the_document() {
        let Some(home) = browser() else { return };
        let desk = Desk::new("stage", json!({}));
        let at = free();
        let _serving = serve(&desk, &at);
        let given = json!({ "at": format!("http://{at}"), "pictures": pictures("large") });
        drive(&home, "large", &given, |word| panic!("{word:?}"));
    }

    #[cfg(feature = "full")]
    /// Texts that would act if they were read as markup, as an address or by a terminal.
    fn hostile() -> Vec<String> {
        let acts = "window.hacked=1";
        let mut all: Vec<String> = [
            "<script>ACT</script>",
            "<img src=x onerror=ACT>",
            "<svg onload=ACT>",
            "<svg><script>ACT</script></svg>",
            "<iframe srcdoc='<script>parent.ACT</script>'></iframe>",
            "<a href='javascript:ACT'>click</a>",
            "javascript:ACT",
            "\"><script>ACT</script>",
            "'><img src=x onerror=ACT>",
            "</textarea><script>ACT</script>",
            "</pre><script>ACT</script>",
            "</title><script>ACT</script>",
            "<style>*{display:none}</style>",
            "<link rel=stylesheet href=//evil.example/x.css>",
            "<base href=//evil.example/>",
            "<meta http-equiv=refresh content='0;//evil.example'>",
            "<form action=//evil.example><input name=q></form>",
            "<object data=//evil.example></object>",
            "<embed src=//evil.example>",
            "<math><mtext><script>ACT</script></mtext></math>",
            "<details open ontoggle=ACT>",
            "<body onload=ACT>",
            "<input autofocus onfocus=ACT>",
            "<video><source onerror=ACT></video>",
            "<audio src=x onerror=ACT>",
            "<template><script>ACT</script></template>",
            "<!--<script>ACT</script>-->",
            "<![CDATA[<script>ACT</script>]]>",
            "${ACT}",
            "{{constructor.constructor('ACT')()}}",
            "`);ACT;//",
            "\\u003cscript\\u003eACT\\u003c/script\\u003e",
            "&lt;script&gt;ACT&lt;/script&gt;",
            "%3Cscript%3EACT%3C/script%3E",
            "\u{1b}]0;title\u{7}\u{1b}[2J\u{1b}[31mred",
            "\u{202e}txt.exe\u{202c}",
            "\u{2066}\u{2067}turned\u{2069}",
            "\u{feff}begins with a mark",
            "\u{0}nul\u{8}back",
            "a\rb\r\nc",
            "\u{9b}31mC1",
            "e\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}",
            "👩‍👩‍👧‍👦🏳️‍🌈",
            "שלום עולם",
            "مرحبا <b>بالعالم</b>",
            "__proto__",
            "constructor",
            "toString",
            "<template shadowrootmode=open><slot></template>",
            "data:text/html,<script>ACT</script>",
        ]
        .map(|text| text.replace("ACT", acts))
        .into();
        all.push("x".repeat(200_000));
        all.push("word ".repeat(20_000));
        all.push("\n".repeat(5_000));
        let more: Vec<String> = (0..)
            .map(|n| format!("<b id=b{n} onclick='{acts}'>{n}</b>"))
            .take(100 - all.len())
            .collect();
        all.extend(more);
        all
    }

    #[cfg(feature = "full")]
    #[test]
    fn a_hundred_hostile_texts_of_a_model_are_shown_as_text() {
        let Some(home) = browser() else { return };
        let desk = Desk::new("stage", json!({}));
        let texts = hostile();
        assert_eq!(texts.len(), 100);
        let calls: Vec<Value> = texts
            .iter()
            .map(|text| json!({ "name": "echo", "arguments": { "text": text } }))
            .collect();
        let answer: String = texts
            .iter()
            .filter(|text| text.len() < 500)
            .map(|text| format!("{text}\n"))
            .collect();
        let model = scripted(0, json!([{ "calls": calls }, { "text": answer }]));
        let agent = json!({ "name": "desk", "description": texts[0], "tools": ["echo"] });
        let team = json!({ "models": { "default": model }, "agent": agent });
        desk.write("team.yaml", &workflows::as_yaml(&team));
        let at = free();
        let _serving = serve(&desk, &at);
        // Another team says them in every other place: as titles, names, questions, errors.
        let stage = Desk::new("stage", json!({}));
        let uttering =
            json!({ "name": "desk", "behavior": "stage", "memory": { "team": "write" } });
        stage.write(
            "team.yaml",
            &json!({ "name": "desk", "agent": uttering }).to_string(),
        );
        let at_stage = free();
        let _uttering = serve(&stage, &at_stage);
        let short: Vec<&String> = texts.iter().filter(|text| text.len() < 500).collect();
        let arguments = json!({
            "at": format!("http://{at}"), "pictures": pictures("hostile"), "texts": texts.len(),
            "said": texts[1], "stage": format!("http://{at_stage}"), "short": short,
        });
        drive(&home, "hostile", &arguments, |word| panic!("{word:?}"));
    }

    #[cfg(feature = "full")]
    #[test]
    fn an_evaluation_is_looked_at_cell_by_cell_and_by_two_variants() {
        let Some(home) = browser() else { return };
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let suite = format!("{examples}/evals/desk.yaml");
        let team = format!("{examples}/teams/helpdesk.yaml");
        let desk = Desk::new("stage", json!({}));
        let told = desk.shipped(&["eval", &suite]).exits(0).out;
        let base = told.lines().find_map(|line| line.strip_prefix("base "));
        let (success, _) = base.unwrap().trim().split_once('%').unwrap();
        let success = format!("{success}%");
        let at = free();
        let mut serving = desk.start_shipped(&["serve", &team, "--listen", &at, "--eval", &suite]);
        serving.says("listens at");
        let arguments = json!({
            "at": format!("http://{at}"), "pictures": pictures("evaluations"), "success": success,
        });
        drive(&home, "evaluations", &arguments, |word| panic!("{word:?}"));
        serving.signal("INT");
        serving.ends().exits(0);
    }

    /// A finished store is shown without a server that is set up, and nobody gets in without the token.
    #[test]
    fn a_finished_store_is_opened_with_a_token_that_becomes_a_cookie() {
        let Some(home) = browser() else { return };
        let desk = Desk::new("says", json!({ "text": "hello" }));
        desk.run(&["run", "team.yaml", "Good morning"]).exits(0);
        let run = desk.only_run();
        // One that waits, and that no process carries.
        desk.write(
            "team.yaml",
            &json!({ "agent": { "name": "stage", "behavior": "stage" } }).to_string(),
        );
        let waits = desk.run(&["run", "team.yaml", "ask who goes there?", "--json"]);
        assert!(waits.out.contains("who goes there?"), "{waits:?}");
        let mut opened = desk.start(&["store", "open", &run]);
        let mut lines = BufReader::new(opened.0.stdout.as_mut().unwrap()).lines();
        let address = lines
            .find_map(|line| Some(line.unwrap()).filter(|line| line.contains("http://127.0.0.1:")));
        let address = address.expect("an address");
        let arguments = json!({ "at": address.trim(), "pictures": pictures("opened") });
        drive(&home, "opened", &arguments, |word| panic!("{word:?}"));
        opened.signal("INT");
        opened.ends().exits(0);
    }
}
