use serde_json::{Value, json};

use crate::own_command::Desk;

const HELPDESK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/teams/helpdesk.yaml"
);
const QUESTION: &str = "How do I resume a run after a crash, and what is 17% of 2340?";

#[test]
fn a_desk_that_gets_the_conversation_back_says_what_was_found() {
    let desk = Desk::new("says", json!({}));
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/teams/frontdesk.yaml"
    );
    let done = desk
        .shipped(&["run", file, "What is 19% of 80 euro?"])
        .exits(0);
    assert_eq!(done.out.trim(), "19% of 80 = 15.2");
    assert!(
        done.err.contains("frontdesk takes over: billing is done."),
        "{}",
        done.err
    );
}

#[test]
fn the_log_says_of_each_hook_of_a_policy_how_long_it_took() {
    let desk = Desk::new("says", json!({}));
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/teams/frontdesk.yaml"
    );
    let question = "What is 19% of 80 euro?";
    desk.shipped(&["run", file, question, "--log", "notes.txt"])
        .exits(0);
    let notes = std::fs::read_to_string(desk.path("notes.txt")).unwrap();
    let told = |hook: &str| {
        let of_hook = format!("hook=\"{hook}\"");
        notes.lines().any(|line| {
            line.contains("hook{policy=")
                && line.contains(&of_hook)
                && line.contains("close time.busy=")
        })
    };
    for hook in ["before_run", "before_model", "before_answer", "after_run"] {
        assert!(told(hook), "{hook}: {notes}");
    }
}

#[test]
fn the_helpdesk_answers_both_parts_offline() {
    let desk = Desk::new("says", json!({}));
    let done = desk.shipped(&["run", HELPDESK, QUESTION]).exits(0);
    assert!(done.out.contains("ghostlight resume"), "{}", done.out);
    assert!(done.out.contains("resume.md"), "{}", done.out);
    assert!(done.out.contains("397.8"), "{}", done.out);
    let progress = &done.err;
    assert!(
        progress
            .lines()
            .next()
            .unwrap()
            .contains("team helpdesk, model offline"),
        "{progress}"
    );
    for part in [
        "  guide      is asked by desk:",
        "calls docs(query:",
        "docs gave:",
        "  clerk      is asked by desk:",
        "calls calculator(expression:",
        "calculator gave: 397.8",
    ] {
        assert!(
            progress.contains(part),
            "{part:?} is missing in\n{progress}"
        );
    }
    assert!(
        !progress.contains('\x1b'),
        "there is no terminal, so no colours: {progress}"
    );
}

#[test]
fn json_is_one_event_a_line_and_nothing_else() {
    let desk = Desk::new("says", json!({}));
    let done = desk
        .shipped(&["run", HELPDESK, QUESTION, "--json"])
        .exits(0);
    // On a machine that is busy the engine may warn of a tool that took long.
    let told = done.err.lines().filter(|line| !line.contains(" WARN "));
    assert_eq!(told.count(), 1, "{}", done.err);
    assert!(done.err.contains("model offline"), "{}", done.err);
    let events = done.json();
    assert_eq!(events[0]["type"], "run_started");
    let last = events.last().unwrap();
    assert_eq!(last["type"], "run_ended");
    assert!(
        last["data"]["end"]["answered"]
            .as_str()
            .unwrap()
            .contains("397.8")
    );
    let recorded: Vec<&Value> = events
        .iter()
        .filter(|event| !event["sequence"].is_null())
        .collect();
    let run = events[0]["run"].as_str().unwrap();
    let shown = desk.shipped(&["show", run, "--json"]).exits(0).json();
    assert_eq!(
        shown.iter().collect::<Vec<_>>(),
        recorded,
        "live and read later is the same"
    );
}

