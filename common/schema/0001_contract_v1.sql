-- Contract v1: every table that relmq and its users share, and a view for people.
--
-- The same text runs on MariaDB 10.11+ and MySQL 8.0+. Every statement may run again:
-- DDL commits by itself, so a crash can fall between any two of them. A statement ends
-- with a semicolon at the end of its line, and nowhere else does a line end so.
--
-- Why byte strings: ids and keys compare as bytes, so no collation folds case, accents
-- or trailing spaces. They are wider than they may be long: without strict mode a server
-- cuts a value to the width of its column, and the CHECK then refuses the cut value. The
-- names of the constraints are what a writer gets to read.
-- Why TIMESTAMP(6): it stores the moment and not the writer's local time, to the
-- microsecond. Each has an explicit default, or old servers add ON UPDATE by themselves.

-- One row is one message to publish. Any client of any language may INSERT here, inside
-- the transaction of its business change. The least it gives is routing_key and payload.
-- status: 0 PENDING, 1 SENT (only when kept), 2 FAILED (refused, waits for next_retry_at),
-- 3 ABANDONED (waits for a person), 4 SCHEDULED (written with next_retry_at).
-- payload can be NULL by type and never is: without strict mode NOT NULL would turn a
-- missing or NULL payload into an empty message.
CREATE TABLE IF NOT EXISTS message_outbox (
	id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
	msg_id VARBINARY(1024) NOT NULL DEFAULT (UUID()),
	business_key VARBINARY(1024) NOT NULL DEFAULT '',
	exchange VARBINARY(1024) NOT NULL DEFAULT '',
	routing_key VARBINARY(1024) NOT NULL,
	type VARBINARY(1024) NOT NULL DEFAULT '',
	content_type VARBINARY(1024) NOT NULL DEFAULT 'application/octet-stream',
	headers JSON NULL,
	properties JSON NULL,
	payload LONGBLOB NULL,
	next_retry_at TIMESTAMP(6) NULL DEFAULT NULL,
	status TINYINT UNSIGNED NOT NULL DEFAULT (CASE WHEN next_retry_at IS NULL THEN 0 ELSE 4 END),
	retry_count INT UNSIGNED NOT NULL DEFAULT 0,
	last_error VARCHAR(1024) NULL,
	created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
	key_hash INT UNSIGNED GENERATED ALWAYS AS
		(CRC32(CASE WHEN OCTET_LENGTH(business_key) = 0 THEN msg_id ELSE business_key END)) STORED,
	shard TINYINT UNSIGNED GENERATED ALWAYS AS
		(CRC32(CASE WHEN OCTET_LENGTH(business_key) = 0 THEN msg_id ELSE business_key END) MOD 16) STORED,
	PRIMARY KEY (id),
	KEY ready (status, shard, id, key_hash),
	KEY due (status, next_retry_at),
	KEY msg_id (msg_id),
	CONSTRAINT outbox_msg_id_1_to_255_bytes CHECK (OCTET_LENGTH(msg_id) BETWEEN 1 AND 255),
	CONSTRAINT outbox_business_key_0_to_255_bytes CHECK (OCTET_LENGTH(business_key) <= 255),
	CONSTRAINT outbox_exchange_0_to_255_bytes CHECK (OCTET_LENGTH(exchange) <= 255),
	CONSTRAINT outbox_routing_key_1_to_255_bytes CHECK (OCTET_LENGTH(routing_key) BETWEEN 1 AND 255),
	CONSTRAINT outbox_type_0_to_255_bytes CHECK (OCTET_LENGTH(type) <= 255),
	CONSTRAINT outbox_content_type_0_to_255_bytes CHECK (OCTET_LENGTH(content_type) <= 255),
	CONSTRAINT outbox_headers_is_json_object CHECK (JSON_TYPE(headers) = 'OBJECT'),
	CONSTRAINT outbox_properties_is_json_object CHECK (JSON_TYPE(properties) = 'OBJECT'),
	CONSTRAINT outbox_payload_is_given CHECK (payload IS NOT NULL),
	CONSTRAINT outbox_next_retry_at_is_a_date CHECK (YEAR(next_retry_at) >= 1970),
	CONSTRAINT outbox_status_0_to_4 CHECK (status <= 4),
	CONSTRAINT outbox_waiting_row_has_next_retry_at CHECK
		(status NOT IN (2, 4) OR next_retry_at IS NOT NULL)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET=utf8mb4 COLLATE=utf8mb4_bin;

-- The outbox for a person to read. A byte string that is no UTF-8 shows as 0x and hex
-- digits, a payload that is none as its size alone.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW message_outbox_text AS
SELECT
	id,
	CASE WHEN CAST(CONVERT(msg_id USING utf8mb4) AS BINARY) = msg_id
		THEN CONVERT(msg_id USING utf8mb4) ELSE CONCAT('0x', HEX(msg_id)) END AS msg_id,
	CASE WHEN CAST(CONVERT(business_key USING utf8mb4) AS BINARY) = business_key
		THEN CONVERT(business_key USING utf8mb4) ELSE CONCAT('0x', HEX(business_key)) END AS business_key,
	CASE WHEN CAST(CONVERT(exchange USING utf8mb4) AS BINARY) = exchange
		THEN CONVERT(exchange USING utf8mb4) ELSE CONCAT('0x', HEX(exchange)) END AS exchange,
	CASE WHEN CAST(CONVERT(routing_key USING utf8mb4) AS BINARY) = routing_key
		THEN CONVERT(routing_key USING utf8mb4) ELSE CONCAT('0x', HEX(routing_key)) END AS routing_key,
	CASE WHEN CAST(CONVERT(type USING utf8mb4) AS BINARY) = type
		THEN CONVERT(type USING utf8mb4) ELSE CONCAT('0x', HEX(type)) END AS type,
	CASE WHEN CAST(CONVERT(content_type USING utf8mb4) AS BINARY) = content_type
		THEN CONVERT(content_type USING utf8mb4) ELSE CONCAT('0x', HEX(content_type)) END AS content_type,
	headers,
	properties,
	OCTET_LENGTH(payload) AS payload_bytes,
	CASE WHEN CAST(CONVERT(payload USING utf8mb4) AS BINARY) = payload
		THEN CONVERT(payload USING utf8mb4) END AS payload_text,
	CASE status WHEN 0 THEN 'PENDING' WHEN 1 THEN 'SENT' WHEN 2 THEN 'FAILED'
		WHEN 3 THEN 'ABANDONED' WHEN 4 THEN 'SCHEDULED' END AS status,
	retry_count,
	next_retry_at,
	last_error,
	created_at,
	updated_at,
	key_hash,
	shard
FROM message_outbox;

-- The relays that live. One whose row has expired takes no share any more.
CREATE TABLE IF NOT EXISTS outbox_relay (
	owner VARBINARY(1024) NOT NULL,
	expires_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	PRIMARY KEY (owner),
	CONSTRAINT relay_owner_1_to_255_bytes CHECK (OCTET_LENGTH(owner) BETWEEN 1 AND 255)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET=utf8mb4 COLLATE=utf8mb4_bin;

-- Who may send the rows of a shard, and until when. The epoch rises at every change of
-- owner and fences what an earlier one still settles.
CREATE TABLE IF NOT EXISTS outbox_lease (
	shard TINYINT UNSIGNED NOT NULL,
	owner VARBINARY(1024) NOT NULL DEFAULT '',
	epoch BIGINT UNSIGNED NOT NULL DEFAULT 0,
	expires_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	PRIMARY KEY (shard),
	CONSTRAINT lease_shard_0_to_15 CHECK (shard <= 15),
	CONSTRAINT lease_owner_0_to_255_bytes CHECK (OCTET_LENGTH(owner) <= 255)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET=utf8mb4 COLLATE=utf8mb4_bin;

-- All sixteen shards, free. IGNORE leaves those alone that are there already.
INSERT IGNORE INTO outbox_lease (shard, expires_at) VALUES
	(0, '2000-01-01 00:00:00'), (1, '2000-01-01 00:00:00'), (2, '2000-01-01 00:00:00'),
	(3, '2000-01-01 00:00:00'), (4, '2000-01-01 00:00:00'), (5, '2000-01-01 00:00:00'),
	(6, '2000-01-01 00:00:00'), (7, '2000-01-01 00:00:00'), (8, '2000-01-01 00:00:00'),
	(9, '2000-01-01 00:00:00'), (10, '2000-01-01 00:00:00'), (11, '2000-01-01 00:00:00'),
	(12, '2000-01-01 00:00:00'), (13, '2000-01-01 00:00:00'), (14, '2000-01-01 00:00:00'),
	(15, '2000-01-01 00:00:00');

-- Which messages a consumer has given their effect. state: 1 DONE, 2 PROCESSING (begun,
-- its end is not known; only DONE makes a duplicate). lease_owner, lease_until and epoch
-- belong to PROCESSING; attempts counts the starts that were committed beforehand.
-- No other unique key: each would lock gaps and deadlock consumers with each other.
-- processed_at is the end, filled by itself for a row that is born DONE; retention goes
-- by it.
CREATE TABLE IF NOT EXISTS message_inbox (
	consumer VARBINARY(1024) NOT NULL,
	msg_id VARBINARY(1024) NOT NULL,
	state TINYINT UNSIGNED NOT NULL DEFAULT 1,
	lease_owner VARBINARY(1024) NOT NULL DEFAULT '',
	lease_until TIMESTAMP(6) NULL DEFAULT NULL,
	epoch BIGINT UNSIGNED NOT NULL DEFAULT 0,
	attempts INT UNSIGNED NOT NULL DEFAULT 0,
	created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	processed_at TIMESTAMP(6) NULL DEFAULT (CASE WHEN state = 1 THEN CURRENT_TIMESTAMP(6) END),
	PRIMARY KEY (consumer, msg_id),
	KEY processed_at (processed_at),
	CONSTRAINT inbox_consumer_1_to_255_bytes CHECK (OCTET_LENGTH(consumer) BETWEEN 1 AND 255),
	CONSTRAINT inbox_msg_id_1_to_255_bytes CHECK (OCTET_LENGTH(msg_id) BETWEEN 1 AND 255),
	CONSTRAINT inbox_lease_owner_0_to_255_bytes CHECK (OCTET_LENGTH(lease_owner) <= 255),
	CONSTRAINT inbox_state_1_or_2 CHECK (state IN (1, 2)),
	CONSTRAINT inbox_done_row_has_processed_at CHECK (state <> 1 OR processed_at IS NOT NULL)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET=utf8mb4 COLLATE=utf8mb4_bin;

-- Messages of held keys, whole: the head of a key waits for its delay, the others of the
-- key wait behind it in the order of position. properties and headers are the bytes of
-- their AMQP encoding, because JSON has no word for a timestamp or for bytes.
-- (consumer, msg_id) is unique: a redelivered message joins its list once.
CREATE TABLE IF NOT EXISTS message_deferred (
	position BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
	consumer VARBINARY(1024) NOT NULL,
	business_key VARBINARY(1024) NOT NULL,
	msg_id VARBINARY(1024) NOT NULL,
	properties LONGBLOB NOT NULL,
	headers LONGBLOB NOT NULL,
	payload LONGBLOB NOT NULL,
	attempts INT UNSIGNED NOT NULL DEFAULT 0,
	next_attempt_at TIMESTAMP(6) NULL DEFAULT NULL,
	reason VARCHAR(1024) NULL,
	created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	PRIMARY KEY (consumer, business_key, position),
	UNIQUE KEY position (position),
	UNIQUE KEY msg_id (consumer, msg_id),
	KEY due (consumer, next_attempt_at),
	CONSTRAINT deferred_consumer_1_to_255_bytes CHECK (OCTET_LENGTH(consumer) BETWEEN 1 AND 255),
	CONSTRAINT deferred_business_key_1_to_255_bytes CHECK (OCTET_LENGTH(business_key) BETWEEN 1 AND 255),
	CONSTRAINT deferred_msg_id_1_to_255_bytes CHECK (OCTET_LENGTH(msg_id) BETWEEN 1 AND 255)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET=utf8mb4 COLLATE=utf8mb4_bin;

-- Steps that a handler has taken, so that each is taken once. The entity is the
-- handler's to name; by default it is the message id.
CREATE TABLE IF NOT EXISTS message_step (
	consumer VARBINARY(1024) NOT NULL,
	entity VARBINARY(1024) NOT NULL,
	step VARBINARY(1024) NOT NULL,
	created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	PRIMARY KEY (consumer, entity, step),
	KEY created_at (created_at),
	CONSTRAINT step_consumer_1_to_255_bytes CHECK (OCTET_LENGTH(consumer) BETWEEN 1 AND 255),
	CONSTRAINT step_entity_1_to_255_bytes CHECK (OCTET_LENGTH(entity) BETWEEN 1 AND 255),
	CONSTRAINT step_step_1_to_255_bytes CHECK (OCTET_LENGTH(step) BETWEEN 1 AND 255)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET=utf8mb4 COLLATE=utf8mb4_bin;

-- The migrations that were applied to the end; `relmq migrate` adds the row of each.
CREATE TABLE IF NOT EXISTS relmq_schema (
	version INT UNSIGNED NOT NULL,
	applied_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	PRIMARY KEY (version)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET=utf8mb4 COLLATE=utf8mb4_bin;
