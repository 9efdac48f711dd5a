-- The states are compared one by one: for a list of more than two behind IN, SQLite makes a table of its own at each
-- write of a run, and these took half of a busy committer's time.
DROP INDEX runs_open;
CREATE INDEX runs_open ON runs(started_at)
    WHERE status = 'running' OR status = 'waiting' OR status = 'parked' OR status = 'cancelling';
DROP INDEX runs_by_end;
CREATE INDEX runs_by_end ON runs(updated_at)
    WHERE parent IS NULL
    AND NOT (status = 'running' OR status = 'waiting' OR status = 'parked' OR status = 'cancelling');
