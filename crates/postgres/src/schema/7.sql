-- Until when the former owner of a journal may begin what it was allowed to, so that nobody asks too early what became of it.
ALTER TABLE journals ADD COLUMN settles_at bigint; -- in milliseconds of this server's clock; NULL: there was no such owner
