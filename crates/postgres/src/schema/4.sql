-- The time of a session in a column of its own, so that a step changes no index of its run's journal.
-- PostgreSQL writes every index of a row anew if a column of one of them changed, its condition included. A run's
-- journal has no such column that changes now, and its new row finds room on the same page.
DROP INDEX sessions_by_time;
ALTER TABLE journals SET (fillfactor = 50),
    ADD COLUMN heard_at bigint GENERATED ALWAYS AS
        (CASE WHEN key >= 'session:' AND key < 'session;' AND entries > 0 THEN updated_at END) STORED;
CREATE INDEX sessions_by_time ON journals(heard_at DESC, key) WHERE heard_at IS NOT NULL;
