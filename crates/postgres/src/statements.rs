//! The statements of a commit.
//!
//! `put_tail` also writes the new ends of journals, and only those that are still as this node left them. If one is not,
//! it sets a column to NULL that must have a value: the database refuses that, and with it the whole commit.

use tokio_postgres::{Client, Statement};

use crate::fault::Fault;

macro_rules! statements {
    ($($name:ident = $sql:expr;)*) => {
        pub(crate) struct Statements { $(pub(crate) $name: Statement,)* }

        impl Statements {
            pub(crate) async fn prepare(client: &Client) -> Result<Self, Fault> {
                Ok(Self { $($name: client.prepare($sql).await?,)* })
            }
        }
    };
}

statements! {
    lock = "SELECT commit, digest, position, journal, mark, (extract(epoch FROM clock_timestamp()) * 1000)::bigint \
         FROM tail FOR UPDATE";
    find_commit = "SELECT digest FROM commits WHERE number = $1";
    find_journals = "SELECT key, journals.id, root, epoch, owner, entries, hash, updated_at, definition, \
             owner IS NOT NULL AND owner <> $2 AND owner IN (SELECT others.owner \
                 FROM (SELECT DISTINCT owner FROM journals WHERE key = ANY($1) AND owner <> $2) AS others \
                 WHERE node_lives(others.owner)), \
             settles_at, \
             (extract(epoch FROM other.lease_until + (other.lease_until - other.renewed_at)) * 1000)::bigint, \
             other.process \
         FROM journals LEFT JOIN nodes AS other ON other.id = owner AND owner <> $2 WHERE key = ANY($1)";
    find_state = "SELECT s.scope, s.key, s.value IS NOT NULL, s.version \
         FROM unnest($1::text[], $2::text[]) AS wanted(scope, key) \
         JOIN state AS s ON s.scope = wanted.scope AND s.key = wanted.key";
    find_items = "SELECT i.run, i.id FROM unnest($1::text[], $2::text[]) AS wanted(run, id) \
         JOIN inbox AS i ON i.run = wanted.run AND i.id = wanted.id";
    put_journals = "INSERT INTO journals(id, key, root, epoch, owner, entries, hash, updated_at, definition) \
         SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], \
             $7::bytea[], $8::bigint[], $9::bytea[])";
    change_journals = "UPDATE journals SET root = new.root, epoch = new.epoch, owner = new.owner, \
             entries = new.entries, hash = new.hash, updated_at = new.updated_at, definition = new.definition, \
             settles_at = new.settles_at \
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bytea[], $7::bigint[], \
             $8::bytea[], $9::bigint[]) \
             AS new(id, root, epoch, owner, entries, hash, updated_at, definition, settles_at) \
         WHERE journals.id = new.id";
    put_entries = "INSERT INTO entries(position, journal, root, sequence, at, body, hash) \
         SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), \
             unnest($5::bigint[]), unnest($6::text[]), unnest($7::bytea[])";
    put_runs = "INSERT INTO runs(run, root, parent, session_team, session_key, team, agent, path, status, title, \
             wake_at, started_at, updated_at, owner, version, asks, begun_as) \
         SELECT run, root, parent, session_team, session_key, team, agent, path, status, title, wake_at, \
             started_at, updated_at, owner, version, asks, begun_as \
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
             $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], \
             $15::bigint[], $16::text[], $17::text[]) WITH ORDINALITY \
             AS new(run, root, parent, session_team, session_key, team, agent, path, status, title, wake_at, \
             started_at, updated_at, owner, version, asks, begun_as, place) ORDER BY place \
         ON CONFLICT (run) DO UPDATE SET root = excluded.root, parent = excluded.parent, \
             session_team = excluded.session_team, session_key = excluded.session_key, team = excluded.team, \
             agent = excluded.agent, path = excluded.path, status = excluded.status, title = excluded.title, \
             wake_at = excluded.wake_at, started_at = excluded.started_at, updated_at = excluded.updated_at, \
             owner = excluded.owner, version = excluded.version, asks = excluded.asks, begun_as = excluded.begun_as";
    put_state = "INSERT INTO state(scope, key, value, version) \
         SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) \
         ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value, version = excluded.version";
    put_blobs = "INSERT INTO blobs(hash, bytes) SELECT * FROM unnest($1::bytea[], $2::bytea[]) \
         ON CONFLICT (hash) DO NOTHING";
    take_items = "UPDATE inbox SET body = NULL FROM unnest($1::text[], $2::text[]) AS taken(run, id) \
         WHERE inbox.run = taken.run AND inbox.id = taken.id AND inbox.body IS NOT NULL";
    put_items = "INSERT INTO inbox(mark, run, id, at, body) \
         SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[])";
    tell_news = "SELECT pg_notify(current_schema(), told) FROM unnest($1::text[]) AS told \
         WHERE EXISTS (SELECT FROM nodes WHERE id <> $2)";
    put_tail = "WITH extended AS (UPDATE journals \
             SET entries = new.entries, hash = new.hash, updated_at = new.updated_at \
             FROM (SELECT unnest($6::bigint[]) AS id, unnest($7::bigint[]) AS epoch, unnest($8::bigint[]) AS before, \
                 unnest($9::bigint[]) AS entries, unnest($10::bytea[]) AS hash, unnest($11::bigint[]) AS updated_at) AS new \
             WHERE journals.id = new.id AND journals.epoch = new.epoch AND journals.owner = $12 \
                 AND journals.entries = new.before RETURNING 1) \
         UPDATE tail SET digest = $2, position = $3, journal = $4, mark = $5, \
             commit = CASE WHEN (SELECT count(*) FROM extended) = cardinality($6) THEN $1::bigint END";
    put_commit = "INSERT INTO commits(number, digest, node) VALUES ($1, $2, $3)";
}
