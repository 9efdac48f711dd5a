-- Whose a run is, and what code it needs.
ALTER TABLE runs ADD COLUMN owner TEXT;                         -- of its session
ALTER TABLE runs ADD COLUMN version INTEGER NOT NULL DEFAULT 0; -- the highest of the team's code that carried it
