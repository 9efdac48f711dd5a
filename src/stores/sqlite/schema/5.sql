-- What a run asks people, so that nobody reads its journal for that.
ALTER TABLE runs ADD COLUMN asks TEXT; -- a JSON array: operations, and the sequence numbers of their entries
-- As which run a run began that went on in another journal: that run's mailbox is its own.
ALTER TABLE runs ADD COLUMN begun_as TEXT; -- NULL: as itself
