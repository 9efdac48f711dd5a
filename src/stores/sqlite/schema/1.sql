CREATE TABLE journals(
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,  -- a run's id, or session:<team>/<key>
    root INTEGER,              -- the journal of its tree's root run; NULL for a session
    epoch INTEGER NOT NULL,
    owner TEXT,                -- the name of a lock file in <store>.owners
    digest BLOB NOT NULL       -- the check of this row
) STRICT;

CREATE TABLE entries(
    position INTEGER PRIMARY KEY,
    journal INTEGER NOT NULL,
    root INTEGER,
    sequence INTEGER NOT NULL,
    at INTEGER NOT NULL,       -- milliseconds since 1970-01-01 UTC
    body TEXT NOT NULL,        -- the entry's JSON text
    hash BLOB NOT NULL         -- chained to the journal's entry before this one
) STRICT;
CREATE UNIQUE INDEX entries_by_journal ON entries(journal, sequence);
CREATE INDEX entries_by_tree ON entries(root);

CREATE TABLE commits(
    number INTEGER PRIMARY KEY,
    position INTEGER NOT NULL, -- of the last entry there was
    digest BLOB NOT NULL       -- chained to the commit before this one
) STRICT;

CREATE TABLE runs(
    id INTEGER PRIMARY KEY,    -- the order in which runs were made
    run TEXT NOT NULL UNIQUE,
    root TEXT NOT NULL,
    parent TEXT,
    session_team TEXT,
    session_key TEXT,
    team TEXT NOT NULL,
    agent TEXT NOT NULL,
    path TEXT NOT NULL,        -- a JSON array
    status TEXT NOT NULL,
    title TEXT NOT NULL,
    wake_at INTEGER,
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE INDEX runs_by_start ON runs(started_at);
CREATE INDEX runs_by_session ON runs(session_team, session_key, started_at)
    WHERE session_team IS NOT NULL;
CREATE INDEX runs_by_root ON runs(root, started_at);
CREATE INDEX runs_open ON runs(started_at)
    WHERE status IN ('running', 'waiting', 'parked', 'cancelling');

CREATE TABLE state(
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,                -- JSON; NULL when it was deleted, so that versions go on
    version INTEGER NOT NULL,
    digest BLOB NOT NULL,
    UNIQUE(scope, key)
) STRICT;

CREATE TABLE blobs(
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE, -- BLAKE3, 32 bytes
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE inbox(
    mark INTEGER PRIMARY KEY,  -- the order in which items were posted
    run TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    body TEXT,                 -- JSON; NULL once a commit took it, so that the id stays known
    digest BLOB NOT NULL,
    UNIQUE(run, id)
) STRICT;
CREATE INDEX inbox_waiting ON inbox(run) WHERE body IS NOT NULL;

CREATE TABLE checkpoints(
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL UNIQUE,
    bytes BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
