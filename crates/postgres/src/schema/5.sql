-- When a node last renewed its lease, by the database's clock, so that everybody sees how far it is behind.
ALTER TABLE nodes ADD COLUMN renewed_at timestamptz; -- NULL: by a program of before this version
