-- The tables of version 4, the first that is read. An opened file must have exactly these texts.

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

-- `first` is the first commit that the row stands for, if not itself: a commit of which no entry is left is folded into
-- the row of a later one.
CREATE TABLE commits(
    number INTEGER PRIMARY KEY,
    position INTEGER NOT NULL, -- of the last entry there was
    digest BLOB NOT NULL       -- chained to the commit before this one
, first INTEGER) STRICT;

-- `owner` is that of the run's session, `version` the highest version of the team's code that carried it.
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
, owner TEXT, version INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX runs_by_start ON runs(started_at);
CREATE INDEX runs_by_session ON runs(session_team, session_key, started_at)
    WHERE session_team IS NOT NULL;
CREATE INDEX runs_by_root ON runs(root, started_at);
CREATE INDEX runs_open ON runs(started_at)
    WHERE status IN ('running', 'waiting', 'parked', 'cancelling');
CREATE INDEX runs_by_end ON runs(updated_at)
    WHERE parent IS NULL AND status NOT IN ('running', 'waiting', 'parked', 'cancelling');
-- The time by which a run goes on by itself, so that those that wake later are not read.
CREATE INDEX runs_by_due ON runs(CASE status WHEN 'running' THEN 0 WHEN 'cancelling' THEN 0 WHEN 'waiting' THEN wake_at END)
    WHERE CASE status WHEN 'running' THEN 0 WHEN 'cancelling' THEN 0 WHEN 'waiting' THEN wake_at END IS NOT NULL;

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

-- The entries of ended runs may go; their hashes stay here for as long as other entries of
-- their commits are there, so that the commits' digests can still be computed.
CREATE TABLE gone(
    position INTEGER PRIMARY KEY,
    hash BLOB NOT NULL
) STRICT;

-- The runs that were deleted last.
CREATE TABLE deleted(
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;
