-- Entries of a tree's root are found by their journal alone, so that a step writes one index less.
-- Only entries of the runs below a root are still found by their tree.
DROP INDEX entries_by_tree;
CREATE INDEX entries_by_tree ON entries(root, position) WHERE journal <> root;
