//! `ghostlight memory`.

use std::io::Write as _;

use ghostlight::memory::{
    Forget, Forgetting, Import, Memory as Named, MemoryDocument, MemoryItem, MemoryKind,
    MemoryPatch, MemoryQuery, StoredMemory, StoredMemoryError, learnings_from_markdown,
    learnings_to_markdown,
};
use ghostlight_actors::contract::{Clock as _, SystemClock};

use crate::{
    exit::{Exit, Failure},
    follow::print_json,
    keeping::Keeping,
    memory_arguments::{
        Kind, Memory, MemoryAct, MemoryChange, MemoryExport, MemoryForget, MemoryImport,
        MemoryList, MemorySearch, MemoryShow, Whose,
    },
    plain_text, when,
};

impl From<StoredMemoryError> for Failure {
    fn from(error: StoredMemoryError) -> Self {
        match error {
            StoredMemoryError::Store(error) => error.into(),
            other => Self::Usage(other.to_string()),
        }
    }
}

impl From<Kind> for MemoryKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Working => Self::Working,
            Kind::Episodic => Self::Episodic,
            Kind::Semantic => Self::Semantic,
            Kind::Task => Self::Task,
            Kind::Learning => Self::Learning,
            Kind::Wisdom => Self::Wisdom,
            Kind::Entity => Self::Entity,
            Kind::Relation => Self::Relation,
            Kind::Conversation => Self::Conversation,
        }
    }
}

/// Runs the command.
pub(super) async fn memory(arguments: Memory) -> Result<Exit, Failure> {
    match arguments.act {
        MemoryAct::List(arguments) => list(arguments).await,
        MemoryAct::Show(arguments) => show(arguments).await,
        MemoryAct::Search(arguments) => search(arguments).await,
        MemoryAct::Change(arguments) => change(arguments).await,
        MemoryAct::Forget(arguments) => forget(arguments).await,
        MemoryAct::Export(arguments) => export(arguments).await,
        MemoryAct::Import(arguments) => import(arguments).await,
    }
}

fn stored(keeping: &Keeping, whose: &Whose) -> Result<StoredMemory, Failure> {
    of(keeping, whose, Named::new(whose.name.as_str()))
}

fn of(keeping: &Keeping, whose: &Whose, memory: Named) -> Result<StoredMemory, Failure> {
    let (session, scope) = whose.scope();
    let stored = StoredMemory::new(keeping.store.clone(), memory, &session, &scope);
    stored.ok_or_else(|| Failure::Usage("no store keeps this scope".to_owned()))
}

async fn list(arguments: MemoryList) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let kind = arguments.kind.map(MemoryKind::from);
    let mut items = stored(&keeping, &arguments.whose)?.list().await?;
    items.retain(|item| kind.is_none_or(|kind| item.kind == kind));
    // The latest first.
    items.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
    if let Some(after) = &arguments.after {
        let place = items.iter().position(|item| item.id == *after);
        let place = place.ok_or_else(|| {
            let after = plain_text::line(after, 80);
            Failure::Usage(format!(
                "--after: there is no item {after:?} in this list; `--json` shows whole ids"
            ))
        })?;
        items.drain(..=place);
    }
    let more = items.len().saturating_sub(arguments.limit);
    items.truncate(arguments.limit);
    let nothing = match arguments.kind {
        Some(Kind::Conversation) => {
            "turns are not listed here: `ghostlight memory search --kind conversation` searches them, and `ghostlight \
             sessions` lists conversations"
        }
        _ => "nothing is remembered there",
    };
    tell(&items, arguments.show.json, nothing)?;
    if more > 0 {
        super::note(&format!(
            "{} more: raise --limit, or continue with --after {}",
            super::counted(more as u64, "item"),
            items.last().map_or("", |item| item.id.as_str())
        ));
    }
    Ok(Exit::Done)
}

