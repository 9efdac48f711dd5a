//! Checking a team takes time in proportion to its agents.
#![cfg(target_os = "linux")]

use std::fs;

use ghostlight::config::{self, ConfigError, TeamFile};

/// The time that this thread has had a processor, in nanoseconds: other work of the machine does not count.
fn processor_time() -> u64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split(' ').next().unwrap().parse().unwrap()
}

/// What checking a team of so many agents with these lines finds, and how long it takes.
fn checked(agents: usize, head: &str, lines: &str) -> (Result<TeamFile, Vec<ConfigError>>, u64) {
    let mut text = format!("{head}\nagent:\n  name: root\n  agents:\n");
    for number in 0..agents {
        text.push_str(&format!("    - name: a{number}\n      {lines}\n"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("team.yaml");
    fs::write(&path, text).unwrap();
    let registry = ghostlight::builtin();
    let begun = processor_time();
    let found = config::load_checked(&path, &registry, |_| {});
    (found, processor_time() - begun)
}

fn grows_with_its_agents(head: &str, lines: &str, faults: usize) {
    // The first check pays for what the process sets up once.
    let _ = checked(10, head, lines);
    let (small, first) = checked(400, head, lines);
    let (large, second) = checked(1_600, head, lines);
    for found in [small, large] {
        let found = found.err().unwrap_or_default();
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), faults, "{told:?}");
    }
    // Four times the agents: what is quadratic takes sixteen times as long.
    assert!(
        second < 9 * first,
        "{lines}: {first} ns, then {second} ns for four times the agents"
    );
}

const MODELS: &str = "models: { default: { provider: offline } }";

#[test]
fn a_team_of_many_agents_is_checked_in_proportion() {
    grows_with_its_agents(MODELS, "tools: [calculator]", 0);
}

#[test]
fn agents_that_share_a_toolset_are_checked_in_proportion() {
    let head = format!("{MODELS}\ntools: {{ fs: {{ kind: files, root: . }} }}");
    grows_with_its_agents(&head, "tools: [fs, calculator]", 0);
}

#[test]
fn topics_that_feed_each_other_are_checked_in_proportion() {
    grows_with_its_agents(MODELS, "starts_on: [start]\n      publishes: [done]", 0);
}

#[test]
fn a_fault_that_every_agent_names_is_found_in_proportion() {
    let head = format!("{MODELS}\ntools: {{ fs: {{ kind: files, root: ./nowhere }} }}");
    grows_with_its_agents(&head, "tools: [fs, calculator]", 1);
    let head = "models: { default: { provider: offline }, fast: { provider: openai, modell: m } }";
    grows_with_its_agents(head, "model: fast", 1);
}
