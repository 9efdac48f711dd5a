//! `ghostlight show`.

use std::time::Duration;

use ghostlight_actors::{
    contract::{Clock as _, JournalPages, RunRow, RunStatus, RunTree, SystemClock, TreePages},
    run::{Observer, Recorded, operations::Allowance},
    vocabulary::{Begun, Entry, EventRecord, OperationId, Question, Resource, RunId},
};
use serde_json::json;

use crate::{
    arguments::Show,
    asking::{self, Asked, Fold},
    exit::{Exit, Failure},
    follow::print_json,
    interrupt::Interrupt,
    keeping::Keeping,
    plain_text,
    questions::how_to_answer,
    timeline::{Detail, Timeline},
    when,
};

/// How often a followed run is checked.
const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn show(arguments: Show) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let row = keeping.find(&arguments.run).await?;
    if arguments.tree {
        return tree(&arguments, &keeping, row).await;
    }
    if arguments.questions {
        return questions(&arguments, &keeping, &row).await;
    }
    let mut observer = Observer::new();
    let mut timeline = Timeline::new(Detail::Everything);
    if !arguments.show.json {
        let mut recorded = Recorded::default();
        let mut pages = JournalPages::new(row.root, 0);
        loop {
            let lines = pages.next(&keeping.store).await?;
            if lines.is_empty() {
                break;
            }
            recorded.reckon(&lines, row.root)?;
        }
        let budget = budget(&recorded.allowance());
        super::print(&format!("{}{budget}", heading(&row)))?;
    }
    let mut root = row.root;
    let mut pages = TreePages::new(root, 0);
    let mut interrupt = Interrupt::new()?;
    loop {
        // The status is read before the entries: if the run had ended then, no later entries exist.
        let stands = keeping.store.run(root).await?.map(|row| row.status);
        let lines = pages.next(&keeping.store).await?;
        if lines.is_empty() {
            match stands.filter(|_| arguments.follow) {
                None => return Ok(Exit::Done),
                Some(RunStatus::Continued) => {
                    root = root.next();
                    pages = TreePages::new(root, pages.read_to());
                }
                Some(RunStatus::Answered) => return Ok(Exit::Done),
                Some(RunStatus::Failed) => return Ok(Exit::Failed),
                Some(ended) if ended.is_ended() => return Ok(Exit::Stopped),
                Some(_) => {
                    tokio::select! {
                        biased;
                        () = interrupt.fired() => return Ok(Exit::Interrupted),
                        () = tokio::time::sleep(LOOK) => {}
                    }
                }
            }
            continue;
        }
        for line in &lines {
            if !observer.knows(line.run)
                && let Some(known) = keeping.store.run(line.run).await?
            {
                observer.learn(&known);
            }
            for record in observer.observe(line)? {
                if arguments.show.json {
                    print_json(&record)?;
                } else {
                    print_lines(&mut timeline, &record, &row)?;
                }
            }
        }
    }
}

/// Shows the run with those below it.
async fn tree(arguments: &Show, keeping: &Keeping, row: RunRow) -> Result<Exit, Failure> {
    let tree = RunTree::read(&keeping.store, row).await?;
    if arguments.show.json {
        print_json(&tree)?;
        return Ok(Exit::Done);
    }
    let names = tree.rows().map(|(depth, row)| {
        let agent = plain_text::line(&row.agent, 64);
        format!("{}{agent}", "  ".repeat(depth))
    });
    let names: Vec<String> = names.collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or_default();
    for (name, (_, row)) in names.iter().zip(tree.rows()) {
        let (id, status) = (row.run.short(), row.status.as_str());
        let title = plain_text::line(&row.title, 60);
        super::print(&format!("{name:width$}  {id:8}  {status:11}  {title}"))?;
    }
    Ok(Exit::Done)
}

/// Shows the questions for which the run and its child runs wait, with nothing folded.
async fn questions(arguments: &Show, keeping: &Keeping, row: &RunRow) -> Result<Exit, Failure> {
    let mut open: Vec<(RunId, OperationId, Question)> = Vec::new();
    let mut pages = TreePages::new(row.root, 0);
    loop {
        let lines = pages.next(&keeping.store).await?;
        if lines.is_empty() {
            break;
        }
        for line in &lines {
            let run = line.run;
            match line.stored.line.decode() {
                Ok(Entry::Started {
                    op,
                    begun: Begun::Question(question),
                    ..
                }) => open.push((run, op, *question)),
                Ok(Entry::Completed { op, .. } | Entry::Dropped { op, .. }) => {
                    open.retain(|(asking, asked, _)| (*asking, *asked) != (run, op));
                }
                Ok(Entry::RunEnded(_)) => open.retain(|(asking, ..)| *asking != run),
                _ => {}
            }
        }
    }
    if open.is_empty() && !arguments.show.json {
        super::print(&format!("run {} asks nothing", row.run.short()))?;
    }
    let several = open.len() > 1;
    for (run, operation, question) in open {
        let shown = match question.unredacted().filter(|_| arguments.reveal) {
            Some(call) => asking::revealed(&question, &call),
            None => question.clone(),
        };
        if arguments.show.json {
            let shown = shown.withheld();
            print_json(&json!({ "run": run, "operation": operation, "question": shown }))?;
            continue;
        }
        let agent = plain_text::line(question.path.last().map_or("", String::as_str), 64);
        let text = Asked::of(&shown, Fold::Nothing).text();
        let how = how_to_answer(row.root, &(run, operation, shown), several, &keeping.option);
        super::print(&format!("{agent} asks ({operation}): {text}\n  {how}"))?;
    }
    Ok(Exit::Done)
}

fn print_lines(timeline: &mut Timeline, record: &EventRecord, row: &RunRow) -> Result<(), Failure> {
    let time = when::since(row.started_at, record.at);
    // The entry's number in its run, for `ghostlight fork --at`.
    let number = record.sequence.map_or_else(String::new, |n| n.to_string());
    for line in timeline.lines(record) {
        let (name, text) = line.padded(0);
        super::print(&format!("{time:>10}  {number:>4}  {name}  {text}"))?;
    }
    Ok(())
}

fn heading(row: &RunRow) -> String {
    let session = row.session.as_ref().map_or_else(String::new, |session| {
        format!("\nsession {}", crate::plain_text::line(&session.key, 64))
    });
    let begun = when::date(row.started_at);
    let ago = when::ago(row.started_at, SystemClock::new().now());
    format!(
        "run     {}\nteam    {}{session}\nstatus  {}\nbegun   {begun} ({ago})",
        row.root, row.team, row.status
    )
}

/// How much of its budget the run has used; empty if it has none.
fn budget(allowance: &Allowance) -> String {
    let mut parts: Vec<String> = Vec::new();
    for resource in Resource::COUNTED {
        if let Some(bound) = allowance.budget.bound(resource) {
            let used = allowance.spent.used(resource);
            parts.push(match resource {
                Resource::CostMicros => {
                    let money = |micros: u64| micros as f64 / 1e6;
                    format!("{:.4} of {:.4} {resource}", money(used), money(bound))
                }
                _ => format!("{used} of {bound} {resource}"),
            });
        }
    }
    if let Some(deadline) = allowance.deadline {
        parts.push(format!("until {}", when::date(deadline)));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("\nbudget  {}", parts.join(", "))
}
