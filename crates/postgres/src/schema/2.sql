-- Whose a run is, what code it needs, and what code each node has.
ALTER TABLE runs ADD COLUMN owner text;                         -- of its session
ALTER TABLE runs ADD COLUMN version bigint NOT NULL DEFAULT 0;  -- the highest of the team's code that carried it
ALTER TABLE nodes ADD COLUMN carries text NOT NULL DEFAULT '[]';-- its teams with the versions of their code, as JSON
