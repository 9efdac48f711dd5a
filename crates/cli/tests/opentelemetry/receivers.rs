//! Collectors that take nothing, and much to export.

use super::*;

async fn ask(system: &System, number: usize) -> ghostlight::vocabulary::RunId {
    let session = system.session("desk", format!("s{number}"));
    let run = session.send("1 + 2?").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "it is 3");
    run.id()
}

#[tokio::test]
async fn a_collector_that_hangs_or_is_not_there_delays_no_run_and_nothing_is_lost() {
    let store = InMemoryStore::new();
    let mut hanging = Collector::start(Answer::Hangs).await;
    let first = system(&store, desk()).await;
    let telemetry = OpenTelemetry::over_http(&hanging.endpoint).unwrap();
    let following = telemetry.follow(&first).await.unwrap();
    ask(&first, 0).await;
    hanging.asked().await;
    // The exporter waits for its answer from here on, and runs end all the same.
    for number in 1..20 {
        ask(&first, number).await;
    }
    assert!(hanging.spans().is_empty());
    drop(following);
    first.stop().await.unwrap();

    // Nobody listens at this address.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let second = system(&store.another_process(), desk()).await;
    let telemetry = OpenTelemetry::over_http(&nowhere).unwrap();
    let following = telemetry.follow(&second).await.unwrap();
    for number in 20..40 {
        ask(&second, number).await;
    }
    drop(following);
    second.stop().await.unwrap();

    // What none of them took is in the store.
    let collector = Collector::start(Answer::Takes).await;
    let third = system(&store.another_process(), desk()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&third).await.unwrap();
    following.flush().await.unwrap();
    check_whole(&collector.spans());
    assert_eq!(collector.spans().len(), 40 * 12);
}

#[tokio::test]
async fn what_a_collector_refuses_is_counted_and_not_sent_again() {
    let mut collector = Collector::start(Answer::Status(400)).await;
    let system = system(&InMemoryStore::new(), desk()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    ask(&system, 0).await;
    following.flush().await.unwrap();
    collector.asked().await;
    collector.answers(Answer::Takes);
    ask(&system, 1).await;
    following.flush().await.unwrap();
    assert_eq!(collector.spans().len(), 12, "those of the second run");
    let dropped = collector.points("ghostlight.spans.dropped");
    assert_eq!(dropped.iter().map(|(.., spans)| spans).sum::<f64>(), 12.0);
}

#[tokio::test]
async fn what_a_collector_is_too_busy_for_is_sent_again() {
    let mut collector = Collector::start(Answer::Status(503)).await;
    let system = system(&InMemoryStore::new(), desk()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let _following = telemetry.follow(&system).await.unwrap();
    ask(&system, 0).await;
    collector.asked().await;
    collector.answers(Answer::Takes);
    collector.until(|spans| spans.len() == 12).await;
    check_whole(&collector.spans());
}

#[tokio::test]
async fn runs_that_had_ended_before_are_no_news_and_those_that_begin_are() {
    let collector = Collector::start(Answer::Takes).await;
    let system = system(&InMemoryStore::new(), desk()).await;
    ask(&system, 0).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    // The clock of the record counts milliseconds.
    let clock = ghostlight::contract::SystemClock::new();
    ghostlight::contract::Clock::sleep(&clock, std::time::Duration::from_millis(2)).await;
    let following = telemetry.follow(&system).await.unwrap();
    let run = ask(&system, 1).await;
    following.flush().await.unwrap();
    let spans = collector.spans();
    assert_eq!(spans.len(), 12);
    let trace = run.to_string().replace('-', "");
    assert!(spans.iter().all(|span| hex(&span.trace_id) == trace));
}

#[tokio::test]
async fn two_thousand_steps_and_hundreds_of_runs_are_exported_whole() {
    const STEPS: usize = 2_000;
    const RUNS: usize = 300;
    let collector = Collector::start(Answer::Takes).await;
    let long = Agent::from_fn("long", |cx: RunContext| async move {
        for _ in 0..STEPS {
            cx.think().await?;
        }
        Ok(Outcome::answer("done"))
    });
    let long = long.model(ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("on"))));
    let builder = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
    let builder = builder.team(desk()).team(long.into_team().unwrap());
    let system = builder.start().await.unwrap();
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let run = system.session("long", "s").send("go").await.unwrap();
    for number in 0..RUNS {
        ask(&system, number).await;
    }
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    assert_eq!(spans.len(), STEPS + 1 + RUNS * 12);
    // However much there is, no more than this is in memory at once.
    assert!(
        collector.largest() <= 512,
        "{} spans in one request",
        collector.largest()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_ends_at_once_although_nobody_listens() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let system = system(&InMemoryStore::new(), desk()).await;
    let telemetry = OpenTelemetry::over_http(&nowhere).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    ask(&system, 0).await;
    let began = tokio::time::Instant::now();
    following.shutdown().await;
    // It does not use the five seconds that a slow collector has.
    assert!(began.elapsed() < std::time::Duration::from_secs(4));
    system.stop().await.unwrap();
}
