use serde_json::json;

use crate::own_command::Desk;

#[test]
fn a_question_ends_the_process_and_its_answer_goes_on() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    let waits = desk.run(&["run", "team.yaml", "send it"]).exits(4);
    let run = desk.only_run();
    assert_eq!(waits.out, "");
    assert!(
        waits.err.contains("Shall I send it?") && waits.err.contains("to: \"Ann\""),
        "{}",
        waits.err
    );
    assert!(
        waits
            .err
            .contains(&format!("ghostlight answer {run} --approve")),
        "{}",
        waits.err
    );
    assert_eq!(desk.status(), "waiting");
    // It goes on waiting, however often it is recovered.
    desk.run(&["resume"]).exits(4);
    let done = desk.run(&["answer", &run, "--deny", "too late"]).exits(0);
    assert_eq!(
        done.out,
        "answered {\"approved\":false,\"reason\":\"too late\"}\n"
    );
    assert_eq!(desk.status(), "answered");
    desk.run(&["answer", &run, "--approve"]).exits(2);
}

#[test]
fn yes_approves_and_decides_nothing_else() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    let done = desk.run(&["run", "team.yaml", "send it", "--yes"]).exits(0);
    assert_eq!(done.out, "answered true\n");
    let desk = Desk::new("asks", json!({ "kind": "choice" }));
    desk.run(&["run", "team.yaml", "paint it", "--yes"])
        .exits(4);
}

#[test]
fn a_decision_that_says_two_things_is_none() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    desk.run(&["run", "team.yaml", "send it"]).exits(4);
    let decision = r#"{"approved": false, "approved": true}"#;
    let wrong = desk.run(&["answer", &desk.only_run(), decision]).exits(2);
    assert!(wrong.err.contains("approved stands twice"), "{}", wrong.err);
    assert_eq!(desk.status(), "waiting");
}

#[test]
fn an_answer_must_fit_its_question() {
    let desk = Desk::new("asks", json!({ "kind": "choice" }));
    desk.run(&["run", "team.yaml", "paint it"]).exits(4);
    let run = desk.only_run();
    let wrong = desk.run(&["answer", &run, "green"]).exits(2);
    assert!(wrong.err.contains("red, blue"), "{}", wrong.err);
    let wrong = desk.run(&["answer", &run, "--approve"]).exits(2);
    assert!(wrong.err.contains("Which colour?"), "{}", wrong.err);
    let done = desk.run(&["answer", &run, "BLUE"]).exits(0);
    assert_eq!(done.out, "answered \"blue\"\n");
}

#[test]
fn one_of_several_questions_is_named_by_its_operation() {
    let desk = Desk::new("asks", json!({ "kind": "two" }));
    let waits = desk.run(&["run", "team.yaml", "hello"]).exits(4);
    let run = desk.only_run();
    let commands: Vec<&str> = waits
        .err
        .lines()
        .filter(|line| line.contains("ghostlight answer"))
        .collect();
    assert_eq!(commands.len(), 2, "{}", waits.err);
    let unclear = desk.run(&["answer", &run, "Ann"]).exits(2);
    assert!(
        unclear.err.contains("Name?") && unclear.err.contains("Age?"),
        "{}",
        unclear.err
    );
    // The commands that it recommended work.
    let operation = |line: &str| line.split_whitespace().nth(3).unwrap().to_owned();
    desk.run(&["answer", &run, &operation(commands[0]), "Ann"])
        .exits(4);
    let done = desk
        .run(&["answer", &run, &operation(commands[1]), "41"])
        .exits(0);
    assert_eq!(done.out, "\"Ann\" and \"41\"\n");
}

#[test]
fn a_living_run_is_answered_from_another_process() {
    let desk = Desk::new("asks_at_work", json!({ "kind": "approval" }));
    let living = desk.start(&["run", "team.yaml", "send it"]);
    desk.until("the question", |desk| {
        let rows = desk.rows();
        rows.len() == 1 && {
            let run = rows[0]["run"].as_str().unwrap();
            desk.shipped(&["show", run]).out.contains("asks (")
        }
    });
    let run = desk.only_run();
    let answered = desk.run(&["answer", &run, "--approve"]).exits(0);
    assert!(
        answered.err.contains("the process that carries it"),
        "{}",
        answered.err
    );
    desk.open_gate();
    let done = living.ends().exits(0);
    assert_eq!(done.out, "answered true\n");
    assert!(done.err.contains("was answered: yes"), "{}", done.err);
}

#[test]
fn a_secret_is_given_only_where_the_run_is_carried() {
    let desk = Desk::new("asks_at_work", json!({ "kind": "authentication" }));
    let living = desk.start(&["run", "team.yaml", "send it"]);
    desk.until("the question", |desk| {
        let rows = desk.rows();
        rows.len() == 1 && {
            let run = rows[0]["run"].as_str().unwrap();
            desk.shipped(&["show", run]).out.contains("asks (")
        }
    });
    let run = desk.only_run();
    let refused = desk.run_with(&["answer", &run, "-"], "hunter2\n").exits(6);
    assert!(
        refused.err.contains("the secret was not given"),
        "{}",
        refused.err
    );
    desk.open_gate();
    // Nobody at that process can be asked.
    living.ends().exits(4);
    let done = desk.run_with(&["answer", &run, "-"], "hunter2\n").exits(0);
    assert_eq!(done.out, "answered {\"given\":true}\n");
}

