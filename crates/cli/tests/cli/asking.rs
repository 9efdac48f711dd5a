//! What a person sees of a call before deciding about it.

use serde_json::json;

use crate::own_command::Desk;

fn desk() -> Desk {
    Desk::new("asks", json!({ "kind": "hostile" }))
}

#[test]
fn whatever_acts_is_seen_by_the_person_who_decides() {
    let desk = desk();
    let waits = desk.run(&["run", "team.yaml", "do it"]).exits(4);
    let run = desk.only_run();
    let shown = desk.run(&["show", &run]).exits(0);
    let questions = desk.run(&["show", &run, "--questions"]).exits(0);
    let json = desk.run(&["show", &run, "--json"]).exits(0);
    for (out, of) in [
        (&waits.err, "run"),
        (&shown.out, "show"),
        (&questions.out, "questions"),
    ] {
        for part in [
            r"echo ok \u{1b}]0;rm -rf ~;\u{7}true",
            "| # a comment",
            "| a\\u{202e}txt.exe",
            "digest ",
            "zz: \"the last\"",
            "⟦redacted 1: 7 characters⟧",
        ] {
            assert!(out.contains(part), "{of} hides {part:?}: {out}");
        }
        assert!(
            !out.contains('\u{1b}') && !out.contains('\u{202e}'),
            "{of}: {out:?}"
        );
        assert!(!out.contains("hunter2"), "{of}: {out}");
    }
    assert!(
        waits.err.contains("lines are not shown here"),
        "{}",
        waits.err
    );
    assert!(questions.out.contains("line 999"), "nothing is folded");
    assert!(
        json.out.contains("rm -rf ~") && !json.out.contains("hunter2"),
        "{}",
        json.out
    );
    let revealed = desk
        .run(&["show", &run, "--questions", "--reveal"])
        .exits(0);
    assert!(
        revealed.out.contains("password: \"hunter2\""),
        "{}",
        revealed.out
    );
}

#[test]
fn an_answer_with_a_digest_is_for_that_call_alone() {
    let desk = desk();
    let waits = desk.run(&["run", "team.yaml", "do it"]).exits(4);
    let run = desk.only_run();
    let (_, told) = waits.err.split_once("--approve --digest ").unwrap();
    let digest = told.split_whitespace().next().unwrap();
    let other = desk
        .run(&["answer", &run, "--approve", "--digest", "00000000"])
        .exits(2);
    assert!(other.err.contains("about another call"), "{}", other.err);
    let done = desk
        .run(&["answer", &run, "--approve", "--digest", digest])
        .exits(0);
    assert_eq!(done.out, "answered true\n");
}

#[cfg(unix)]
#[test]
fn a_person_at_the_terminal_pages_through_all_and_sees_what_is_redacted() {
    let desk = desk();
    let mut terminal = desk.at_terminal(&["run", "team.yaml", "do it"]);
    terminal.exp_string("rm -rf ~").unwrap();
    terminal
        .exp_string("(? shows all of it, ?? also what is redacted)")
        .unwrap();
    terminal.send_line("?").unwrap();
    terminal.exp_string("line 50").unwrap();
    terminal
        .exp_string("(page 1 of 11; ? 2 shows the next)")
        .unwrap();
    terminal.exp_string("[yes / no, because").unwrap();
    terminal.send_line("?? 11").unwrap();
    terminal.exp_string("hunter2").unwrap();
    terminal.exp_string("(page 11 of 11)").unwrap();
    terminal.exp_string("[yes / no, because").unwrap();
    terminal.send_line("yes").unwrap();
    terminal.exp_string("answered true").unwrap();
    terminal.exp_eof().unwrap();
}

#[test]
fn no_secret_leaves_by_the_command_unless_it_is_told_so() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    let said =
        "use sk-proj-abcdefghijklmnop1234, Authorization: ApiKey zxcvbnm, password: swordfish";
    let secrets = ["abcdefghijklmnop1234", "zxcvbnm", "swordfish"];
    let run = desk
        .run(&["run", "team.yaml", said, "--session", "s"])
        .exits(4);
    let id = desk.only_run();
    let reason = "no, because token=hunter2xyz says so";
    let done = desk.run(&["answer", &id, reason]).exits(0);
    assert!(
        done.out.contains("hunter2xyz"),
        "the answer is for who asked: {}",
        done.out
    );
    let session = format!("{}/s", desk.rows()[0]["team"].as_str().unwrap());
    let mut ways = vec![run.err, done.err];
    for way in [
        vec!["show", &id],
        vec!["show", &id, "--json"],
        vec!["runs", "--all"],
        vec!["runs", "--all", "--json"],
        vec!["session", "list"],
        vec!["session", "list", "--json"],
        vec!["session", "show", &session],
        vec!["session", "show", &session, "--json"],
        vec!["recording", "export", &id, "--redact"],
        vec!["session", "export", &session, "--redact"],
    ] {
        let shown = desk.run(&way).exits(0);
        assert!(!(shown.out.clone() + &shown.err).is_empty(), "{way:?}");
        ways.push(format!("{way:?}: {}{}", shown.out, shown.err));
    }
    for way in &ways {
        for secret in secrets.iter().chain([&"hunter2xyz"]) {
            assert!(!way.contains(secret), "{secret} in {way}");
        }
    }
    for (way, whole) in [
        (
            vec!["recording", "export", &id],
            vec!["recording", "export", &id, "--with-secrets"],
        ),
        (
            vec!["session", "export", &session],
            vec!["session", "export", &session, "--with-secrets"],
        ),
    ] {
        let refused = desk.run(&way).exits(2);
        assert!(refused.err.contains("--with-secrets"), "{}", refused.err);
        assert_eq!(refused.out, "");
        assert!(
            desk.run(&whole).exits(0).out.contains("swordfish"),
            "{whole:?}"
        );
    }
}
