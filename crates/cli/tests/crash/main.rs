//! Kill the real command at any instant, start it again, and it goes on.
//!
//! The test starts itself as the command (`ghostlight_cli` with three tools that leave a trace
//! in a file outside the store), kills it with SIGKILL, resumes it, and compares.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[cfg(feature = "full")]
mod evaluations;
#[cfg(feature = "full")]
#[path = "../../../postgres/tests/postgres/server.rs"]
#[allow(dead_code)]
mod server;
mod subject;

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

#[cfg(feature = "full")]
use ghostlight::stores::PostgresStore;
use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    contract::{DynStore as _, Entropy, RunFilter, RunStatus, SeededEntropy, StoreHandle},
    vocabulary::{Begun, Entry, QuestionKind},
};

#[test]
fn subject_of_the_kills() {
    subject::run_if_asked();
}

/// Where the runs are kept: in a file of each scene's own, or in a database of its own on this server.
#[derive(Clone, Copy)]
enum Keep<'s> {
    File(std::marker::PhantomData<&'s ()>),
    #[cfg(feature = "full")]
    Database(&'s server::Server),
}

const FILE: Keep<'static> = Keep::File(std::marker::PhantomData);

/// The status of a root run, and the entries of its tree with their runs.
type Tree = (RunStatus, Vec<(String, Entry)>);

/// One store, one effect log, one run.
struct Scene {
    folder: PathBuf,
    store: String,
    effects: PathBuf,
}

impl Scene {
    fn new(keep: Keep<'_>, name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("crash-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = match keep {
            Keep::File(_) => folder.join("store.db").to_str().unwrap().to_owned(),
            #[cfg(feature = "full")]
            Keep::Database(server) => server.database(&name.replace('-', "_")),
        };
        Self {
            store,
            effects: folder.join("effects"),
            folder,
        }
    }

    async fn open(&self) -> Option<StoreHandle> {
        #[cfg(feature = "full")]
        if self.store.starts_with("postgres:") {
            return PostgresStore::open(&self.store)
                .await
                .ok()
                .map(StoreHandle::new);
        }
        SqliteStore::open_read_only(&self.store)
            .ok()
            .map(StoreHandle::new)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut all = vec!["ghostlight", arguments[0], "--store", &self.store];
        all.extend(&arguments[1..]);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["subject_of_the_kills", "--exact", "--nocapture"])
            .env(subject::ARGUMENTS, serde_json::to_string(&all).unwrap())
            .env(subject::EFFECTS, &self.effects)
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("GEMINI_API_KEY")
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn begin(&self) -> Command {
        self.begin_as("team.yaml")
    }

    fn begin_as(&self, team: &str) -> Command {
        let team = format!("{}/tests/crash/{team}", env!("CARGO_MANIFEST_DIR"));
        self.command(&["run", &team, "go", "--session", "s", "--turn-id", "t"])
    }

    /// The status of the root run and the entries of the whole tree, as another process sees
    /// them. Nothing while the store is not there yet.
    fn look(&self) -> Option<Tree> {
        self.trees()?.pop()
    }

    /// The same of each root run.
    fn trees(&self) -> Option<Vec<Tree>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = self.open().await?;
            let mut filter = RunFilter::default();
            filter.roots = true;
            let mut trees = Vec::new();
            for row in store.runs(filter).await.ok()? {
                let lines = store.read_tree(row.run, 0, 100_000).await.ok()?;
                let entry = |run: &dyn std::fmt::Display, text| (run.to_string(), text);
                let entries = lines
                    .iter()
                    .map(|l| entry(&l.run, l.stored.line.decode().unwrap()))
                    .collect();
                trees.push((row.status, entries));
            }
            store.close().await.ok()?;
            Some(trees)
        })
    }

    /// Keys of the calls whose result is recorded.
    fn recorded(&self) -> BTreeSet<String> {
        let trees = self.trees().unwrap_or_default();
        let entries = trees.iter().flat_map(|(_, entries)| entries);
        let completed = entries.filter_map(|(run, entry)| match entry {
            Entry::Completed { op, kind, .. } if kind == "tool" => Some(format!("{run}/{op}")),
            _ => None,
        });
        completed.collect()
    }

    /// Goes on after a kill: resumes, answers what is asked, and gives the answer.
    fn finish(&self) -> String {
        for _ in 0..8 {
            let status = self.look().map(|(status, _)| status);
            let output = match status {
                // Killed before anything was recorded: the turn is sent again.
                None => run(&mut self.begin()),
                Some(RunStatus::Waiting) => {
                    // It may also have been killed while it waited for its timer.
                    self.answer_what_is_asked();
                    run(&mut self.command(&["resume", &self.run_id()]))
                }
                Some(RunStatus::Answered) => return self.answer(),
                Some(_) => run(&mut self.command(&["resume", &self.run_id()])),
            };
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 4)), "{output:?}");
        }
        panic!("the run does not come to its end: {:?}", self.look());
    }

    /// Answers what is asked, if anything is.
    fn answer_what_is_asked(&self) {
        let Some(mut answer) = self.answer_to_what_is_asked() else {
            return;
        };
        let answered = run(&mut answer);
        assert!(
            matches!(answered.status.code(), Some(0 | 4)),
            "{answered:?}"
        );
    }

    /// The command that answers what is asked: blue to the question, and yes to the approval.
    fn answer_to_what_is_asked(&self) -> Option<Command> {
        let said = match self.open_question()? {
            QuestionKind::Approval => "--approve",
            _ => "blue",
        };
        Some(self.command(&["answer", &self.run_id(), said]))
    }

    fn open_question(&self) -> Option<QuestionKind> {
        let mut open = None;
        for (_, entry) in self.look()?.1 {
            match entry {
                Entry::Started {
                    op,
                    begun: Begun::Question(question),
                    ..
                } => open = Some((op, question.kind)),
                Entry::Completed { op, .. } => {
                    open = open.filter(|(asked, _)| *asked != op);
                }
                _ => {}
            }
        }
        open.map(|(_, kind)| kind)
    }

    /// The chains of hashes of the whole store hold.
    fn verify(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            #[cfg(feature = "full")]
            if self.store.starts_with("postgres:") {
                let store = PostgresStore::open(&self.store).await.unwrap();
                store.verify().await.unwrap();
                return store.close().await.unwrap();
            }
            let store = SqliteStore::open_read_only(&self.store).unwrap();
            store.verify().await.unwrap();
            store.close().await.unwrap();
        });
    }

    fn run_id(&self) -> String {
        let entries = self.look().unwrap().1;
        entries[0].0.clone()
    }

    fn answer(&self) -> String {
        let (_, entries) = self.look().unwrap();
        let root = entries[0].0.clone();
        let ends = entries.iter().filter_map(|(run, entry)| match entry {
            Entry::RunEnded(end) if *run == root => end.outcome(),
            _ => None,
        });
        let ends: Vec<_> = ends.collect();
        assert_eq!(ends.len(), 1, "one end");
        ends[0].clone().unwrap().text().to_owned()
    }
}