/// Prints items, one a line.
fn tell(items: &[MemoryItem], json: bool, nothing: &str) -> Result<(), Failure> {
    if json {
        return items.iter().try_for_each(print_json);
    }
    if items.is_empty() {
        super::note(nothing);
        return Ok(());
    }
    let now = SystemClock::new().now();
    let line = |item: &MemoryItem| {
        let pinned = match (item.disabled, item.pinned) {
            (true, _) => "off",
            (false, true) => "pinned",
            (false, false) => "",
        };
        let content = plain_text::line(&item.content, 80);
        let (id, kind) = (&item.id[..item.id.len().min(12)], item.kind.as_str());
        let (importance, age) = (item.importance, when::ago(item.updated_at, now));
        format!("{id:12}  {kind:8}  {importance:4.2}  {age:>10}  {pinned:6}  {content}")
    };
    let lines: Vec<String> = items.iter().map(line).collect();
    super::print(&lines.join("\n"))
}

async fn show(arguments: MemoryShow) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let item = found(&stored(&keeping, &arguments.whose)?, &arguments.id).await?;
    print_json(&item)?;
    if let Some(source) = &item.source {
        super::note(&format!(
            "it comes from operation {} of run {}: `ghostlight show {}` shows it",
            source.operation,
            source.run.short(),
            source.run.short()
        ));
    }
    Ok(Exit::Done)
}

async fn found(memory: &StoredMemory, id: &str) -> Result<MemoryItem, Failure> {
    memory.get(id).await?.ok_or_else(|| {
        let id = plain_text::line(id, 80);
        if let Some(run) = id.strip_prefix("turn-") {
            return Failure::Usage(format!(
                "{id:?} is a recorded turn and no item of a memory: `ghostlight show {run}` shows it"
            ));
        }
        Failure::Usage(format!(
            "there is no item {id:?} here, or several begin so: `ghostlight memory list` lists them"
        ))
    })
}

async fn search(arguments: MemorySearch) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let mut query = MemoryQuery::new(arguments.text)
        .k(arguments.limit)
        .pending();
    query.kinds.extend(arguments.kind.map(MemoryKind::from));
    let memory = stored(&keeping, &arguments.whose)?;
    let mut hits = memory.search(&query).await?;
    if arguments.kind == Some(Kind::Conversation) {
        hits.extend(memory.conversations(&query).await?);
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits.truncate(arguments.limit as usize);
    }
    if arguments.show.json {
        hits.iter().try_for_each(print_json)?;
        return Ok(Exit::Done);
    }
    let items: Vec<MemoryItem> = hits.into_iter().map(|hit| hit.item).collect();
    tell(&items, false, "nothing is remembered of that")?;
    Ok(Exit::Done)
}

async fn change(arguments: MemoryChange) -> Result<Exit, Failure> {
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let changed = changed(&keeping, &arguments).await;
    keeping.store.close().await?;
    print_json(&changed?)?;
    Ok(Exit::Done)
}

async fn changed(keeping: &Keeping, arguments: &MemoryChange) -> Result<MemoryItem, Failure> {
    let memory = stored(keeping, &arguments.whose)?;
    let item = found(&memory, &arguments.id).await?;
    let either = |yes: bool, no: bool| (yes || no).then_some(yes);
    let mut patch = MemoryPatch::default();
    patch.content.clone_from(&arguments.content);
    (patch.importance, patch.boost) = (arguments.importance, arguments.boost);
    patch.pinned = either(arguments.pin, arguments.unpin);
    patch.disabled = either(arguments.disable, arguments.enable);
    let changed = memory.update(&item.id, &patch).await?;
    changed.ok_or_else(|| Failure::Usage("it was forgotten in the meantime".to_owned()))
}

