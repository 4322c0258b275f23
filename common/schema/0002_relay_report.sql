-- What a relay says of itself, at every renewal of its lease: an object with `stats` (the
-- numbers of relmq/publisher.h) and `breakers` (the destinations that it leaves alone). For people
-- and `relmq status`; nothing is decided by it.
ALTER TABLE outbox_relay ADD COLUMN report LONGTEXT NULL;
