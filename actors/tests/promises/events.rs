//! Events: live and replayed are one sequence, and a slow reader delays nobody.

use std::time::Duration;

use ghostlight_actors::{
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, RunContext},
    testing::ScriptedModel,
    vocabulary::{
        AgentError, Arguments, Effect, Event, EventRecord, Message, Outcome, Preview, Question,
        Role, RunResult, StopReason, ToolDefinition,
    },
};
use serde_json::json;

use crate::stage::{Stage, ask, call, pause, text};

fn talker(stage: &Stage) -> Agent {
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        cx.emit("helping", &true);
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Outcome::answer("helped"))
    });
    Agent::from_fn("talker", |cx: RunContext| async move {
        let request = cx.model_request(cx.conversation()).streaming();
        cx.model(request).await?;
        let helped = cx.delegate("helper", "help").await?;
        cx.tools([call("1", "look"), call("2", "look")]).await?;
        Ok(Outcome::answer(helped.text))
    })
    .tool(stage.tool("look", Effect::Read, 50))
    .agent(helper)
}

fn recorded(events: &[EventRecord]) -> Vec<EventRecord> {
    let recorded = events.iter().filter(|event| event.sequence.is_some());
    recorded.cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn three_readers_one_of_them_slow_see_what_is_read_afterwards() {
    let stage = Stage::new();
    let system = stage
        .start_with(talker(&stage), ScriptedModel::turns(["one two three"]))
        .await;
    let run = ask(&system, "talker", "go").await;
    let readers: Vec<_> = [0, 0, 400]
        .into_iter()
        .map(|slow| {
            let mut events = run.events();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while let Some(event) = events.next().await {
                    seen.push(event.unwrap());
                    if slow > 0 {
                        pause(slow).await;
                    }
                }
                seen
            })
        })
        .collect();
    let began = tokio::time::Instant::now();
    assert_eq!(text(&run).await, "helped");
    assert!(
        began.elapsed() < Duration::from_millis(1500),
        "a reader delayed it"
    );
    let afterwards = run.events().so_far().await.unwrap();
    assert!(matches!(
        afterwards.last().unwrap().event,
        Event::RunEnded { .. }
    ));
    assert!(afterwards.windows(2).all(|two| two[0].id() != two[1].id()
        && (two[0].position, two[0].part) < (two[1].position, two[1].part)));
    let mut previews = 0;
    for reader in readers {
        let seen = reader.await.unwrap();
        previews += seen.len() - recorded(&seen).len();
        assert_eq!(recorded(&seen), afterwards);
    }
    assert!(previews > 0, "nobody saw a preview");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_panics_ends_no_run() {
    let stage = Stage::new();
    let system = stage
        .start_with(talker(&stage), ScriptedModel::turns(["one"]))
        .await;
    let run = ask(&system, "talker", "go").await;
    let mut events = run.events();
    let reader = tokio::spawn(async move {
        events.next().await;
        panic!("as asked");
    });
    assert_eq!(text(&run).await, "helped");
    assert!(reader.await.unwrap_err().is_panic());
}

