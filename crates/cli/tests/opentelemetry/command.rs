//! The command, which exports where the environment says so.

use std::{path::Path, process::Stdio};

use tokio::process::Command;

use super::*;

const HELPDESK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/teams/helpdesk.yaml"
);
const QUESTION: &str = "How do I resume a run after a crash, and what is 17% of 2340?";

fn ghostlight(folder: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ghostlight"));
    command.env_clear().current_dir(folder).kill_on_drop(true);
    command.env("HOME", folder).envs(variables.iter().copied());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn the_command_exports_by_the_variables_of_opentelemetry() {
    let collector = Collector::start(Answer::Takes).await;
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.endpoint),
        ("OTEL_SERVICE_NAME", "helpdesk-service"),
    ];
    let mut command = ghostlight(folder.path(), &variables);
    let arguments = ["run", HELPDESK, QUESTION, "--store", "runs.db"];
    let done = command.args(arguments).output().await.unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let spans = collector.spans();
    check_whole(&spans);
    assert_eq!(collector.resource("service.name"), "helpdesk-service");
    assert_eq!(named(&spans, "invoke_agent desk").parent_span_id, b"");
    let tool = named(&spans, "execute_tool calculator");
    assert_eq!(text(&tool.attributes, "gen_ai.agent.name"), "clerk");
    let chat = spans
        .iter()
        .find(|span| span.name.starts_with("chat "))
        .unwrap();
    assert_eq!(text(&chat.attributes, "gen_ai.provider.name"), "offline");
    assert!(!collector.heard("17%"));
    let ended = collector.points("ghostlight.runs.ended");
    assert_eq!(ended.iter().map(|(.., runs)| runs).sum::<f64>(), 3.0);

    // The store is as it should be, also where it is copied.
    for arguments in [
        &["store", "verify", "--store", "runs.db"][..],
        &["store", "copy", "runs.db", "copy.db"],
        &["store", "verify", "--store", "copy.db"],
    ] {
        let done = ghostlight(folder.path(), &[])
            .args(arguments)
            .output()
            .await
            .unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {told}");
    }
    // Without an endpoint, or with the SDK disabled, nothing is exported.
    let before = collector.requests();
    let disabled = [variables[0], ("OTEL_SDK_DISABLED", "true")];
    let done = ghostlight(folder.path(), &disabled)
        .args(arguments)
        .output()
        .await
        .unwrap();
    assert!(done.status.success());
    assert_eq!(collector.requests(), before);
    // A protocol that is not spoken is said at once, with what to set.
    let grpc = [variables[0], ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let refused = ghostlight(folder.path(), &grpc)
        .args(arguments)
        .output()
        .await
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("OTEL_EXPORTER_OTLP_PROTOCOL=grpc"), "{told}");
    assert!(
        told.contains("set it to http/protobuf") && told.contains("4318"),
        "{told}"
    );
}

