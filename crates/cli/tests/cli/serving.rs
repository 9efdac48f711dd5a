//! A process that stays, and keeps a team's schedules and open runs going.

use serde_json::{Value, json};

use crate::own_command::Desk;

/// A desk whose team is woken every 50 ms.
fn woken(behavior: &str) -> Desk {
    let desk = Desk::new(behavior, json!({ "text": "done" }));
    let team = std::fs::read_to_string(desk.path("team.yaml")).unwrap();
    let mut team: Value = serde_json::from_str(&team).unwrap();
    team["schedules"] = json!([{ "name": "pulse", "every_s": 0.05, "say": "Look around." }]);
    desk.write("woken.yaml", &team.to_string());
    desk
}

fn answered(desk: &Desk) -> usize {
    let rows = desk.rows();
    let answered = rows.iter().filter(|row| row["status"] == "answered");
    answered.count()
}

#[test]
fn it_says_the_turns_of_a_files_schedules_until_it_is_asked_to_end() {
    let desk = woken("says");
    for signal in ["INT", "TERM"] {
        let at_least = answered(&desk) + 3;
        let serving = desk.start(&["serve", "woken.yaml"]);
        desk.until("turns", |desk| answered(desk) >= at_least);
        serving.signal(signal);
        let done = serving.ends().exits(0);
        assert!(
            done.err.contains("team desk, model offline"),
            "{}",
            done.err
        );
        assert!(
            done.err.contains("schedule pulse, next at "),
            "{}",
            done.err
        );
        assert!(done.out.contains("answered"), "{}", done.out);
        assert!(done.out.contains("Look around."), "{}", done.out);
    }
    // Only a turn that was under way at the end is open, and goes on with the next start.
    let rows = desk.rows();
    let mut before = rows.iter().skip(1);
    assert!(
        before.all(|row| row["status"] == "answered"),
        "a turn was left behind: {rows:?}"
    );
    assert!(rows.iter().all(|row| row["session"]["key"] == "pulse"));
}

#[test]
fn it_takes_up_runs_that_were_interrupted_and_tells_how_they_stand() {
    let desk = Desk::new("gated", json!({}));
    let started = desk.start(&["run", "team.yaml", "go"]);
    desk.until_at_the_gate();
    started.signal("KILL");
    started.ends();

    let serving = desk.start(&["serve", "team.yaml", "--json"]);
    desk.open_gate();
    desk.until("the end", |desk| desk.status() == "answered");
    serving.signal("INT");
    let done = serving.ends().exits(0);
    let told = done.json();
    assert_eq!(told.last().unwrap()["status"], "answered", "{told:?}");
}

#[test]
fn it_takes_up_what_another_process_leaves_behind() {
    let desk = Desk::new("gated", json!({}));
    let mut serving = desk.start(&["serve", "team.yaml"]);
    serving.says("Ctrl-C ends it");
    let started = desk.start(&["run", "team.yaml", "go"]);
    desk.until_at_the_gate();
    started.signal("KILL");
    started.ends();
    desk.open_gate();
    desk.until("the end", |desk| desk.status() == "answered");
    serving.signal("INT");
    serving.ends().exits(0);
    assert_eq!(desk.firsts(), 1, "what was recorded was done again");
}

#[test]
fn a_schedule_that_cannot_be_kept_is_shown_in_its_file() {
    let desk = Desk::new("says", json!({}));
    desk.write(
        "team.yaml",
        "agent: { name: desk }\nschedules:\n- { name: a, say: x, cron: every morning }\n",
    );
    let refused = desk.run(&["serve", "team.yaml"]).exits(2);
    assert!(refused.err.contains("team.yaml:3:3"), "{}", refused.err);
}

#[test]
fn a_changed_file_is_taken_for_new_runs_and_a_broken_one_is_refused_with_its_place() {
    let desk = Desk::new("says", json!({ "text": "the old" }));
    let team = |text: &str| {
        json!({
            "agent": { "name": "desk", "behavior": { "name": "says", "text": text } },
            "schedules": [{ "name": "pulse", "every_s": 0.05, "say": "Look around." }],
        })
        .to_string()
    };
    desk.write("woken.yaml", &team("the old"));
    let serving = desk.start(&["serve", "woken.yaml"]);
    let last = |desk: &Desk| {
        let log = desk
            .shipped(&["session", "show", "desk/pulse", "--json"])
            .json();
        let turns = log
            .first()
            .map(|log| log["turns"].as_array().unwrap().clone());
        let mut answers = turns
            .unwrap_or_default()
            .into_iter()
            .map(|turn| turn["answer"].clone());
        answers.rfind(|answer| !answer.is_null())
    };
    desk.until("an old turn", |desk| last(desk) == Some(json!("the old")));
    desk.write("woken.yaml", &team("the new, and longer"));
    desk.until("a new turn", |desk| {
        last(desk) == Some(json!("the new, and longer"))
    });
    desk.write("woken.yaml", "agent: { name: desk }\nschedule: []\n");
    // What is refused is told within two looks, and turns go on as before.
    let so_far = answered(&desk);
    desk.until("turns that go on", |desk| answered(desk) > so_far + 40);
    serving.signal("INT");
    let done = serving.ends().exits(0);
    assert!(done.err.contains("behavior of agent desk"), "{}", done.err);
    assert!(done.err.contains("woken.yaml:2:1"), "{}", done.err);
    assert_eq!(last(&desk), Some(json!("the new, and longer")));
}

#[test]
fn all_team_files_of_a_folder_are_served_by_one_process() {
    let desk = Desk::new("says", json!({}));
    std::fs::create_dir(desk.path("teams")).unwrap();
    let team = |name: &str, text: &str| {
        json!({
            "name": name,
            "agent": { "name": name, "behavior": { "name": "says", "text": text } },
            "schedules": [{ "name": "pulse", "every_s": 0.05, "say": "Look around." }],
        })
        .to_string()
    };
    desk.write("teams/one.yaml", &team("one", "said by one"));
    desk.write("teams/two.yml", &team("two", "said by two"));
    desk.write("teams/notes.txt", "no team");
    let serving = desk.start(&["serve", "teams"]);
    let says = |desk: &Desk, team: &str| {
        let session = format!("{team}/pulse");
        let log = desk
            .shipped(&["session", "show", &session, "--json"])
            .json();
        let turns = log
            .first()
            .map(|log| log["turns"].clone())
            .unwrap_or_default();
        turns.to_string().contains(&format!("said by {team}"))
    };
    desk.until("turns of both", |desk| {
        says(desk, "one") && says(desk, "two")
    });
    // Each file is watched by itself.
    desk.write("teams/two.yml", &team("two", "said by two, anew"));
    desk.until("a new turn", |desk| {
        let log = desk
            .shipped(&["session", "show", "two/pulse", "--json"])
            .out;
        log.contains("said by two, anew")
    });
    serving.signal("INT");
    let done = serving.ends().exits(0);
    assert!(
        done.err.contains("team one, model") && done.err.contains("team two, model"),
        "{}",
        done.err
    );
    std::fs::create_dir(desk.path("empty")).unwrap();
    let none = desk.shipped(&["serve", "empty"]).exits(2);
    assert!(
        none.err.contains("a folder without team files"),
        "{}",
        none.err
    );
}
