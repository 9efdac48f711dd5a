//! Memories on the command line.

use serde_json::json;

use crate::own_command::Desk;

#[test]
fn what_a_team_remembers_is_listed_shown_searched_exported_and_forgotten() {
    let desk = Desk::new("says", json!({ "text": "the lamp is in the cellar" }));
    let team = json!({ "agent": { "name": "desk",
        "behavior": { "name": "says", "text": "the lamp is in the cellar" },
        "memory": { "episodes": true } } });
    desk.write("team.yaml", &team.to_string());
    for text in ["Where is the green lamp?", "Where is the invoice of March?"] {
        desk.run(&["run", "team.yaml", text, "--session", "s"])
            .exits(0);
    }
    let whose = ["desk", "--session", "s"];
    let memory = |act: &str, more: &[&str]| {
        let arguments: Vec<&str> = ["memory", act]
            .iter()
            .chain(&whose)
            .chain(more)
            .copied()
            .collect();
        desk.run(&arguments)
    };
    let listed = memory("list", &["--json"]).exits(0).json();
    assert_eq!(listed.len(), 2);
    let found = memory("search", &["green lamp", "--json"]).exits(0).json();
    assert_eq!(found.len(), 1);
    let said = memory("search", &["invoice", "--kind", "conversation", "--json"]);
    let said = said.exits(0).json();
    assert_eq!(said.len(), 1);
    let turn = said[0]["item"]["id"].as_str().unwrap();
    let refused = memory("show", &[turn]).exits(2);
    let run = turn.strip_prefix("turn-").unwrap();
    assert!(
        refused.err.contains(&format!("`ghostlight show {run}`")),
        "{}",
        refused.err
    );
    desk.run(&["show", run]).exits(0);
    let none = memory("list", &["--kind", "conversation"]).exits(0);
    assert!(none.err.contains("memory search"), "{}", none.err);
    let said = said[0]["item"]["content"].as_str().unwrap();
    assert!(
        said.starts_with("They said: Where is the invoice of March?"),
        "{said}"
    );
    let id = found[0]["item"]["id"].as_str().unwrap().to_owned();
    let shown = memory("show", &[&id[..16]]).exits(0);
    assert!(
        shown.out.contains("Where is the green lamp?"),
        "{}",
        shown.out
    );
    assert!(shown.err.contains("ghostlight show"), "{}", shown.err);
    let dry = memory("forget", &[&id, "--dry-run"]).exits(0);
    assert!(dry.err.contains("1 item would be forgotten"), "{}", dry.err);
    assert_eq!(memory("list", &["--json"]).exits(0).json().len(), 2);
    memory("forget", &[&id]).exits(0);
    let left = memory("list", &[]).exits(0);
    assert!(
        left.out.contains("invoice") && !left.out.contains("lamp"),
        "{}",
        left.out
    );
    let document: serde_json::Value =
        serde_json::from_str(&memory("export", &[]).exits(0).out).unwrap();
    assert_eq!(document["items"].as_array().unwrap().len(), 1);
    let gone = memory("forget", &["--keep", "0"]).exits(0);
    assert!(gone.err.contains("1 item forgotten"), "{}", gone.err);
    assert!(
        memory("list", &[])
            .exits(0)
            .err
            .contains("nothing is remembered there")
    );
    // Nobody else's is meant by it, and nothing is forgotten without saying what.
    memory("forget", &[]).exits(2);
    memory("show", &["mem-none"]).exits(2);
    desk.run(&["memory", "list", "desk", "--user", "ada"])
        .exits(0);
}

#[test]
fn an_exported_memory_is_imported_elsewhere_and_twice_is_once() {
    let desk = Desk::new("says", json!({ "text": "the lamp is in the cellar" }));
    let team = json!({ "agent": { "name": "desk",
        "behavior": { "name": "says", "text": "the lamp is in the cellar" },
        "memory": { "episodes": true } } });
    desk.write("team.yaml", &team.to_string());
    for text in ["Where is the green lamp?", "Where is the invoice?"] {
        desk.run(&["run", "team.yaml", text, "--session", "s"])
            .exits(0);
    }
    let exported = desk
        .run(&["memory", "export", "desk", "--session", "s"])
        .exits(0)
        .out;
    desk.write("memory.json", &exported);
    let import = |more: &[&str]| {
        let words = ["memory", "import", "desk", "memory.json", "--user", "ada"];
        desk.run(&[&words[..], more].concat())
    };
    let first = import(&[]).exits(0);
    assert!(first.err.contains("2 items imported"), "{}", first.err);
    for more in [&[][..], &["--overwrite"]] {
        let again = import(more).exits(0);
        let told = "0 items imported; 2 were there already";
        assert!(again.err.contains(told), "{}", again.err);
    }
    let there = desk
        .run(&["memory", "export", "desk", "--user", "ada"])
        .exits(0);
    assert_eq!(there.out, exported);

    let mut document: serde_json::Value = serde_json::from_str(&exported).unwrap();
    document["items"][1]["id"] = json!("no id");
    document["items"][0]["content"] = json!("another");
    desk.write("memory.json", &document.to_string());
    let refused = import(&["--overwrite"]).exits(2);
    assert!(
        refused.err.contains("memory.json: item 2 of the document"),
        "{}",
        refused.err
    );
    let there = desk.run(&["memory", "export", "desk", "--user", "ada"]);
    assert_eq!(there.exits(0).out, exported, "nothing was imported");
}

