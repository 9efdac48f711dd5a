-- The time by which a run goes on by itself, so that those that wake later are not read.
CREATE INDEX runs_by_due ON runs(CASE status WHEN 'running' THEN 0 WHEN 'cancelling' THEN 0 WHEN 'waiting' THEN wake_at END)
    WHERE CASE status WHEN 'running' THEN 0 WHEN 'cancelling' THEN 0 WHEN 'waiting' THEN wake_at END IS NOT NULL;