/// What the last event says of a run of this agent, as a reader sees it live.
async fn last_word(stage: &Stage, agent: Agent, cancel: bool) -> RunResult {
    let system = stage.start(agent).await;
    let run = ask(&system, "ends", "go").await;
    let mut events = run.events();
    if cancel {
        pause(10).await;
        assert!(run.cancel("enough").await.unwrap());
    }
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.unwrap().event);
    }
    match last {
        Some(Event::RunEnded { end, .. }) => end,
        other => panic!("the last event is {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_event_says_how_a_run_ended_whichever_way_it_did() {
    let stage = Stage::new();
    let answers = Agent::from_fn("ends", |_| async { Ok(Outcome::answer("yes")) });
    let answered = last_word(&stage, answers, false).await;
    assert_eq!(answered, RunResult::Answered("yes".to_owned()));
    let error = AgentError::failed("broken");
    let fails = error.clone();
    let fails = Agent::from_fn("ends", move |_| std::future::ready(Err(fails.clone())));
    let failed = last_word(&stage, fails, false).await;
    assert_eq!(failed, RunResult::Failed(error));
    // An error that comes when it is being cancelled does not take the place of that.
    let waits = Agent::from_fn("ends", |cx: RunContext| async move {
        cx.sleep(Duration::from_secs(900)).await?;
        Err(AgentError::failed("too late"))
    });
    let stopped = last_word(&stage, waits, true).await;
    let reason = StopReason::Cancelled("enough".to_owned());
    assert_eq!(stopped, RunResult::Stopped(reason));
}

/// Whichever comes first is what the run ended with, and the last event is that one and the only one of its sort.
#[tokio::test(start_paused = true)]
async fn of_an_error_a_cancellation_and_an_answer_the_one_that_was_recorded_first_is_told() {
    let (mut stopped, mut others) = (0, 0);
    for fails in [false, true] {
        for at in 0..30 {
            let stage = Stage::new();
            stage.not_replayed("when it is cancelled depends on the time");
            let ends = Agent::from_fn("ends", move |cx: RunContext| async move {
                cx.sleep(Duration::from_millis(15)).await?;
                match fails {
                    true => Err(AgentError::failed("broken")),
                    false => Ok(Outcome::answer("yes")),
                }
            });
            let system = stage.start(ends).await;
            let run = ask(&system, "ends", "go").await;
            let mut events = run.events();
            pause(at).await;
            // It has ended by then, or it has not.
            let was_asked = run.cancel("enough").await.unwrap_or_default();
            let mut seen = Vec::new();
            while let Some(event) = events.next().await {
                seen.push(event.unwrap().event);
            }
            let ends = |event: &&Event| matches!(event, Event::RunEnded { .. });
            assert_eq!(seen.iter().filter(ends).count(), 1, "at {at}: {seen:?}");
            let Some(Event::RunEnded { end, .. }) = seen.last() else {
                panic!("at {at}: the last event is {:?}", seen.last());
            };
            let is_cancelled = seen
                .iter()
                .any(|event| matches!(event, Event::Cancelling { .. }));
            match is_cancelled {
                true => {
                    let reason = StopReason::Cancelled("enough".to_owned());
                    assert_eq!(*end, RunResult::Stopped(reason), "at {at}");
                    assert!(was_asked);
                    stopped += 1;
                }
                false => {
                    let told = match fails {
                        true => RunResult::Failed(AgentError::failed("broken")),
                        false => RunResult::Answered("yes".to_owned()),
                    };
                    assert_eq!(*end, told, "at {at}");
                    others += 1;
                }
            }
        }
    }
    assert!(
        stopped > 5 && others > 5,
        "{stopped} cancelled, {others} not"
    );
}

/// Tells how far it is, and gives its output piece by piece.
struct Report;

impl Tool for Report {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("report", "reports").effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        for (share, piece) in [(0.5, "one "), (1.0, "two")] {
            pause(10).await;
            cx.progress(Some(share), "reading");
            cx.output(piece);
        }
        Ok(ToolOutput::text("one two"))
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_shows_is_seen_while_it_runs_and_only_its_result_is_recorded() {
    let agent = Agent::from_fn("reporter", |cx: RunContext| async move {
        let result = cx.tool_unasked(call("1", "report")).await?;
        Ok(Outcome::answer(result.text))
    });
    let stage = Stage::new();
    let system = stage.start(agent.tool(Report)).await;
    let run = ask(&system, "reporter", "go").await;
    let mut events = run.events();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.unwrap());
    }
    let shown: Vec<String> = seen
        .iter()
        .filter_map(|record| match &record.event {
            Event::Preview(Preview::ToolProgress { fraction, .. }) => Some(format!("{fraction:?}")),
            Event::Preview(Preview::ToolOutput { text, .. }) => Some(text.clone()),
            Event::ToolCalled { result, .. } => Some(format!("result: {}", result.text)),
            _ => None,
        })
        .collect();
    assert_eq!(
        shown,
        ["Some(0.5)", "one ", "Some(1.0)", "two", "result: one two"]
    );
    let recorded = recorded(&seen);
    assert_eq!(recorded, run.events().so_far().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_beginning_of_a_call_that_is_made_once_is_an_event_of_its_tool() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        cx.tool_unasked(call("1", "pay")).await?;
        Ok(Outcome::answer("paid"))
    })
    .tool(stage.tool("pay", Effect::Once, 5));
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    assert_eq!(text(&run).await, "paid");
    let events = run.events().recorded().so_far().await.unwrap();
    let begun = events.iter().filter_map(|record| match &record.event {
        Event::ToolStarted { tool, .. } => Some(tool.as_str()),
        _ => None,
    });
    assert_eq!(begun.collect::<Vec<_>>(), ["pay"]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_reads_is_recorded_all_the_same_and_read_by_who_comes_later() {
    let mut kinds = Vec::new();
    for is_read in [true, false] {
        let mut stage = Stage::new();
        let model = ScriptedModel::replies(["said"]);
        let system = stage.start_with(talker(&stage), model).await;
        let run = ask(&system, "talker", "go").await;
        let mut events = run.events();
        while is_read && events.next().await.is_some() {}
        drop(events);
        text(&run).await;
        let id = run.id();
        stage.crash(&system).await;
        let system = stage.start(talker(&stage)).await;
        let later = recorded(&system.run(id).events().so_far().await.unwrap());
        assert!(later.iter().map(|record| record.position).is_sorted());
        let names = later.iter().map(|record| record.event.name().to_owned());
        kinds.push(names.collect::<Vec<_>>());
    }
    assert_eq!(kinds[0], kinds[1]);
    assert!(kinds[1].len() > 8, "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_over_a_crash_sees_the_same_beginning_and_one_end() {
    let mut stage = Stage::new();
    let model = ScriptedModel::turns(["one"]);
    let system = stage.start_with(talker(&stage), model.clone()).await;
    let run = ask(&system, "talker", "go").await;
    pause(500).await;
    let before = run.events().so_far().await.unwrap();
    stage.crash(&system).await;
    let system = stage.start_with(talker(&stage), model).await;
    let run = system.run(run.id());
    text(&run).await;
    let after = run.events().so_far().await.unwrap();
    assert!(before.len() > 3 && after.starts_with(&before));
    let ends = after
        .iter()
        .filter(|e| e.run == run.id() && e.event.name() == "run_ended");
    assert_eq!(ends.count(), 1);
    let told = after.iter().filter(|e| e.event.name() == "custom");
    assert_eq!(told.count(), 1, "replay tells nothing again");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_in_another_journal_is_watched_asked_and_recovered_there() {
    let agent = || {
        Agent::from_fn("endless", |cx: RunContext| async move {
            if cx.input().content() == "go" {
                return Ok(cx.continue_as("on"));
            }
            let answer = cx.ask(Question::choice("Enough?", ["true"])).await?;
            Ok(Outcome::answer(answer.to_string()))
        })
    };
    let mut stage = Stage::new();
    let system = stage.start(agent()).await;
    let run = ask(&system, "endless", "go").await;
    let mut events = run.events().recorded();
    let reader = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            seen.push(event.unwrap());
        }
        seen
    });
    pause(200).await;
    let next = system.run(run.id().next());
    let questions = next.questions().await.unwrap();
    assert_eq!(questions.len(), 1, "its question is found");
    // A process that is started afterwards takes it up by itself, and nobody says the turn again.
    next.answer(questions[0].1, "true".into()).await.unwrap();
    assert_eq!(text(&run).await, "\"true\"");
    let seen = reader.await.unwrap();
    assert_eq!(seen.last().unwrap().event.name(), "run_ended");
    assert_eq!(seen, run.events().so_far().await.unwrap());
    assert!(seen.iter().any(|event| event.run == next.id()));
    stage.crash(&system).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_went_on_is_recovered_by_the_next_process() {
    let agent = || {
        Agent::from_fn("endless", |cx: RunContext| async move {
            if cx.input().content() == "go" {
                return Ok(cx.continue_as("on"));
            }
            cx.tool_unasked(call("1", "look")).await?;
            Ok(Outcome::answer("looked"))
        })
    };
    let mut stage = Stage::new();
    let slow = stage.tool("look", Effect::Read, 5_000);
    let system = stage.start(agent().tool(slow)).await;
    let run = ask(&system, "endless", "go").await;
    pause(200).await;
    stage.crash(&system).await;
    let slow = stage.tool("look", Effect::Read, 5_000);
    let system = stage.start(agent().tool(slow)).await;
    assert_eq!(text(&system.run(run.id())).await, "looked");
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_tells_all_that_it_did_and_no_more_than_its_bound() {
    let mut stage = Stage::new();
    stage.limits.max_entries = 30;
    let agent = Agent::from_fn("endless", |cx: RunContext| async move {
        loop {
            let note = async { Ok::<_, AgentError>(()) };
            cx.step("note", Effect::Read, note).await?;
        }
    });
    let system = stage.start(agent).await;
    let run = ask(&system, "endless", "go").await;
    let error = run.outcome().await.unwrap_err().to_string();
    assert!(error.contains("entries"), "{error}");
    let told = run.events().so_far().await.unwrap();
    let notes = told
        .iter()
        .filter(|record| matches!(record.event, Event::OperationCompleted { .. }));
    assert!((20..30).contains(&notes.count()), "{told:?}");
    let last = &told.last().unwrap().event;
    let Event::RunEnded { end, .. } = last else {
        panic!("{last}");
    };
    assert!(matches!(end, RunResult::Failed(_)), "{end:?}");
    let entries = stage.entries(run.id()).await.len();
    assert!(entries <= 30 + 3, "{entries} entries");
}

/// What a run notes of itself is in its journal, and no message of any conversation.
#[tokio::test(start_paused = true)]
async fn what_a_run_notes_reaches_no_model() {
    let agent = Agent::from_fn("noting", |cx: RunContext| async move {
        cx.emit("noted", &"a note");
        cx.version("words", 2).await?;
        cx.memory().set("noted", &"a note").await?;
        let note = async { Ok::<_, AgentError>(1) };
        cx.step("note", Effect::Read, note).await?;
        let response = cx.model(cx.model_request(cx.conversation())).await?;
        Ok(Outcome::answer(response.content()))
    });
    let (stage, model) = (Stage::new(), ScriptedModel::turns(["one", "two"]));
    let system = stage.start_with(agent, model.clone()).await;
    for said in ["one", "two"] {
        assert_eq!(text(&ask(&system, "noting", "go").await).await, said);
    }
    let requests = model.requests();
    let messages = requests[1].conversation.messages();
    let said: Vec<(Role, String)> = messages
        .iter()
        .map(|message| (message.role, message.content()))
        .collect();
    let (user, assistant) = (Role::User, Role::Assistant);
    let text = |role, text: &str| (role, text.to_owned());
    assert_eq!(
        said,
        [text(user, "go"), text(assistant, "one"), text(user, "go")]
    );
    let bookkeeping = json!({"role": "internal", "author": null, "parts": []});
    let error = serde_json::from_value::<Message>(bookkeeping).unwrap_err();
    assert!(error.to_string().contains("internal"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_bounded_reader_has_the_newest_and_counts_what_it_missed() {
    const EVENTS: u64 = 3_000;
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        for number in 0..EVENTS {
            cx.emit("number", &number);
        }
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Outcome::answer("done"))
    });
    let stage = Stage::new();
    let system = stage.start(agent).await;
    let run = ask(&system, "a", "go").await;
    let mut events = run.events().recorded().bounded(10);
    assert!(events.next().await.is_some());
    run.outcome().await.unwrap();
    let all = run.events().so_far().await.unwrap();
    let mut seen = Vec::new();
    while let Some(record) = events.next().await {
        seen.push(record.unwrap());
    }
    assert_eq!(seen, all[all.len() - 10..]);
    let missed = events.missed();
    assert_eq!(missed.events + 11, all.len() as u64);
    // Without the bound nothing is left out, however slow the reader is.
    let mut waiting = run.events().recorded();
    let mut read = 0;
    while waiting.next().await.is_some() {
        read += 1;
    }
    assert_eq!((read, waiting.missed().events), (all.len(), 0));
}

#[tokio::test(start_paused = true)]
async fn previews_that_a_slow_reader_does_not_get_are_counted() {
    let words: String = (0..3_000).map(|n| format!("w{n} ")).collect();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let request = cx.model_request(cx.conversation()).streaming();
        Ok(Outcome::answer(cx.model(request).await?.content()))
    });
    let stage = Stage::new();
    let model = ScriptedModel::turns([words]).delay(Duration::from_secs(1));
    let system = stage.start_with(agent, model).await;
    let run = ask(&system, "a", "go").await;
    let mut events = run.events();
    run.outcome().await.unwrap();
    let mut previews = 0;
    while let Some(record) = events.next().await {
        previews += u64::from(matches!(record.unwrap().event, Event::Preview(_)));
    }
    let missed = events.missed();
    assert!(missed.previews > 0 && missed.events == 0, "{missed:?}");
    assert!(previews + missed.previews >= 3_000, "{previews} {missed:?}");
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_run_below_are_its_own_and_those_below_it_and_end_with_it() {
    let leaf = Agent::from_fn("leaf", |cx: RunContext| async move {
        cx.sleep(Duration::from_millis(300)).await?;
        match cx.input().content().as_str() {
            "first" => Ok(cx.continue_as("second")),
            _ => Ok(Outcome::answer("grown")),
        }
    });
    let branch = Agent::from_fn("branch", |cx: RunContext| async move {
        let request = cx.model_request(cx.conversation()).streaming();
        cx.model(request).await?;
        let grown = cx.delegate("leaf", cx.input().content()).await?;
        cx.sleep(Duration::from_secs(1)).await?;
        Ok(Outcome::answer(grown.text))
    });
    let root = Agent::from_fn("root", |cx: RunContext| async move {
        let both = [cx.delegate("beside", "go"), cx.delegate("branch", "first")];
        futures_util::future::try_join_all(both).await?;
        cx.sleep(Duration::from_secs(1_000)).await?;
        Ok(Outcome::answer("a tree"))
    });
    let stage = Stage::new();
    let beside = Agent::from_fn("beside", |cx: RunContext| async move {
        cx.sleep(Duration::from_millis(600)).await?;
        Ok(Outcome::answer("beside"))
    });
    let root = root.agent(beside).agent(branch.agent(leaf));
    let system = stage
        .start_with(root, ScriptedModel::turns(["one two three"]))
        .await;
    let run = ask(&system, "root", "go").await;
    pause(5).await;
    let tree = run.tree().await.unwrap();
    let mut below = tree.children.iter().map(|child| &child.row);
    let first = system.run(below.find(|row| row.agent == "branch").unwrap().run);
    let (mut events, mut said) = (first.events(), first.text_stream());
    let (mut seen, mut text) = (Vec::new(), String::new());
    let follow = async {
        while let Some(event) = events.next().await {
            seen.push(event.unwrap());
        }
        while let Some(piece) = said.next().await {
            text.push_str(&piece.unwrap().text);
        }
    };
    tokio::time::timeout(Duration::from_secs(100), follow)
        .await
        .expect("the stream ends with its run, and not with the root's");
    assert!(matches!(&seen.last().unwrap().event,
        Event::RunEnded { end: RunResult::Answered(text), .. } if text == "grown"));
    assert!(
        text.starts_with("one two three") && text.ends_with("grown"),
        "{text}"
    );
    let starts = seen
        .iter()
        .filter(|record| matches!(record.event, Event::RunStarted { .. }));
    assert_eq!(
        starts.count(),
        3,
        "the branch, its leaf and the leaf's next journal"
    );
    assert!(
        seen.iter()
            .all(|record| record.path[..2] == ["root", "branch"])
    );
    assert_eq!(first.events().so_far().await.unwrap(), recorded(&seen));
    let middle = recorded(&seen).len() / 2;
    let place = recorded(&seen)[middle].position.unwrap();
    let rest = first.events().after(place).so_far().await.unwrap();
    assert_eq!(rest, recorded(&seen)[middle + 1..]);
}

#[tokio::test(start_paused = true)]
async fn what_a_reader_has_at_hand_is_given_with_all_that_follows() {
    let stage = Stage::new();
    let model = ScriptedModel::turns(["one two three"]);
    let system = stage.start_with(talker(&stage), model).await;
    let run = ask(&system, "talker", "go").await;
    run.outcome().await.unwrap();
    let all = run.events().recorded().so_far().await.unwrap();
    for given in 0..all.len() {
        let (mut events, mut seen) = (run.events().recorded(), Vec::new());
        for _ in 0..given {
            seen.push(events.next().await.unwrap().unwrap());
        }
        seen.extend(events.so_far().await.unwrap());
        assert_eq!(seen, all, "after {given}");
    }
}