#[tokio::test]
async fn the_variables_of_a_file_are_used_where_the_environment_has_none() {
    let [collector, other] = [
        Collector::start(Answer::Takes).await,
        Collector::start(Answer::Takes).await,
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = format!(
        "OTEL_EXPORTER_OTLP_ENDPOINT={}/\n\
         OTEL_EXPORTER_OTLP_HEADERS='api-key=hunter22%2Chunter22'\n\
         OTEL_EXPORTER_OTLP_METRICS_HEADERS=api-key=of-metrics\n\
         OTEL_SERVICE_NAME=of-the-file\n\
         OTEL_RESOURCE_ATTRIBUTES=zone=b%20c,service.version=9\n",
        collector.endpoint
    );
    std::fs::write(folder.path().join(".env"), &file).unwrap();
    let arguments = ["run", HELPDESK, QUESTION, "--store", "runs.db"];
    let run = async |variables: &[(&str, &str)], more: &[&str]| {
        let mut command = ghostlight(folder.path(), variables);
        let done = command.args(arguments).args(more).output().await.unwrap();
        let told = [done.stdout, done.stderr].concat();
        let told = String::from_utf8(told).unwrap();
        assert!(!told.contains("hunter22"), "{told}");
        (done.status.code(), told)
    };
    assert_eq!(run(&[], &[]).await.0, Some(0));
    check_whole(&collector.spans());
    let resource = |name| collector.resource(name);
    assert_eq!(resource("service.name"), "of-the-file");
    assert_eq!(resource("zone"), "b c");
    assert_eq!(resource("service.version"), "9");
    assert!(collector.is_sent("/v1/traces", "api-key: hunter22,hunter22"));
    assert!(collector.is_sent("/v1/metrics", "api-key: of-metrics"));

    // The environment's come first, also where they say nothing.
    let spans = collector.spans().len();
    let set = [
        ("OTEL_SERVICE_NAME", "of-the-process"),
        ("OTEL_TRACES_SAMPLER", ""),
    ];
    let sampled = format!("{file}OTEL_TRACES_SAMPLER=always_off\n");
    std::fs::write(folder.path().join(".env"), &sampled).unwrap();
    assert_eq!(run(&set, &[]).await.0, Some(0));
    assert_eq!(collector.spans().len(), 2 * spans);
    assert_eq!(collector.resource("service.name"), "of-the-process");
    assert_eq!(run(&set[..1], &[]).await.0, Some(0));
    assert_eq!(collector.spans().len(), 2 * spans, "none are sampled");
    let elsewhere = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*other.endpoint)];
    let asked = collector.requests();
    assert_eq!(run(&[elsewhere[0], set[1]], &[]).await.0, Some(0));
    assert_eq!((collector.requests(), other.spans().len()), (asked, spans));

    // A file that nobody named gets no key of the environment's for its address.
    let own = [("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=hunter22own")];
    let (code, told) = run(&own, &[]).await;
    assert_eq!(code, Some(0));
    assert!(
        told.contains(".env sets OTEL_EXPORTER_OTLP_ENDPOINT"),
        "{told}"
    );
    assert_eq!(collector.requests(), asked);
    assert_eq!(run(&own, &["--env-file", ".env"]).await.0, Some(0));
    assert!(collector.requests() > asked);

    // A value that cannot be used is refused without showing a secret.
    let wrong = format!("{file}OTEL_EXPORTER_OTLP_TRACES_HEADERS=hunter22\n");
    std::fs::write(folder.path().join(".env"), &wrong).unwrap();
    let (code, told) = run(&[], &[]).await;
    assert_eq!(code, Some(2));
    assert!(
        told.contains("OTEL_EXPORTER_OTLP_TRACES_HEADERS=…"),
        "{told}"
    );
}

#[tokio::test]
async fn a_command_that_was_killed_leaves_what_it_did_not_export_to_the_next() {
    let mut collector = Collector::start(Answer::Hangs).await;
    let folder = tempfile::tempdir().unwrap();
    let endpoint = collector.endpoint.clone();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let arguments = ["run", HELPDESK, QUESTION, "--store", "runs.db"];
    let mut killed = ghostlight(folder.path(), &variables)
        .args(arguments)
        .spawn()
        .unwrap();
    collector.asked().await;
    killed.kill().await.unwrap();

    collector.answers(Answer::Takes);
    let resumed = ["resume", "--store", "runs.db"];
    let done = ghostlight(folder.path(), &variables)
        .args(resumed)
        .output()
        .await
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let next = ghostlight(folder.path(), &variables)
        .args(arguments)
        .output()
        .await
        .unwrap();
    assert!(next.status.success());
    let spans = collector.spans();
    check_whole(&spans);
    let roots: Vec<_> = spans
        .iter()
        .filter(|span| span.parent_span_id.is_empty())
        .collect();
    assert_eq!(roots.len(), 2, "the run that was killed, and the next");
}
