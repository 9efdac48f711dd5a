-- When a node last renewed its lease, so that everybody sees how far it is behind, and where its server is reached.
ALTER TABLE nodes ADD COLUMN renewed_at timestamptz; -- by the database's clock; NULL: by a program of before this version
ALTER TABLE nodes ADD COLUMN address text;           -- NULL: other nodes do not reach it