#[cfg(unix)]
#[test]
fn a_person_at_the_terminal_is_asked_until_the_answer_is_one() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    let mut terminal = desk.at_terminal(&["run", "team.yaml", "send it"]);
    terminal.exp_string("Shall I send it?").unwrap();
    terminal.exp_string("[yes / no, because").unwrap();
    terminal.send_line("perhaps").unwrap();
    terminal.exp_string("answer yes, or no").unwrap();
    terminal.exp_string("[yes / no, because").unwrap();
    terminal.send_line("no, too late").unwrap();
    terminal
        .exp_string("answered {\"approved\":false,\"reason\":\"too late\"}")
        .unwrap();
    terminal.exp_eof().unwrap();
    assert_eq!(desk.status(), "answered");
}

#[cfg(unix)]
#[test]
fn what_was_typed_before_a_question_was_put_does_not_answer_it() {
    let desk = Desk::new("asks", json!({ "kind": "one_after_the_other" }));
    let mut terminal = desk.at_terminal(&["run", "team.yaml", "send it"]);
    // Nothing was shown yet.
    terminal.send("yes\nyes\n").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("send it to Ann?").unwrap();
    terminal.exp_string("[yes / no, because").unwrap();
    // The first line is an answer, and the second came before the next question, as did the
    // beginning of a line.
    terminal.send("yes\nyes\nye").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("send it to Bob?").unwrap();
    terminal.exp_string("[yes / no, because").unwrap();
    terminal.send_line("no").unwrap();
    terminal.exp_string("true and false").unwrap();
    terminal.exp_eof().unwrap();
}

#[cfg(unix)]
#[test]
fn an_interrupt_at_the_terminal_leaves_the_question_open() {
    let desk = Desk::new("asks", json!({ "kind": "approval" }));
    let mut terminal = desk.at_terminal(&["run", "team.yaml", "send it"]);
    terminal.exp_string("[yes / no, because").unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_string("is suspended").unwrap();
    terminal.exp_eof().unwrap();
    let run = desk.only_run();
    desk.run(&["answer", &run, "--approve"]).exits(0);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_wait_for_a_secret() {
    use rexpect::process::WaitStatus;
    let desk = Desk::new("asks", json!({ "kind": "authentication" }));
    desk.run(&["run", "team.yaml", "send it"]).exits(4);
    let run = desk.only_run();
    let mut terminal = desk.at_terminal(&["answer", &run, "-"]);
    terminal
        .exp_string("[is not shown; nothing refuses]")
        .unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_eof().unwrap();
    let ended = terminal.process().wait().unwrap();
    assert!(matches!(ended, WaitStatus::Exited(_, 130)), "{ended:?}");
    assert_eq!(desk.status(), "waiting");
    let mut terminal = desk.at_terminal(&["answer", &run, "-"]);
    terminal
        .exp_string("[is not shown; nothing refuses]")
        .unwrap();
    terminal.send_line("hunter2").unwrap();
    let shown = terminal.exp_string("answered {\"given\":true}").unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[cfg(unix)]
#[test]
fn a_secret_is_not_shown_while_it_is_typed_and_other_answers_are() {
    let desk = Desk::new("asks", json!({ "kind": "authentication" }));
    let mut terminal = desk.at_terminal(&["run", "team.yaml", "send it"]);
    terminal.exp_string("Your code?").unwrap();
    terminal
        .exp_string("[is not shown; nothing refuses]")
        .unwrap();
    terminal.send_line("hunter2").unwrap();
    let shown = terminal.exp_string("answered {\"given\":true}").unwrap();
    let rest = terminal.exp_eof().unwrap();
    assert!(!(shown + &rest).contains("hunter2"));
    let desk = Desk::new("asks", json!({ "kind": "text" }));
    let mut terminal = desk.at_terminal(&["run", "team.yaml", "who"]);
    // The timeline tells the question before it is put.
    terminal.exp_string("What is your name? >").unwrap();
    terminal.send_line("Ann").unwrap();
    terminal.exp_string("Ann\r\n").unwrap();
    terminal.exp_string("answered \"Ann\"").unwrap();
}

#[cfg(unix)]
#[test]
fn a_tool_that_blocks_its_thread_does_not_keep_an_interrupted_command() {
    use rexpect::process::WaitStatus;
    let desk = Desk::new("blocks", json!({ "in": "step" }));
    // With one thread alone, as on a machine with one processor, the step would hold up its run.
    let threads = [("TOKIO_WORKER_THREADS", "2")];
    let mut terminal = desk.at_terminal_with(&["run", "team.yaml", "go"], &threads);
    terminal.exp_string("waits").unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_string("is suspended").unwrap();
    terminal.exp_eof().unwrap();
    let ended = terminal.process().wait().unwrap();
    assert!(matches!(ended, WaitStatus::Exited(_, 130)), "{ended:?}");
}

#[cfg(unix)]
#[test]
fn a_second_interrupt_ends_what_does_not_stop_by_itself() {
    use rexpect::process::WaitStatus;
    // Also where its code blocks every thread that there is.
    for threads in ["1", "2"] {
        let desk = Desk::new("blocks", json!({ "in": "function" }));
        let threads = [("TOKIO_WORKER_THREADS", threads)];
        let mut terminal = desk.at_terminal_with(&["run", "team.yaml", "go"], &threads);
        desk.until("code that blocks", |desk| desk.firsts() == 1);
        terminal.send_control('c').unwrap();
        terminal.exp_string("is suspended").unwrap();
        // With a thread that is free it may leave by itself, and then nobody hears the second one.
        if threads[0].1 == "1" {
            assert_eq!(terminal.process().status(), Some(WaitStatus::StillAlive));
        }
        let _ = terminal.send_control('c');
        terminal.exp_eof().unwrap();
        let ended = terminal.process().wait().unwrap();
        assert!(matches!(ended, WaitStatus::Exited(_, 130)), "{ended:?}");
    }
}