#[test]
fn the_text_may_come_from_stdin() {
    let desk = Desk::new("says", json!({}));
    let done = desk
        .shipped_with(&["run", HELPDESK, "--memory"], "What is 6 * 7?\n", &[])
        .exits(0);
    assert!(done.out.contains("42"), "{}", done.out);
    let none = desk.shipped(&["runs", "--all"]).exits(0);
    assert!(
        none.err.contains("no runs yet"),
        "nothing is kept: {}",
        none.err
    );
    let empty = desk.shipped(&["run", HELPDESK]).exits(2);
    assert!(empty.err.contains("the text is empty"), "{}", empty.err);
}

#[test]
fn a_turn_that_is_sent_twice_is_one_run() {
    let desk = Desk::new("says", json!({}));
    let words = [
        "run",
        HELPDESK,
        "What is 6 * 7?",
        "--session",
        "ann",
        "--turn-id",
        "q1",
    ];
    let first = desk.shipped(&words).exits(0);
    let again = desk.shipped(&words).exits(0);
    assert_eq!(first.out, again.out);
    assert_eq!(desk.rows().len(), 1);
    let mut other = words;
    other[2] = "What is 6 * 9?";
    let refused = desk.shipped(&other).exits(2);
    let told =
        "the turn \"q1\" was sent to session helpdesk/ann before, with another message, as run";
    assert!(refused.err.contains(told), "{}", refused.err);
    assert_eq!((refused.out.as_str(), desk.rows().len()), ("", 1));
    let other = desk
        .shipped(&["run", HELPDESK, "What is 6 * 8?", "--session", "ann"])
        .exits(0);
    assert!(other.out.contains("48"), "{}", other.out);
    assert_eq!(desk.rows().len(), 2);
}

