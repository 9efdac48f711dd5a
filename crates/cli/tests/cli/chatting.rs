//! A conversation at a terminal, and what a person sees of a text while it is made.

use rexpect::process::WaitStatus;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::own_command::Desk;

const TALE: &str = "Once upon a time there was a lamp.";
/// An agent that asks before it calculates.
const CAREFUL: &str = "\
name: desk
agent:
  name: desk
  tools: [calculator]
  approval: { calculator: true }
";

fn careful() -> Desk {
    let desk = Desk::new("says", serde_json::json!({}));
    desk.write("careful.yaml", CAREFUL);
    desk
}

#[test]
fn a_text_is_read_while_it_is_made_and_once() {
    let desk = Desk::typing(TALE);
    let mut terminal = desk.at_terminal(&["run", "team.yaml", "Tell me a tale"]);
    let (begin, _) = TALE.split_at(TALE.len() / 2);
    terminal.exp_string(begin).unwrap();
    desk.open_gate();
    let rest = terminal.exp_eof().unwrap();
    assert!(rest.contains("there was a lamp."), "{rest:?}");
    assert_eq!(rest.matches("lamp").count(), 1, "{rest:?}");
    assert!(!rest.contains("says:"), "{rest:?}");
}

#[test]
fn a_text_that_is_read_elsewhere_goes_there_whole_and_once() {
    let desk = Desk::typing(TALE);
    desk.open_gate();
    let done = desk.run(&["run", "team.yaml", "Tell me a tale"]).exits(0);
    assert_eq!(done.out, format!("{TALE}\n"));
}

#[test]
fn a_person_talks_approves_takes_back_forks_and_goes_on_later() {
    let desk = careful();
    let mut terminal = desk.shipped_at_terminal(&["chat", "careful.yaml"], &[]);
    terminal.exp_string("/help tells the commands").unwrap();
    terminal.exp_string("> ").unwrap();
    terminal.send_line("What is 6 * 7?").unwrap();
    terminal.exp_string("[yes / no, because").unwrap();
    terminal.send_line("yes").unwrap();
    terminal.exp_string("42").unwrap();
    terminal.exp_string("> ").unwrap();
    for (command, told) in [
        ("/agents", "desk (answers next)"),
        ("/tools", "calculator (read)"),
        ("/save said.md", "saved in said.md"),
        ("/fork other", "session other"),
        ("/undo", "taken back: What is 6 * 7?"),
        ("/nonsense", "there is no /nonsense"),
    ] {
        terminal.send_line(command).unwrap();
        terminal.exp_string(told).unwrap();
        terminal.exp_string("> ").unwrap();
    }
    terminal.send_line("/quit").unwrap();
    terminal.exp_eof().unwrap();
    let ended = terminal.process().wait().unwrap();
    assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
    let said = std::fs::read_to_string(desk.path("said.md")).unwrap();
    assert!(
        said.contains("## What is 6 * 7?") && said.contains("42"),
        "{said}"
    );
    // The fork was taken back, and the first conversation stays whole.
    let first = desk.rows()[0]["session"]["key"]
        .as_str()
        .unwrap()
        .to_owned();
    let went_on = desk.shipped_with(
        &["chat", "careful.yaml", "--session", &first],
        "/session\n",
        &[],
    );
    let err = went_on.exits(0).err;
    assert!(
        err.contains("1 turn so far") && err.contains("What is 6 * 7?"),
        "{err}"
    );
}

#[test]
fn an_interrupt_stops_the_turn_and_two_leave() {
    let desk = Desk::typing(TALE);
    let mut terminal = desk.at_terminal(&["chat", "team.yaml"]);
    terminal.exp_string("> ").unwrap();
    terminal.send_line("Tell me a tale").unwrap();
    terminal.exp_string("Once upon").unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_string("stopping").unwrap();
    terminal.exp_string("stopped").unwrap();
    terminal.exp_string("> ").unwrap();
    assert_eq!(desk.status(), "cancelled");
    // The conversation goes on.
    desk.open_gate();
    terminal.send_line("Once more").unwrap();
    terminal.exp_string("there was a lamp.").unwrap();
    terminal.exp_string("> ").unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_string("once more leaves").unwrap();
    terminal.exp_string("> ").unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_eof().unwrap();
    let ended = terminal.process().wait().unwrap();
    assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
}

