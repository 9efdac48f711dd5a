//! `ghostlight show`.

use ghostlight_actors::{
    contract::{Clock as _, RunRow, SystemClock},
    run::{Observer, Recorded, operations::Allowance},
    vocabulary::{EventRecord, JournalId, Resource},
};

use crate::cli::{
    arguments::Show,
    exit::{Exit, Failure},
    follow::print_json,
    keeping::{self, Keeping},
    timeline::{Detail, Timeline},
    when,
};

/// How many entries are read at once.
const PAGE: usize = 1000;

pub(super) async fn show(arguments: Show) -> Result<Exit, Failure> {
    let Some(keeping) = Keeping::open_to_read(&arguments.store)? else {
        let path = keeping::path_of(&arguments.store)?;
        return Err(Failure::Usage(format!(
            "there is no store {}",
            path.display()
        )));
    };
    let row = keeping.find(&arguments.run).await?;
    let mut observer = Observer::new();
    let mut timeline = Timeline::new(Detail::Everything);
    if !arguments.show.json {
        let journal = JournalId::Run(row.root);
        let lines = keeping.store.read(journal, 0, usize::MAX).await?;
        let allowance = Recorded::fold(&lines, row.root)?.allowance();
        super::print(&format!("{}{}", heading(&row), budget(&allowance)))?;
    }
    let mut after = 0;
    loop {
        let lines = keeping.store.read_tree(row.root, after, PAGE).await?;
        let Some(last) = lines.last() else {
            return Ok(Exit::Done);
        };
        after = last.stored.position;
        for line in &lines {
            if !observer.knows(line.run)
                && let Some(known) = keeping.store.run(line.run).await?
            {
                observer.learn(&known);
            }
            let Some(record) = observer.observe(line)? else {
                continue;
            };
            if arguments.show.json {
                print_json(&record)?;
            } else {
                print_lines(&mut timeline, &record, &row)?;
            }
        }
    }
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
        format!(
            "\nsession {}",
            crate::cli::plain_text::line(&session.key, 64)
        )
    });
    let begun = when::date(row.started_at);
    let ago = when::ago(row.started_at, SystemClock::new().now());
    format!(
        "run     {}\nteam    {}{session}\nstatus  {}\nbegun   {begun} ({ago})",
        row.root, row.team, row.status
    )
}

/// What the run has used of its bounds; nothing where it has none.
fn budget(allowance: &Allowance) -> String {
    let mut parts: Vec<String> = Vec::new();
    for resource in Resource::COUNTED {
        if let Some(bound) = allowance.budget.bound(resource) {
            let used = allowance.spent.used(resource);
            parts.push(match resource {
                Resource::Cost => {
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