impl Drop for Scene {
    /// What failed is left for inspection.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::fs::remove_dir_all(&self.folder).unwrap();
        }
    }
}

fn run(command: &mut Command) -> Output {
    let child = command.spawn().unwrap();
    wait(child)
}

/// Waits for a process, but not for ever.
fn wait(child: Child) -> Output {
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    receiver
        .recv_timeout(Duration::from_secs(300))
        .unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            panic!("the command hangs")
        })
}

/// What was done more often than its class allows. `before` holds what was recorded when the
/// process was killed, `done` how many lines the log had then.
fn violations(scene: &Scene, before: &BTreeSet<String>, done: usize) -> Vec<String> {
    let effects = subject::effects(&scene.effects);
    let mut times: BTreeMap<&(String, String), usize> = BTreeMap::new();
    for effect in &effects {
        *times.entry(effect).or_default() += 1;
    }
    let once = ["charge", "wipe"];
    let twice = times
        .iter()
        .filter(|((tool, _), times)| once.contains(&tool.as_str()) && **times > 1);
    let mut found: Vec<String> = twice
        .map(|((tool, key), times)| format!("{tool} {key} ran {times} times"))
        .collect();
    let again = effects[done.min(effects.len())..]
        .iter()
        .filter(|(_, key)| before.contains(key));
    found.extend(again.map(|(tool, key)| format!("{tool} {key} was recorded and ran again")));
    found
}

/// How many calls of each tool ran more than once.
fn repeats(scene: &Scene) -> BTreeMap<String, usize> {
    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    for effect in subject::effects(&scene.effects) {
        *times.entry(effect).or_default() += 1;
    }
    let mut repeats = BTreeMap::new();
    for ((tool, _), _) in times.into_iter().filter(|(_, times)| *times > 1) {
        *repeats.entry(tool).or_default() += 1;
    }
    repeats
}

