//! Prometheus asks a server what its agents do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ghostlight::{
    contract::{DynStore, RunStatus},
    opentelemetry::Prometheus,
    server::Server,
};
use regex::Regex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use super::*;

/// Names that would break the text or add series without end.
const HOSTILE: [&str; 2] = ["evil\"} 1\nup{x=\"y", "made_up_by_the_model"];
const OF_THE_CALLER: &str = "made_up_by_the_caller";

/// Every series of a text with its value. The text must be as strict readers want it.
#[track_caller]
fn parse(text: &str) -> BTreeMap<String, f64> {
    let sample = r#"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*")*)\})? ([0-9.e+-]+)$"#;
    let sample = Regex::new(sample).unwrap();
    assert!(text.ends_with('\n'));
    let (mut series, mut families, mut family) = (BTreeMap::new(), BTreeSet::new(), ("", ""));
    for line in text.lines() {
        if let Some(told) = line.strip_prefix("# HELP ") {
            let (name, help) = told.split_once(' ').unwrap();
            assert!(!help.is_empty() && families.insert(name), "{line}");
            family = (name, "");
        } else if let Some(told) = line.strip_prefix("# TYPE ") {
            let (name, kind) = told.split_once(' ').unwrap();
            assert_eq!(family, (name, ""), "a type stands below its help");
            family.1 = kind;
        } else {
            let found = sample.captures(line).unwrap_or_else(|| panic!("{line:?}"));
            let part = found[1].strip_prefix(family.0);
            match family.1 {
                "counter" => assert!(part == Some("") && found[1].ends_with("_total"), "{line}"),
                "gauge" => assert_eq!(part, Some(""), "{line}"),
                "histogram" => assert!(
                    matches!(part, Some("_bucket" | "_sum" | "_count")),
                    "{line}"
                ),
                other => panic!("{other:?} before {line}"),
            }
            let (key, value) = line.rsplit_once(' ').unwrap();
            let earlier = series.insert(key.to_owned(), value.parse().unwrap());
            assert_eq!(earlier, None, "{line} stands there twice");
        }
    }
    for (key, all) in &series {
        // Buckets grow up to the count of all.
        let Some(of) = key.strip_suffix(",le=\"+Inf\"}") else {
            continue;
        };
        let buckets = text.lines().filter(|line| line.starts_with(of));
        let mut values =
            buckets.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap());
        assert!(values.clone().is_sorted() && values.next_back() == Some(*all));
        let count = format!("{}}}", of.replacen("_bucket", "_count", 1));
        assert_eq!(series.get(&count), Some(all), "{count}");
    }
    series
}

/// The sum over all series of a name that have these labels.
fn sum(series: &BTreeMap<String, f64>, name: &str, labels: &[&str]) -> f64 {
    let of_name = series
        .iter()
        .filter(|(key, _)| key.split('{').next() == Some(name));
    let found = of_name.filter(|(key, _)| labels.iter().all(|label| key.contains(label)));
    found.map(|(_, value)| value).sum()
}

/// A server, as programs make one of the two packages.
struct Served {
    at: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
}

