//! The rows that a group of requests needs to know, and how they are found.

use std::{borrow::Cow, collections::HashMap};

use ghostlight_actors::{contract::MailboxItem, vocabulary::JournalId};
use tokio_postgres::{Error, Row, types::ToSql};

use crate::{
    committer::Link,
    fault::Fault,
    group::{Group, Head},
    process,
    rows::{count, digest, digest_or_none},
    text::{self, stored},
    work::Work,
};

/// The rows that the requests of a group name, as the parameters of the statements that find them.
#[derive(Default)]
pub(crate) struct Wanted<'w> {
    journals: Vec<Cow<'w, str>>,
    /// Journals that need not be found.
    pub(crate) assumed: HashMap<String, Head>,
    scopes: Vec<Cow<'w, str>>,
    names: Vec<Cow<'w, str>>,
    mailboxes: Vec<String>,
    items: Vec<Cow<'w, str>>,
}

impl<'w> Wanted<'w> {
    /// Takes from `known` what is there.
    pub(crate) fn of(works: &'w [Work], known: &mut HashMap<String, Head>) -> Self {
        let mut wanted = Self::default();
        for work in works {
            match work {
                Work::Commit(batches) => {
                    for batch in batches {
                        for append in &batch.appends {
                            let key = append.journal.to_string();
                            if let Some((key, head)) = known.remove_entry(&key) {
                                wanted.assumed.insert(key, head);
                            } else if !wanted.assumed.contains_key(&key) {
                                wanted.journal(key);
                            }
                            if let Some(row) = &append.row
                                && append.journal != JournalId::Run(row.root)
                            {
                                wanted.journal(row.root.to_string());
                            }
                        }
                        for write in &batch.writes {
                            wanted.scopes.push(stored(&write.scope));
                            wanted.names.push(stored(&write.key));
                        }
                        for (mailbox, item) in &batch.posts {
                            wanted.item(mailbox, item);
                        }
                    }
                }
                Work::Claim {
                    journals, above, ..
                } => {
                    for journal in journals
                        .iter()
                        .chain(above.iter().map(|(journal, _)| journal))
                    {
                        wanted.journal(journal.to_string());
                    }
                }
                Work::Post(mailbox, item) => wanted.item(mailbox, item),
            }
        }
        wanted
    }

    /// Whether this node keeps all that is named.
    pub(crate) fn nothing_is_to_be_found(&self) -> bool {
        self.journals.is_empty() && self.scopes.is_empty() && self.mailboxes.is_empty()
    }

    fn journal(&mut self, key: String) {
        self.journals.push(Cow::Owned(stored(&key).into_owned()));
    }

    fn item(&mut self, mailbox: &JournalId, item: &'w MailboxItem) {
        self.mailboxes
            .push(stored(&mailbox.to_string()).into_owned());
        self.items.push(stored(&item.id));
    }

    pub(crate) async fn find(&self, link: &Link, node: &str) -> Result<Found, Error> {
        let (client, sql) = (&link.client, &link.statements);
        let some = async |statement, is_needed: bool, parameters: &[&(dyn ToSql + Sync)]| {
            match is_needed {
                true => client.query(statement, parameters).await,
                false => Ok(Vec::new()),
            }
        };
        let by_node: [&(dyn ToSql + Sync); 2] = [&self.journals, &node];
        let by_place: [&(dyn ToSql + Sync); 2] = [&self.scopes, &self.names];
        let by_item: [&(dyn ToSql + Sync); 2] = [&self.mailboxes, &self.items];
        let (journals, state, items) = futures_util::try_join!(
            some(&sql.find_journals, !self.journals.is_empty(), &by_node),
            some(&sql.find_state, !self.scopes.is_empty(), &by_place),
            some(&sql.find_items, !self.mailboxes.is_empty(), &by_item),
        )?;
        Ok(Found {
            journals,
            state,
            items,
        })
    }
}

/// The rows of what a group names.
pub(crate) struct Found {
    journals: Vec<Row>,
    state: Vec<Row>,
    items: Vec<Row>,
}

impl Found {
    pub(crate) fn read_into(self, group: &mut Group<'_>) -> Result<(), Fault> {
        // Whether each other owner's process has ended, asked once however many journals it has.
        let mut ended = HashMap::new();
        for row in self.journals {
            let (earlier, last): (Option<i64>, Option<i64>) = (row.try_get(10)?, row.try_get(11)?);
            let process: Option<String> = row.try_get(12)?;
            let mut has_ended = |id: String| {
                *ended
                    .entry(id)
                    .or_insert_with_key(|id| process::has_ended(id))
            };
            let last = last.filter(|_| !process.is_some_and(&mut has_ended));
            let head = Head {
                id: row.try_get(1)?,
                root: row.try_get(2)?,
                epoch: count(&row, 3)?,
                owner: row.try_get(4)?,
                entries: count(&row, 5)?,
                before: count(&row, 5)?,
                hash: digest(&row, 6)?,
                updated_at: count(&row, 7)?,
                definition: digest_or_none(&row, 8)?,
                held: row.try_get(9)?,
                settles_at: earlier.max(last),
                is_new: false,
                beyond_end: false,
            };
            group.heads.insert(text::read(row.try_get(0)?), head);
        }
        for row in self.state {
            let place = (text::read(row.try_get(0)?), text::read(row.try_get(1)?));
            group
                .slots
                .insert(place, (row.try_get(2)?, count(&row, 3)?));
        }
        for row in self.items {
            let item = (text::read(row.try_get(0)?), text::read(row.try_get(1)?));
            group.known.insert(item);
        }
        Ok(())
    }
}