/// What came of some kills.
#[derive(Default)]
struct Tally {
    kills: usize,
    in_the_middle: usize,
    repeats: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, killed: Killed) {
        self.kills += 1;
        self.in_the_middle += usize::from(killed.in_the_middle);
        for (tool, times) in killed.repeats {
            *self.repeats.entry(tool).or_default() += times;
        }
    }

    /// Everything that was lost has failed the test before.
    #[allow(clippy::print_stdout)]
    fn print(&self, when: &str) {
        let of = |tools: &[&str]| -> usize {
            let times = tools.iter().filter_map(|tool| self.repeats.get(*tool));
            times.sum()
        };
        println!(
            "{} kills {when}, {} in the middle of work, 0 lost; calls that ran again: {} read, {} \
             idempotent, {} once",
            self.kills,
            self.in_the_middle,
            of(&["look"]),
            of(&["put"]),
            of(&["charge", "wipe"]),
        );
    }
}

struct Killed {
    in_the_middle: bool,
    repeats: BTreeMap<String, usize>,
}

/// What a run comes to that nobody kills.
struct Undisturbed {
    answer: String,
    entries: usize,
    effects: usize,
}

fn undisturbed(keep: Keep<'_>, beside: &str) -> Undisturbed {
    let scene = Scene::new(keep, &format!("undisturbed-{beside}"));
    until_it_asks(&scene);
    Undisturbed {
        answer: scene.finish(),
        entries: scene.look().unwrap().1.len(),
        effects: subject::effects(&scene.effects).len(),
    }
}

/// How long it takes on this machine, as busy as it is, until it asks.
fn until_it_asks(scene: &Scene) -> Duration {
    let begun = Instant::now();
    let output = run(&mut scene.begin());
    let took = begun.elapsed();
    assert_eq!(
        output.status.code(),
        Some(4),
        "it waits for an answer: {output:?}"
    );
    took
}

/// Kills by `kill`, goes on, and holds the end against an undisturbed run's.
fn check(keep: Keep<'_>, name: &str, expected: &str, kill: impl FnOnce(&Scene)) -> Killed {
    let scene = Scene::new(keep, name);
    kill(&scene);
    let (before, done) = (scene.recorded(), subject::effects(&scene.effects).len());
    let in_the_middle = scene
        .look()
        .is_some_and(|(status, _)| status == RunStatus::Running);
    assert_eq!(scene.finish(), expected, "{name}");
    assert_eq!(
        violations(&scene, &before, done),
        Vec::<String>::new(),
        "{name}"
    );
    scene.verify();
    Killed {
        in_the_middle,
        repeats: repeats(&scene),
    }
}

