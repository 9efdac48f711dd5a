-- What a run asks people, so that nobody reads its journal for that.
ALTER TABLE runs ADD COLUMN asks TEXT; -- a JSON array: operations, and the sequence numbers of their entries
