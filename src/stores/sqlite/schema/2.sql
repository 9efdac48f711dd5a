-- Deletion. The entries of ended runs may go; their hashes stay here for as long as other entries of
-- their commits are there, so that the commits' digests can still be computed.
CREATE TABLE gone(
    position INTEGER PRIMARY KEY,
    hash BLOB NOT NULL
) STRICT;

-- A commit of which no entry is left is folded into the row of a later one.
ALTER TABLE commits ADD COLUMN first INTEGER; -- the first commit that the row stands for, if not itself

-- The runs that were deleted last.
CREATE TABLE deleted(
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;

CREATE INDEX runs_by_end ON runs(updated_at)
    WHERE parent IS NULL AND status NOT IN ('running', 'waiting', 'parked', 'cancelling');
