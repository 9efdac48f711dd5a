//! Processes of one machine, which can see of each other that one has ended.
//!
//! A lost connection does not tell whether its process ended or continues without it. The kernel of the machine on which it ran
//! does: by the number and start of the process, where both share a namespace of such numbers.

use std::fs;

/// The text by which a process is known, as a node writes it: the machine since it was started, the namespace of process
/// numbers, the number and when the process began. `None` where this system does not say so.
pub(crate) fn this() -> Option<String> {
    let number = std::process::id();
    let stat = Stat::read("self")?;
    // The files of another namespace show other numbers.
    (stat.number == number).then_some(())?;
    Some(format!("{} {number} {}", machine()?, stat.began))
}

/// Whether a process that was known by this text has surely ended. `false` where it may go on, also on another machine.
pub(crate) fn has_ended(process: &str) -> bool {
    ended(process).unwrap_or(false)
}

fn ended(process: &str) -> Option<bool> {
    let (place, began) = process.rsplit_once(' ')?;
    let (place, number) = place.rsplit_once(' ')?;
    (place == machine()?).then_some(())?;
    if !is_there(number.parse().ok()?)? {
        return Some(true);
    }
    let stat = Stat::read(number)?;
    Some(stat.began != began || stat.is_over)
}

/// Whether a process has this number, be it one whose files are hidden from this user.
#[cfg(unix)]
fn is_there(number: i32) -> Option<bool> {
    let process = rustix::process::Pid::from_raw(number)?;
    let signalled = rustix::process::test_kill_process(process);
    Some(signalled != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_there(_: i32) -> Option<bool> {
    None
}

/// The machine since it was started, and the namespace of process numbers.
fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), space.to_str()?))
}

/// The facts of a process in its file `stat`: see proc_pid_stat(5).
struct Stat {
    number: u32,
    /// When it began, in ticks since the machine was started.
    began: String,
    /// Whether it runs no code any more, and only waits for its parent to hear of that.
    is_over: bool,
}

impl Stat {
    fn read(process: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let (number, rest) = stat.split_once(' ')?;
        // The name of the program, in parentheses, may have any characters.
        let (_, rest) = rest.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let (state, threads, began) = (fields.first()?, fields.get(17)?, fields.get(19)?);
        Some(Self {
            number: number.parse().ok()?,
            began: (*began).to_owned(),
            // Its other threads may outlive the first one.
            is_over: *state == "Z" && *threads == "1",
        })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{
        process::{Child, Command, Stdio},
        time::{Duration, Instant},
    };

    use proptest::prelude::*;

    use super::*;

    fn sleeper() -> (Child, String) {
        let mut sleep = Command::new("sleep");
        let child = sleep.arg("600").stdin(Stdio::null()).spawn().unwrap();
        let began = Stat::read(&child.id().to_string()).unwrap().began;
        let known = format!("{} {} {began}", machine().unwrap(), child.id());
        (child, known)
    }

    #[test]
    fn a_process_has_ended_once_it_runs_no_more_code() {
        let (mut child, known) = sleeper();
        assert!(!has_ended(&known));
        child.kill().unwrap();
        let killed = Instant::now();
        while !has_ended(&known) && killed.elapsed() < Duration::from_secs(30) {
            std::thread::yield_now();
        }
        assert!(has_ended(&known), "its parent has not heard of it yet");
        child.wait().unwrap();
        assert!(has_ended(&known));
    }

    #[test]
    fn a_frozen_process_has_not_ended() {
        let (mut child, known) = sleeper();
        let stop = Command::new("kill")
            .args(["-STOP", &child.id().to_string()])
            .status();
        assert!(stop.unwrap().success());
        assert!(!has_ended(&known));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_the_number_of_another_one_is_not_that_one() {
        let this = this().unwrap();
        assert!(!has_ended(&this));
        let (place, began) = this.rsplit_once(' ').unwrap();
        let earlier = began.parse::<u64>().unwrap() - 1;
        assert!(has_ended(&format!("{place} {earlier}")));
    }

    #[test]
    fn nothing_is_known_of_processes_elsewhere() {
        let (mut child, known) = sleeper();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_ended(&known));
        let (boot, rest) = known.split_once(' ').unwrap();
        assert!(!has_ended(&format!("{boot}-of-another {rest}")));
        let (space, rest) = rest.split_once(' ').unwrap();
        assert!(!has_ended(&format!("{boot} {space}-of-another {rest}")));
    }

    proptest! {
        #[test]
        fn any_text_of_a_process_is_read(stat in "\\PC*", known in "\\PC*") {
            let _ = Stat::parse(&stat);
            prop_assert!(!has_ended(&known));
        }

        #[test]
        fn a_program_of_any_name_is_read(name in "\\PC*", began: u64, threads in 1_u32..3) {
            let before = "Z 1 2 3 0 -1 4 5 6 7 8 9 10 11 12 20 0";
            let stat = Stat::parse(&format!("42 ({name}) {before} {threads} 0 {began} 13 14\n")).unwrap();
            prop_assert_eq!((stat.number, stat.began), (42, began.to_string()));
            prop_assert_eq!(stat.is_over, threads == 1);
        }
    }
}