#[test]
fn runs_and_show_tell_what_happened() {
    let desk = Desk::new("says", json!({}));
    desk.shipped(&["run", HELPDESK, "What is 6 * 7?"]).exits(0);
    let open = desk.shipped(&["runs"]).exits(0);
    assert_eq!(open.out, "");
    assert!(open.err.contains("no open runs"), "{}", open.err);
    let all = desk.shipped(&["runs", "--all"]).exits(0);
    assert!(
        all.err.contains("runs.db"),
        "the store is named: {}",
        all.err
    );
    let row = all.out.lines().nth(1).unwrap();
    for part in ["answered", "helpdesk", "What is 6 * 7?"] {
        assert!(row.contains(part), "{row}");
    }
    let run = desk.only_run();
    assert!(row.starts_with(&run), "{row}");
    let shown = desk.shipped(&["show", &run]).exits(0).out;
    for part in [
        "status  answered",
        "+0.000 s",
        "is asked: What is 6 * 7?",
        "clerk",
        "calculator gave: 42",
        "gives a task to clerk",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let tree = desk.shipped(&["show", &run, "--tree"]).exits(0).out;
    let lines: Vec<&str> = tree.lines().collect();
    assert_eq!(lines.len(), 2, "{tree}");
    for (line, agent) in lines.iter().zip(["desk ", "  clerk "]) {
        let is_whole = line.starts_with(agent) && line.contains("  answered  ");
        assert!(is_whole, "{agent}: {tree}");
    }
    assert!(
        lines[0].contains(&run) && lines[0].ends_with("What is 6 * 7?"),
        "{tree}"
    );
    let tree = desk.shipped(&["show", &run, "--tree", "--json"]).exits(0);
    let tree = &tree.json()[0];
    assert_eq!(tree["children"][0]["row"]["agent"], "clerk", "{tree}");
    assert_eq!(tree["children"][0]["children"], json!([]), "{tree}");
}

#[test]
fn a_run_ends_with_the_code_of_its_end() {
    for (behavior, code, said) in [
        ("fails", 1, "failed: no luck"),
        ("stops", 3, "stopped: the bound of 2 steps was reached"),
        ("sleeps", 0, "answered"),
    ] {
        let desk = Desk::new(behavior, json!({}));
        let done = desk.run(&["run", "team.yaml", "go"]).exits(code);
        assert!(done.err.contains(said), "{behavior}: {}", done.err);
        assert_eq!(done.out.is_empty(), code != 0, "{}", done.out);
    }
}

#[test]
fn what_cannot_be_understood_is_a_usage_error() {
    let desk = Desk::new("says", json!({}));
    desk.shipped(&["run", HELPDESK, "What is 1 + 1?"]).exits(0);
    for words in [
        &["fly"][..],
        &[],
        &["run"],
        &["run", HELPDESK, "x", "--memory", "--store", "y"],
        &["run", "missing.yaml", "x"],
        &["show", "ffffffff"],
        &["show", "not-an-id"],
        &["answer", &desk.only_run(), "--approve"],
        &["resume", "--take-over"],
        &["runs", "--limit", "0"],
        &["run", HELPDESK, "x", "--store", "mysql://host/runs"],
    ] {
        let done = desk.shipped(words).exits(2);
        assert!(
            !done.err.is_empty() && done.out.is_empty(),
            "{words:?}: {done:?}"
        );
    }
    assert!(
        desk.shipped(&["--help"])
            .exits(0)
            .out
            .contains("Exit codes:")
    );
}

#[test]
fn a_store_that_cannot_be_used_has_a_code_of_its_own() {
    let desk = Desk::new("says", json!({}));
    desk.write("text.db", "this is a letter, and no store of runs at all");
    for store in ["text.db", "text.db/runs.db"] {
        let done = desk
            .shipped(&["run", HELPDESK, "x", "--store", store])
            .exits(5);
        assert!(done.err.contains(store), "{}", done.err);
    }
    desk.write("empty.db", "");
    let done = desk.shipped(&["runs", "--store", "empty.db"]).exits(5);
    assert!(done.err.contains("the file is empty"), "{}", done.err);
    let made = ["run", HELPDESK, "What is 1 + 1?", "--store", "empty.db"];
    desk.shipped(&made).exits(0);
}

#[test]
fn nothing_that_a_model_says_acts_on_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\rhidden\u{202e}";
    let desk = Desk::new("says", json!({ "text": evil }));
    let run = desk.run(&["run", "team.yaml", evil]).exits(0);
    let json = desk.run(&["run", "team.yaml", evil, "--json"]).exits(0);
    let id = json.json()[0]["run"].as_str().unwrap().to_owned();
    let shown = desk.shipped(&["show", &id]).exits(0);
    let listed = desk.shipped(&["runs", "--all"]).exits(0);
    for done in [&run, &json, &shown, &listed] {
        for text in [&done.out, &done.err] {
            let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!text.contains(acts), "{text:?}");
        }
    }
    assert!(run.out.contains("hidden"), "{}", run.out);
    let end = &json.json().pop().unwrap()["data"]["end"]["answered"];
    assert_eq!(end, evil, "JSON keeps what was said");
}

#[test]
fn a_budget_of_the_command_line_stops_the_run_and_is_shown() {
    let desk = Desk::new("says", json!({}));
    let budget = "model_calls=1,cost_micros=2000000";
    let done = desk
        .shipped(&["run", HELPDESK, QUESTION, "--budget", budget])
        .exits(3);
    assert!(
        done.err.contains("the budget of model calls is used up"),
        "{}",
        done.err
    );
    assert!(
        done.err
            .contains("has used 1 of its 1 model calls (a warning at 80%)"),
        "{}",
        done.err
    );
    let shown = desk.shipped(&["show", &desk.only_run()]).exits(0).out;
    let line = "budget  1 of 1 model calls, 0.0000 of 2.0000 cost";
    assert!(shown.contains(line), "{shown}");
    let wrong = desk
        .shipped(&["run", HELPDESK, QUESTION, "--budget", "steps=1"])
        .exits(2);
    assert!(wrong.err.contains("unknown field `steps`"), "{}", wrong.err);
}
