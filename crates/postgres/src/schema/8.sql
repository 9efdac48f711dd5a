-- The tables of version 8, the first that is read.
-- Times are milliseconds since 1970-01-01 UTC, but for leases, which are the database's own time.

-- The end of the store: one row, whose lock each commit takes, so that commits have one order.
CREATE TABLE tail(
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    commit bigint NOT NULL,
    digest bytea NOT NULL,
    position bigint NOT NULL,  -- of the last entry
    journal bigint NOT NULL,   -- the highest id of a journal
    mark bigint NOT NULL       -- of the last item that was posted
);
INSERT INTO tail VALUES (true, 0, decode(repeat('00', 32), 'hex'), 0, 0, 0);

-- The latest commits, by which a node finds out whether one of its own came to be before its connection broke.
CREATE TABLE commits(
    number bigint PRIMARY KEY,
    digest bytea NOT NULL,     -- chained to the commit before this one
    node text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The processes that have the store open. One lives as long as it holds the advisory lock of its number
-- and its lease has not run out.
CREATE TABLE nodes(
    id text COLLATE "C" PRIMARY KEY,
    number integer NOT NULL,
    lease_until timestamptz NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    carries text NOT NULL DEFAULT '[]', -- its teams with the versions of their code, as JSON
    renewed_at timestamptz,    -- when it last renewed its lease, so that everybody sees how far it is behind
    address text,              -- where its server is reached; NULL: other nodes do not reach it
    process text               -- the machine, a namespace, a number and a start, so that others of its machine see that it
                               -- has ended and not only lost its connection; NULL: its system does not say so
);

CREATE FUNCTION node_lives(node text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT 1 FROM nodes WHERE id = node AND lease_until > clock_timestamp() AND EXISTS (
            SELECT 1 FROM pg_locks
            WHERE locktype = 'advisory' AND classid = 1735943795 AND objid = nodes.number::oid AND granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())))
$$;

-- PostgreSQL writes every index of a row anew if a column of one of them changed, its condition included. A run's
-- journal has no such column that changes, and its new row finds room on the same page: the time of a session is in a
-- column of its own.
CREATE TABLE journals(
    id bigint PRIMARY KEY,
    key text COLLATE "C" NOT NULL UNIQUE, -- a run's id, or session:<team>/<key>
    root bigint,               -- the journal of its tree's root run; NULL for a session
    epoch bigint NOT NULL,
    owner text,                -- the id of a node
    entries bigint NOT NULL,   -- how many it has
    hash bytea NOT NULL,       -- of its last entry
    updated_at bigint NOT NULL,-- when its last entry was written
    definition bytea,          -- the blob to which its first entry refers
    heard_at bigint GENERATED ALWAYS AS
        (CASE WHEN key >= 'session:' AND key < 'session;' AND entries > 0 THEN updated_at END) STORED,
    settles_at bigint          -- until when the former owner may begin what it was allowed to, in milliseconds of this
                               -- server's clock, so that nobody asks too early what became of it; NULL: there was none
) WITH (fillfactor = 50);
CREATE INDEX journals_by_root ON journals(root) WHERE root IS NOT NULL;
CREATE INDEX journals_by_definition ON journals(definition) WHERE definition IS NOT NULL;
CREATE INDEX sessions_by_time ON journals(heard_at DESC, key) WHERE heard_at IS NOT NULL;

CREATE TABLE entries(
    position bigint PRIMARY KEY,
    journal bigint NOT NULL,
    root bigint,
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    body text NOT NULL,        -- the entry's JSON text
    hash bytea NOT NULL        -- chained to the journal's entry before this one
);
CREATE UNIQUE INDEX entries_by_journal ON entries(journal, sequence);
-- Entries of a tree's root are found by their journal alone, so that a step writes one index less.
CREATE INDEX entries_by_tree ON entries(root, position) WHERE journal <> root;

CREATE TABLE runs(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order in which runs were made
    run text COLLATE "C" NOT NULL UNIQUE,
    root text COLLATE "C" NOT NULL,
    parent text,
    session_team text COLLATE "C",
    session_key text COLLATE "C",
    team text NOT NULL,
    agent text NOT NULL,
    path text NOT NULL,        -- a JSON array
    status text NOT NULL,
    title text NOT NULL,
    wake_at bigint,
    started_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    owner text,                -- of its session
    version bigint NOT NULL DEFAULT 0 -- the highest of the team's code that carried it
);
CREATE INDEX runs_by_start ON runs(started_at DESC, id DESC);
CREATE INDEX runs_by_session ON runs(session_team, session_key, started_at) WHERE session_team IS NOT NULL;
CREATE INDEX runs_by_root ON runs(root, started_at);
CREATE INDEX runs_open ON runs(started_at)
    WHERE status IN ('running', 'waiting', 'parked', 'cancelling');
CREATE INDEX runs_by_end ON runs(updated_at)
    WHERE parent IS NULL AND status NOT IN ('running', 'waiting', 'parked', 'cancelling');
-- The time by which a run goes on by itself, so that those that wake later are not read.
CREATE INDEX runs_by_due ON runs((CASE status WHEN 'running' THEN 0 WHEN 'cancelling' THEN 0 WHEN 'waiting' THEN wake_at END))
    WHERE (CASE status WHEN 'running' THEN 0 WHEN 'cancelling' THEN 0 WHEN 'waiting' THEN wake_at END) IS NOT NULL;

CREATE TABLE state(
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text,                -- JSON; NULL when it was deleted, so that versions go on
    version bigint NOT NULL,
    PRIMARY KEY(scope, key)
);

CREATE TABLE blobs(
    hash bytea PRIMARY KEY,    -- BLAKE3, 32 bytes
    bytes bytea NOT NULL
);

CREATE TABLE inbox(
    mark bigint PRIMARY KEY,   -- the order in which items were posted
    run text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    body text,                 -- JSON; NULL once a commit took it, so that the id stays known
    UNIQUE(run, id)
);
CREATE INDEX inbox_waiting ON inbox(run, mark) WHERE body IS NOT NULL;
CREATE INDEX inbox_news ON inbox(mark) WHERE body IS NOT NULL;

CREATE TABLE checkpoints(
    session text COLLATE "C" PRIMARY KEY,
    bytes bytea NOT NULL,
    digest bytea NOT NULL
);

-- The runs that were deleted last.
CREATE TABLE deleted(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text COLLATE "C" NOT NULL UNIQUE,
    at bigint NOT NULL
);