impl Served {
    async fn of(system: &System) -> Self {
        let agents = Arc::new(Prometheus::new(system.clone()));
        let server = Server::new(system.clone()).metrics(move || {
            let agents = agents.clone();
            async move { agents.text().await.unwrap() }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(server.serve(listener, stopped));
        Self { at, stop }
    }

    async fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(self.at).await.unwrap();
        let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        body.to_owned()
    }

    /// Asks until so many runs are counted that ended or were parked.
    async fn until(&self, runs: f64) -> BTreeMap<String, f64> {
        loop {
            let series = parse(&self.scrape().await);
            let counted = [
                "ghostlight_runs_ended_total",
                "ghostlight_runs_parked_total",
            ];
            let counted: f64 = counted.iter().map(|name| sum(&series, name, &[])).sum();
            assert!(counted <= runs, "{series:#?}");
            if counted == runs {
                return series;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_scrape_counts_what_agents_did_by_names_that_their_teams_define() {
    let fails = Agent::from_fn("fails", |_: RunContext| async move {
        Err::<Outcome, _>(AgentError::failed("no password=hunter22hunter22"))
    });
    let breaks = Agent::from_fn("breaks", |_: RunContext| async move {
        panic!("password=hunter22hunter22");
        #[allow(unreachable_code)]
        Ok::<Outcome, AgentError>(Outcome::answer(""))
    });
    let wrong = Agent::new("wrong").model(model([
        calls("w1", HOSTILE[0], json!({})),
        calls("w2", HOSTILE[1], json!({})),
        calls("w3", OF_THE_CALLER, json!({})),
        ModelResponse::text("it failed"),
    ]));
    let waits = Agent::new("waits").model(ScriptedModel::hanging());
    let builder = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
    let builder = [fails, breaks, wrong, waits]
        .into_iter()
        .fold(builder.team(desk()), |builder, agent| {
            builder.team(agent.into_team().unwrap())
        });
    let system = builder.start().await.unwrap();
    let served = Served::of(&system).await;
    let first = parse(&served.scrape().await);
    assert_eq!(first["ghostlight_live_runs"], 0.0);
    assert_eq!(
        first["ghostlight_actor_restarts_total{actor=\"committer\"}"],
        0.0
    );

    let say = async |team: &str, turn: Turn| {
        let run = system.session(team, "s").send(turn).await.unwrap();
        run.wait().await.unwrap();
        run
    };
    say("desk", Turn::text("1 + 2?")).await;
    say("fails", Turn::text("go")).await;
    let called = Turn::text("go").tool(ToolDefinition::new(OF_THE_CALLER, "brought along"));
    let wrong = say("wrong", called).await;
    let open = wrong.questions().await.unwrap();
    wrong.answer(open[0].1, json!("done")).await.unwrap();
    wrong.outcome().await.unwrap();
    let waits = system.session("waits", "s").send("go").await.unwrap();
    waits.cancel("enough of hunter22hunter22").await.unwrap();
    waits.outcome().await.unwrap();
    let parked = say("breaks", Turn::text("go")).await;
    assert_eq!(parked.status().await.unwrap().status, RunStatus::Parked);

    // Three of the desk's team, and the four others.
    let series = served.until(7.0).await;
    let count = |name: &str, labels: &[&str]| sum(&series, name, labels);
    let ended = |agent: &str, end: &str| {
        let agent = format!("gen_ai_agent_name=\"{agent}\"");
        let end = format!("ghostlight_run_end=\"{end}\"");
        count("ghostlight_runs_ended_total", &[&agent, &end])
    };
    for agent in ["desk", "accountant", "checker", "wrong"] {
        assert_eq!(ended(agent, "answered"), 1.0, "{agent}");
    }
    assert_eq!(ended("fails", "failed"), 1.0);
    assert_eq!(ended("waits", "cancelled"), 1.0);
    let breaks = ["gen_ai_agent_name=\"breaks\"", "ghostlight_team=\"breaks\""];
    assert_eq!(count("ghostlight_runs_parked_total", &breaks), 1.0);
    assert!(count("ghostlight_runs_restarted_total", &breaks) >= 1.0);
    // Six calls of the desk's team and four of the other; one was cancelled.
    let answered = 10.0;
    let duration = "gen_ai_client_operation_duration_seconds_count";
    assert_eq!(count(duration, &["gen_ai_request_model"]), answered + 1.0);
    assert_eq!(count(duration, &["error_type=\"cancelled\""]), 1.0);
    assert_eq!(count("ghostlight_model_attempts_total", &[]), answered);
    let tokens = "gen_ai_client_token_usage_sum";
    let of_type = |kind: &str| count(tokens, &[&format!("gen_ai_token_type=\"{kind}\"")]);
    assert_eq!(of_type("input"), 30.0 * answered);
    assert_eq!(of_type("output"), 7.0 * answered);
    let cost = "ghostlight_usage_cost_micros_total";
    assert_eq!(count(cost, &[]), 11.0 * answered);
    let tools = "gen_ai_execute_tool_duration_seconds_count";
    assert_eq!(count(tools, &["gen_ai_tool_name=\"add\""]), 1.0);
    let unknown = ["gen_ai_tool_name=\"_OTHER\""];
    assert_eq!(count(tools, &unknown), 3.0, "{series:#?}");
    assert_eq!(count(tools, &[unknown[0], "error_type=\"error\""]), 2.0);
    let text = served.scrape().await;
    for said in HOSTILE
        .into_iter()
        .chain([OF_THE_CALLER, "evil", "hunter22"])
    {
        assert!(!text.contains(said), "{said} is in the text");
    }
    assert!(!text.contains(&wrong.id().to_string()));
    let _ = served.stop.send(());
}

#[tokio::test]
async fn counts_wait_for_no_collector_and_are_those_of_one_process_for_all() {
    let collector = Collector::start(Answer::Hangs).await;
    let store = InMemoryStore::new();
    let other = system(&store.another_process(), desk()).await;
    let system = system(&store, desk()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let served = Served::of(&system).await;
    served.scrape().await;
    let run = system.session("desk", "ada").send("1 + 2?").await.unwrap();
    run.outcome().await.unwrap();
    served.until(3.0).await;
    // Another process that is asked counts nothing a second time.
    let again = Served::of(&other).await;
    for _ in 0..20 {
        served.until(3.0).await;
        let series = parse(&again.scrape().await);
        assert_eq!(sum(&series, "ghostlight_runs_ended_total", &[]), 0.0);
    }
    drop(following);
}

#[tokio::test]
async fn a_store_of_which_nobody_asks_is_not_followed() {
    let store = InMemoryStore::new();
    let system = system(&store, desk()).await;
    let served = Served::of(&system).await;
    let run = system.session("desk", "ada").send("1 + 2?").await.unwrap();
    run.outcome().await.unwrap();
    let scope = async || store.scope("prometheus-exporter".to_owned()).await.unwrap();
    assert!(scope().await.is_empty());
    served.scrape().await;
    assert!(!scope().await.is_empty());
}