async fn forget(arguments: MemoryForget) -> Result<Exit, Failure> {
    let keeping = match arguments.dry_run {
        true => Keeping::open_what_is_there(&arguments.store).await?,
        false => Keeping::open_to_change(&arguments.store).await?,
    };
    let gone = forgotten(&keeping, &arguments).await;
    if !arguments.dry_run {
        keeping.store.close().await?;
    }
    let gone = gone?;
    tell(&gone, arguments.show.json, "nothing is to be forgotten")?;
    let number = super::counted(gone.len() as u64, "item");
    let verb = if arguments.dry_run {
        "would be forgotten"
    } else {
        "forgotten"
    };
    super::note(&format!("{number} {verb}"));
    Ok(Exit::Done)
}

async fn forgotten(
    keeping: &Keeping,
    arguments: &MemoryForget,
) -> Result<Vec<MemoryItem>, Failure> {
    let memory = stored(keeping, &arguments.whose)?;
    if let Some(id) = &arguments.id {
        let item = found(&memory, id).await?;
        if !arguments.dry_run {
            memory.remove(&item.id).await?;
        }
        return Ok(vec![item]);
    }
    let hours = |age: std::time::Duration| age.as_secs_f64() / 3600.0;
    let what = match (arguments.below, arguments.older_than, arguments.keep) {
        (Some(below), ..) => Forget::Importance { below },
        (_, Some(age), _) => Forget::Age {
            older_than_hours: hours(age),
        },
        (.., Some(keep)) => Forget::Capacity { keep },
        _ => match arguments.unused {
            Some(below) => Forget::Unused { below },
            None => Forget::Expired,
        },
    };
    let mut what = Forgetting::from(what);
    what.kinds.extend(arguments.kind.map(MemoryKind::from));
    what.dry_run = arguments.dry_run;
    Ok(memory.forget(&what).await?)
}

async fn export(arguments: MemoryExport) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let document = stored(&keeping, &arguments.whose)?.export().await?;
    if arguments.learnings {
        let text = learnings_to_markdown(&document.items);
        let text = arguments.secrets.leaving(text).map_err(Failure::Usage)?;
        super::print(text.trim_end())?;
        return Ok(Exit::Done);
    }
    // On one line: a line break could act on a terminal, so it is written as an escape.
    let text = serde_json::to_string(&document).map_err(std::io::Error::other)?;
    let text = arguments.secrets.leaving(text).map_err(Failure::Usage)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", plain_text::json(text))?;
    out.flush()?;
    Ok(Exit::Done)
}

async fn import(arguments: MemoryImport) -> Result<Exit, Failure> {
    let file = arguments.file.display().to_string();
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(format!("{file}: {error}"));
    let text = super::read_record(&arguments.file).map_err(|error| wrong(&error))?;
    let is_markdown = arguments.file.extension().is_some_and(|name| name == "md");
    // A line of Markdown is what its learning is to be.
    let how = match arguments.overwrite || is_markdown {
        true => Import::Upsert,
        false => Import::Merge,
    };
    let document = match is_markdown {
        true => None,
        false => Some(MemoryDocument::from_json(&text).map_err(|error| wrong(&error))?),
    };
    let keeping = Keeping::open(&arguments.store).await?;
    let document = match document {
        Some(document) => document,
        None => {
            let mut document = stored(&keeping, &arguments.whose)?.export().await?;
            let now = SystemClock::new().now();
            let items = learnings_from_markdown(&text, &document.items, now);
            document.items = items.map_err(|error| wrong(&error))?;
            document
        }
    };
    // The team's own bound is in its file: it counts with the next item that an agent keeps.
    let most = MemoryDocument::MOST;
    let memory = Named::new(arguments.whose.name.as_str());
    let memory = memory.capacity(most).working_capacity(most);
    let imported = of(&keeping, &arguments.whose, memory)?
        .import(&document, how)
        .await;
    keeping.store.close().await?;
    let imported = imported.map_err(|error| match error {
        StoredMemoryError::Item { .. } => wrong(&error),
        error => error.into(),
    })?;
    let number = super::counted(imported as u64, "item");
    let there = document.items.len() - imported;
    super::note(&format!("{number} imported; {there} were there already"));
    Ok(Exit::Done)
}
