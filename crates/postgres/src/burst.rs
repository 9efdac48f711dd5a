//! Writes a commit: every statement is sent before the first answer is awaited.

use futures_util::future::try_join_all;
use ghostlight_actors::{contract::RunRow, vocabulary::Digest};
use tokio_postgres::{Client, Statement, types::ToSql};

use crate::{
    committer::Link,
    fault::Fault,
    group::{Group, Head},
    news,
    rows::number,
    text::stored,
};

/// Writes the changes in one burst.
pub(crate) async fn write(
    link: &Link,
    group: &Group<'_>,
    commit: u64,
    digest: Digest,
) -> Result<(), Fault> {
    let sql = &link.statements;
    let (heads, changed): (Vec<_>, Vec<_>) = group
        .changed
        .iter()
        .filter_map(|key| group.heads.get_key_value(key))
        .partition(|(_, head)| head.is_new);
    let (changed, extended): (Vec<&Head>, Vec<&Head>) = changed
        .into_iter()
        .map(|(_, head)| head)
        .partition(|head| head.beyond_end);
    let entries = &group.entries;
    let runs: Vec<RunTexts<'_>> = group.runs.values().map(|row| RunTexts::of(row)).collect();
    let values: Vec<_> = group.values.iter().collect();
    let blobs: Vec<_> = group.blobs.iter().collect();
    let items: Vec<_> = group.items.iter().collect();
    let mut burst = Burst::new(&link.client);
    if !heads.is_empty() {
        burst.push(
            &sql.put_journals,
            vec![
                column(&heads, |(_, head)| head.id),
                column(&heads, |(key, _)| stored(key)),
                column(&heads, |(_, head)| head.root),
                column(&heads, |(_, head)| number(head.epoch)),
                column(&heads, |(_, head)| head.owner.as_deref()),
                column(&heads, |(_, head)| number(head.entries)),
                column(&heads, |(_, head)| head.hash.0.as_slice()),
                column(&heads, |(_, head)| head.updated_at.cast_signed()),
                column(&heads, |(_, head)| {
                    head.definition.as_ref().map(|d| d.0.as_slice())
                }),
            ],
        );
    }
    if !changed.is_empty() {
        burst.push(
            &sql.change_journals,
            vec![
                column(&changed, |head| head.id),
                column(&changed, |head| head.root),
                column(&changed, |head| number(head.epoch)),
                column(&changed, |head| head.owner.as_deref()),
                column(&changed, |head| number(head.entries)),
                column(&changed, |head| head.hash.0.as_slice()),
                column(&changed, |head| head.updated_at.cast_signed()),
                column(&changed, |head| {
                    head.definition.as_ref().map(|d| d.0.as_slice())
                }),
                column(&changed, |head| head.settles_at),
            ],
        );
    }
    if !entries.is_empty() {
        burst.push(
            &sql.put_entries,
            vec![
                column(entries, |entry| number(entry.position)),
                column(entries, |entry| entry.journal),
                column(entries, |entry| entry.root),
                column(entries, |entry| number(entry.sequence)),
                column(entries, |entry| entry.line.at.0.cast_signed()),
                column(entries, |entry| &*entry.line.text),
                column(entries, |entry| entry.hash.0.as_slice()),
            ],
        );
    }
    if !runs.is_empty() {
        burst.push(
            &sql.put_runs,
            vec![
                column(&runs, |run| run.ids[0].as_deref()),
                column(&runs, |run| run.ids[1].as_deref()),
                column(&runs, |run| run.ids[2].as_deref()),
                column(&runs, |run| {
                    run.row.session.as_ref().map(|s| stored(&s.team))
                }),
                column(&runs, |run| {
                    run.row.session.as_ref().map(|s| stored(&s.key))
                }),
                column(&runs, |run| stored(&run.row.team)),
                column(&runs, |run| stored(&run.row.agent)),
                column(&runs, |run| run.path.as_str()),
                column(&runs, |run| run.row.status.as_str()),
                column(&runs, |run| stored(&run.row.title)),
                column(&runs, |run| run.row.wake_at.map(|at| at.0.cast_signed())),
                column(&runs, |run| run.row.started_at.0.cast_signed()),
                column(&runs, |run| run.row.updated_at.0.cast_signed()),
                column(&runs, |run| run.row.owner.as_deref().map(stored)),
                column(&runs, |run| i64::from(run.row.version)),
                column(&runs, |run| Some(run.asks.as_str())),
                column(&runs, |run| run.row.first.map(|first| first.to_string())),
            ],
        );
    }
    if !values.is_empty() {
        burst.push(
            &sql.put_state,
            vec![
                column(&values, |((scope, _), _)| stored(scope)),
                column(&values, |((_, key), _)| stored(key)),
                column(&values, |(_, (value, _))| *value),
                column(&values, |(_, (_, version))| number(*version)),
            ],
        );
    }
    if !blobs.is_empty() {
        burst.push(
            &sql.put_blobs,
            vec![
                column(&blobs, |(digest, _)| digest.0.as_slice()),
                column(&blobs, |(_, bytes)| **bytes),
            ],
        );
    }
    if !group.taken.is_empty() {
        burst.push(
            &sql.take_items,
            vec![
                column(&group.taken, |(mailbox, _)| stored(mailbox)),
                column(&group.taken, |(_, id)| stored(id)),
            ],
        );
    }
    if !items.is_empty() {
        burst.push(
            &sql.put_items,
            vec![
                column(&items, |(_, item)| number(item.mark)),
                column(&items, |((mailbox, _), _)| stored(mailbox)),
                column(&items, |((_, id), _)| stored(id)),
                column(&items, |(_, item)| item.at.cast_signed()),
                column(&items, |(_, item)| item.body.as_deref()),
            ],
        );
    }
    let notices = news::texts(group.node, !items.is_empty(), &group.rested());
    if !notices.is_empty() {
        burst.push(
            &sql.tell_news,
            vec![Box::new(notices), Box::new(group.node)],
        );
    }
    let tail = &group.tail;
    burst.push(
        &sql.put_tail,
        vec![
            Box::new(number(commit)),
            Box::new(digest.0.to_vec()),
            Box::new(number(tail.position)),
            Box::new(tail.journal),
            Box::new(number(tail.mark)),
            column(&extended, |head| head.id),
            column(&extended, |head| number(head.epoch)),
            column(&extended, |head| number(head.before)),
            column(&extended, |head| number(head.entries)),
            column(&extended, |head| head.hash.0.as_slice()),
            column(&extended, |head| head.updated_at.cast_signed()),
            Box::new(group.node),
        ],
    );
    burst.push(
        &sql.put_commit,
        vec![
            Box::new(number(commit)),
            Box::new(digest.0.to_vec()),
            Box::new(group.node),
        ],
    );
    burst.send().await
}