#[test]
fn an_item_is_corrected_switched_off_listed_by_pages_and_forgotten_where_nobody_uses_it() {
    let desk = Desk::new("says", json!({ "text": "the lamp is in the cellar" }));
    let team = json!({ "agent": { "name": "desk",
        "behavior": { "name": "says", "text": "the lamp is in the cellar" },
        "memory": { "episodes": true } } });
    desk.write("team.yaml", &team.to_string());
    for text in ["Where is the green lamp?", "Where is the red lamp?"] {
        desk.run(&["run", "team.yaml", text, "--session", "s"])
            .exits(0);
    }
    let memory = |act: &str, more: &[&str]| {
        desk.run(&[&["memory", act, "desk", "--session", "s"][..], more].concat())
    };
    let ids = |done: crate::own_command::Done| -> Vec<String> {
        let listed = done.exits(0).json();
        let of = |item: &serde_json::Value| {
            let item = item.get("item").unwrap_or(item);
            item["id"].as_str().unwrap().to_owned()
        };
        listed.iter().map(of).collect()
    };
    let all = ids(memory("list", &["--json"]));
    let first = memory("list", &["--json", "--limit", "1"]);
    let told = format!(
        "1 item more: raise --limit, or continue with --after {}",
        all[0]
    );
    let first = first.exits(0);
    assert!(first.err.contains(&told), "{}", first.err);
    assert_eq!(
        ids(memory("list", &["--json", "--after", &all[0]])),
        all[1..]
    );
    memory("list", &["--after", "mem-none"]).exits(2);

    let changed = memory(
        "change",
        &[
            &all[0],
            "--content",
            "Where is the blue lamp?",
            "--disable",
            "--boost",
            "2",
        ],
    );
    let changed = changed.exits(0).json();
    assert_eq!(changed[0]["content"], "Where is the blue lamp?");
    assert_eq!(
        (&changed[0]["disabled"], &changed[0]["boost"]),
        (&json!(true), &json!(2.0))
    );
    assert_eq!(ids(memory("search", &["lamp", "--json"])), all[1..]);
    let listed = memory("list", &[]).exits(0);
    assert!(
        listed.out.contains("off") && listed.out.contains("blue"),
        "{}",
        listed.out
    );
    memory("change", &[&all[0], "--enable", "--pin"]).exits(0);
    assert_eq!(ids(memory("search", &["lamp", "--json"])).len(), 2);
    for wrong in [
        &["--boost", "11"][..],
        &["--importance", "2"],
        &["--pin", "--unpin"],
        &[],
    ] {
        memory("change", &[&[all[0].as_str()][..], wrong].concat()).exits(2);
    }

    // Of what nobody used for weeks little is left, but what is pinned stays.
    let exported = memory("export", &[]).exits(0).out;
    let mut document: serde_json::Value = serde_json::from_str(&exported).unwrap();
    for item in document["items"].as_array_mut().unwrap() {
        for time in ["created_at", "updated_at"] {
            item[time] = json!(item[time].as_u64().unwrap() - 30 * 86_400_000);
        }
        item.as_object_mut().unwrap().remove("accessed_at");
    }
    desk.write("old.json", &document.to_string());
    let ada = |act: &str, more: &[&str]| {
        desk.run(&[&["memory", act, "desk", "--user", "ada"][..], more].concat())
    };
    ada("import", &["old.json"]).exits(0);
    let gone = ada("forget", &["--unused", "0.3"]).exits(0);
    assert!(gone.err.contains("1 item forgotten"), "{}", gone.err);
    assert_eq!(ids(ada("list", &["--json"])), all[..1]);
    // What is in use is not forgotten.
    let none = memory("forget", &["--unused", "0.3"]).exits(0);
    assert!(none.err.contains("0 items forgotten"), "{}", none.err);
}

#[test]
fn learnings_are_markdown_that_a_person_edits() {
    let desk = Desk::new("says", json!({}));
    let text = "## STRATEGIES\n\n[L001] helpful=2 harmful=0 :: count twice\n\n\
                ## MISTAKES\n\n[M003] helpful=0 harmful=1 :: guess\n";
    desk.write("learnings.md", text);
    let memory = |words: &[&str]| {
        let words: Vec<&str> = [&["memory"][..], words, &["--user", "ada"]].concat();
        desk.run(&words)
    };
    memory(&["import", "desk", "learnings.md"]).exits(0);
    let exported = memory(&["export", "desk", "--learnings"]).exits(0).out;
    assert_eq!(exported, text);
    // What a person changes there is changed, and nothing is there twice.
    desk.write(
        "learnings.md",
        &text.replace("count twice", "count three times"),
    );
    memory(&["import", "desk", "learnings.md"]).exits(0);
    let exported = memory(&["export", "desk", "--learnings"]).exits(0).out;
    assert_eq!(exported, text.replace("count twice", "count three times"));
    desk.write("learnings.md", "## MISTAKES\nguessing\n");
    let wrong = memory(&["import", "desk", "learnings.md"]).exits(2);
    assert!(
        wrong.err.contains("line 2 is not a learning"),
        "{}",
        wrong.err
    );
}