#[test]
fn a_window_that_changes_and_a_terminal_without_colours_harm_nothing() {
    let desk = careful();
    let set = [("NO_COLOR", "1")];
    let mut terminal = desk.shipped_at_terminal(&["chat", "careful.yaml", "--yes"], &set);
    resize(&terminal, 40);
    let mut seen = terminal.exp_string("> ").unwrap();
    terminal.send("What is ").unwrap();
    terminal.flush().unwrap();
    resize(&terminal, 20);
    terminal.send_line("6 * 7 + 1000 - 1000 + 2000?").unwrap();
    seen += &terminal.exp_string("2042").unwrap();
    seen += &terminal.exp_string("> ").unwrap();
    // A text of two lines.
    terminal.send_line("What is \\").unwrap();
    terminal.send_line("2 * 4?").unwrap();
    seen += &terminal.exp_string("4 = 8").unwrap();
    terminal.send_line("/quit").unwrap();
    seen += &terminal.exp_eof().unwrap();
    assert_colourless(&seen);
}

#[test]
fn a_run_at_a_terminal_streams_through_a_resize_and_an_interrupt_suspends_it() {
    let desk = Desk::typing(TALE);
    let words = ["run", "team.yaml", "Tell me a tale"];
    let mut terminal = desk.at_terminal_with(&words, &[("NO_COLOR", "1")]);
    resize(&terminal, 20);
    let mut seen = terminal.exp_string("Once upon").unwrap();
    resize(&terminal, 60);
    terminal.send_control('c').unwrap();
    seen += &terminal.exp_string("is suspended").unwrap();
    seen += &terminal.exp_eof().unwrap();
    let ended = terminal.process().wait().unwrap();
    assert!(matches!(ended, WaitStatus::Exited(_, 130)), "{ended:?}");
    assert_colourless(&seen);
    assert!(seen.contains("ghostlight resume"), "{seen:?}");
    // What was half said is asked for again.
    desk.open_gate();
    let mut terminal = desk.at_terminal(&["resume"]);
    let rest = terminal.exp_eof().unwrap();
    assert!(rest.contains("there was a lamp."), "{rest:?}");
}

fn resize(terminal: &rexpect::session::PtySession, columns: u16) {
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal.process().get_file_handle().unwrap(), size).unwrap();
}

fn assert_colourless(seen: &str) {
    for colour in ["\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"] {
        assert!(!seen.contains(colour), "{colour:?} in {seen:?}");
    }
}

#[test]
fn lines_of_a_pipe_are_turns_and_answers() {
    let desk = careful();
    let chat = ["chat", "careful.yaml"];
    let lines = "What is 6 * 7?\nyes\nWhat is \\\n2 * 4?\nno, not today\n";
    let done = desk.shipped_with(&chat, lines, &[]).exits(0);
    assert!(done.out.contains("42"), "{}", done.out);
    assert!(done.err.contains("not today"), "{}", done.err);
    assert!(
        !done.out.contains("> "),
        "there is nobody to prompt: {}",
        done.out
    );
    let went_on = desk.shipped_with(&["chat", "careful.yaml", "-c"], "/undo\n", &[]);
    let err = went_on.exits(0).err;
    assert!(err.contains("2 turns so far"), "{err}");
    assert!(err.contains("taken back: What is 2 * 4?"), "{err}");
    // The last turn's end is the command's.
    let waits = desk.shipped_with(&chat, "What is 6 * 7?\n", &[]).exits(4);
    assert!(waits.err.contains("ghostlight answer"), "{}", waits.err);
}

#[test]
fn without_a_team_one_agent_has_the_built_in_tools() {
    let desk = careful();
    let talk = "What is 6 * 7?\n/tools\n";
    let done = desk.shipped_with(&["chat", "--memory"], talk, &[]).exits(0);
    assert!(done.out.contains("42"), "{}", done.out);
    assert!(
        done.err.contains("team assistant, model offline"),
        "{}",
        done.err
    );
    assert!(done.err.contains("save_artifact"), "{}", done.err);
}
