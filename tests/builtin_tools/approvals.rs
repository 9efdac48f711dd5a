//! Which of the built-in tools ask a person first, where a team says nothing of it.

use ghostlight::{config, run::Registry};

const DOCUMENT: &str = "
openapi: 3.1.0
info: { title: Parcels, version: '1' }
servers: [{ url: 'https://parcels.example' }]
paths:
  /parcels:
    get: { operationId: list_parcels }
    post: { operationId: send_parcel }
  /parcels/1:
    delete: { operationId: drop_parcel }
";

/// The tools of an agent that ask, and those that do not.
fn split(approval: &str) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("parcels.yaml"), DOCUMENT).unwrap();
    let text = format!(
        "tools:
  notes: {{ kind: files, root: ./, write: true }}
  pages: {{ kind: web, methods: [GET, POST] }}
  parcels: {{ kind: openapi, document: ./parcels.yaml }}
  shell:
    kind: terminal
    root: ./
    commands: {{ ls: true, rm: ask }}
    processes: 1
    confinement: best_effort
agent:
  name: desk
  tools: [notes, pages, parcels, shell, calculator, write_note, save_artifact]
  approval: {{ {approval} }}
"
    );
    let path = folder.path().join("team.yaml");
    std::fs::write(&path, text).unwrap();
    let team = config::load(&path).unwrap();
    let registry: Registry = team.resolve(ghostlight::builtin()).unwrap();
    let desk = registry.pin(team.spec()).agent("desk", None).unwrap();
    let named = |asks: bool| {
        let tools = desk.tools.iter();
        let tools = tools.filter(|tool| desk.approval_of(tool).is_some() == asks);
        let mut names: Vec<String> = tools.map(|tool| tool.name.clone()).collect();
        names.sort();
        names
    };
    (named(true), named(false))
}

#[test]
fn what_changes_files_processes_and_the_web_asks_and_what_reads_does_not() {
    let (asks, free) = split("");
    let changing = [
        "drop_parcel",
        "edit_file",
        "patch_files",
        "run_command_with_approval",
        "send_parcel",
        "start_process",
        "undo_file",
        "web_request",
        "write_file",
    ];
    assert_eq!(asks, changing);
    for name in ["read_file", "grep_files", "web_fetch", "list_parcels"] {
        assert!(free.iter().any(|tool| tool == name), "{name}: {free:?}");
    }
    // Commands ask by the rules of `commands`; notes and artifacts stay in the store of the team.
    for name in ["run_command", "write_note", "save_artifact"] {
        assert!(free.iter().any(|tool| tool == name), "{name}: {free:?}");
    }
}

#[test]
fn one_line_changes_what_asks() {
    let (asks, free) = split("notes: false, run_command: true");
    assert!(free.contains(&"write_file".to_owned()), "{free:?}");
    assert!(asks.contains(&"run_command".to_owned()), "{asks:?}");
    assert!(asks.contains(&"send_parcel".to_owned()), "{asks:?}");
    let (asks, _) = split("'*': false");
    assert_eq!(asks, [""; 0]);
    let (_, free) = split("'*': true");
    assert_eq!(free, [""; 0]);
}