/// Starts the run, and kills it when its tree has so many entries. A run that comes to its
/// question first is answered, so that what follows is killed too.
fn kill_at_entry(scene: &Scene, entries: usize) {
    let mut child = scene.begin().spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if scene.look().is_some_and(|(_, have)| have.len() >= entries) {
            break;
        }
        if child.try_wait().unwrap().is_some() {
            if scene.look().is_some_and(|(status, _)| status.is_ended()) {
                break;
            }
            scene.answer_what_is_asked();
            child = scene.command(&["resume", &scene.run_id()]).spawn().unwrap();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_at_every_operation_boundary_it_goes_on_to_the_same_end() {
    let Undisturbed {
        answer, entries, ..
    } = undisturbed(FILE, "boundaries");
    assert!(entries >= 40, "{entries} entries");
    let mut tally = Tally::default();
    let enough = entries / 4;
    // Where the machine is too busy to see each boundary in time, again.
    for (kill, at) in (1..=entries).cycle().take(4 * entries).enumerate() {
        if kill >= entries && tally.in_the_middle > enough {
            break;
        }
        tally.add(check(FILE, &format!("at-{at}"), &answer, |scene| {
            kill_at_entry(scene, at);
        }));
    }
    tally.print("at operation boundaries");
    let in_the_middle = tally.in_the_middle;
    assert!(
        in_the_middle > enough,
        "only {in_the_middle} kills came while it was at work"
    );
}

#[test]
fn killed_in_the_middle_of_every_effect_it_repeats_only_what_may_be_repeated() {
    let (struck, effects) = killed_in_every_effect(FILE, "in");
    assert_eq!(struck, effects, "each kill strikes at work");
}

/// Each life is a process of its own, as on another machine: what the dead one owned is free at once.
#[cfg(feature = "full")]
#[test]
fn killed_over_postgresql_another_process_goes_on_to_the_same_end() {
    if server::is_left_out() {
        return;
    }
    let server = server::Server::quick();
    // A commit of the dead process may come to its end on the server after it.
    let (struck, effects) = killed_in_every_effect(Keep::Database(&server), "pg");
    assert!(
        struck > effects / 2,
        "{struck} of {effects} kills struck at work"
    );
}

/// How many kills came while the run was at work, and how many came.
fn killed_in_every_effect(keep: Keep<'_>, name: &str) -> (usize, usize) {
    let Undisturbed {
        answer, effects, ..
    } = undisturbed(keep, &format!("{name}-effects"));
    assert!(effects >= 15, "{effects} effects");
    let mut tally = Tally::default();
    for at in 1..=effects {
        let mut struck = None;
        let killed = check(keep, &format!("{name}-{at}"), &answer, |scene| {
            struck = Some(kill_in_effect(scene, at));
        });
        let struck = struck.unwrap();
        let may_be_repeated = ["look", "put"].contains(&struck.as_str());
        assert!(
            !may_be_repeated || killed.repeats.contains_key(&struck),
            "{struck}, the effect {at}, was left half done"
        );
        tally.add(killed);
    }
    tally.print("in the middle of an effect");
    (tally.in_the_middle, effects)
}

/// Lets the process kill itself in the middle of this effect, counted from 1, and tells of which
/// tool it is.
fn kill_in_effect(scene: &Scene, at: usize) -> String {
    let number = at.to_string();
    let mut next = scene.begin();
    let output = loop {
        let output = run(next.env(subject::KILL_AT, &number));
        match output.status.code() {
            // It comes to its questions before that effect.
            Some(4) => next = scene.answer_to_what_is_asked().unwrap(),
            _ => break output,
        }
    };
    let signal = output.status.signal();
    assert_eq!(signal, Some(9), "no kill in the effect {at}: {output:?}");
    subject::effects(&scene.effects)[at - 1].0.clone()
}

/// `GHOSTLIGHT_KILLS=1000 cargo nextest run --test crash random --no-capture` is the soak.
#[test]
fn killed_at_random_times_it_goes_on_to_the_same_end() {
    let kills: u64 = std::env::var("GHOSTLIGHT_KILLS").map_or(40, |kills| kills.parse().unwrap());
    let answer = undisturbed(FILE, "random").answer;
    let chance = SeededEntropy::new(kills);
    let mut tally = Tally::default();
    let mut most = Duration::ZERO;
    for kill in 0..kills {
        if kill % 10 == 0 {
            // What else the machine does comes and goes.
            most = until_it_asks(&Scene::new(FILE, &format!("measured-{kill}")));
        }
        tally.add(check(FILE, &format!("after-{kill}"), &answer, |scene| {
            // One in three is killed a second time, while it is recovering.
            let mut child = scene.begin().spawn().unwrap();
            kill_within(most, &mut child, &chance);
            if chance.fraction() < 0.33 && scene.look().is_some() {
                let mut again = scene.command(&["resume", &scene.run_id()]).spawn().unwrap();
                kill_within(most / 2, &mut again, &chance);
            }
        }));
    }
    tally.print("at random times");
    let in_the_middle = tally.in_the_middle;
    assert!(
        in_the_middle as u64 >= kills / 10,
        "only {in_the_middle} of {kills} kills came while it was at work"
    );
}

fn kill_within(most: Duration, child: &mut Child, chance: &SeededEntropy) {
    std::thread::sleep(most.mul_f64(chance.fraction()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_function_that_ends_its_process_with_its_first_step_is_counted_in_its_journal() {
    let scene = Scene::new(FILE, "fatal");
    let signal = |output: Output| output.status.signal();
    let mut deaths = vec![signal(run(&mut scene.begin_as("fatal.yaml")))];
    for _ in 0..3 {
        deaths.push(signal(
            run(&mut scene.command(&["resume", &scene.run_id()])),
        ));
    }
    assert!(deaths.iter().all(Option::is_some), "{deaths:?}");
    let (_, entries) = scene.look().unwrap();
    let counts = entries.iter().filter_map(|(_, entry)| match entry {
        Entry::Activated { interrupted, .. } => Some(*interrupted),
        _ => None,
    });
    assert_eq!(counts.collect::<Vec<_>>(), [0, 1, 2]);
}