/// The row of a run, with texts that are made for it.
struct RunTexts<'r> {
    row: &'r RunRow,
    ids: [Option<String>; 3],
    path: String,
    asks: String,
}

impl<'r> RunTexts<'r> {
    fn of(row: &'r RunRow) -> Self {
        let path = serde_json::Value::from(row.path.clone()).to_string();
        let asks = serde_json::json!(row.asks).to_string();
        Self {
            row,
            ids: [Some(row.run), Some(row.root), row.parent].map(|id| id.map(|id| id.to_string())),
            path,
            asks,
        }
    }
}

type Parameter<'p> = Box<dyn ToSql + Sync + Send + 'p>;

/// One column of many rows, as an array.
fn column<'p, R, T>(rows: &'p [R], value: impl Fn(&'p R) -> T) -> Parameter<'p>
where
    T: ToSql + Sync + Send + 'p,
{
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}

/// Statements that are sent without waiting for each other's answers.
struct Burst<'c> {
    client: &'c Client,
    statements: Vec<(&'c Statement, Vec<Parameter<'c>>)>,
}

impl<'c> Burst<'c> {
    fn new(client: &'c Client) -> Self {
        Self {
            client,
            statements: Vec::new(),
        }
    }

    fn push(&mut self, statement: &'c Statement, parameters: Vec<Parameter<'c>>) {
        self.statements.push((statement, parameters));
    }

    async fn send(self) -> Result<(), Fault> {
        let send = self.statements.iter().map(async |(statement, parameters)| {
            let parameters: Vec<&(dyn ToSql + Sync)> = parameters
                .iter()
                .map(|parameter| &**parameter as &(dyn ToSql + Sync))
                .collect();
            self.client.execute(*statement, &parameters).await
        });
        try_join_all(send).await?;
        Ok(())
    }
}
