-- Which process a node is, so that others of its machine see that it has ended and not only lost its connection.
ALTER TABLE nodes ADD COLUMN process text; -- the machine, a namespace, a number and a start; NULL: its system does not say so
