-- The shop's own tables.
CREATE TABLE customers (
	id INT NOT NULL PRIMARY KEY,
	next_seq BIGINT NOT NULL DEFAULT 1
);
INSERT INTO customers (id)
WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 100)
SELECT id FROM n;

CREATE TABLE orders (
	id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
	customer INT NOT NULL,
	seq BIGINT NOT NULL,
	created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	UNIQUE KEY customer (customer, seq)
);

-- The effects. No unique key but the row's own: an order that is shipped twice must show.
-- The row's id tells in which order the effects came.
CREATE TABLE shipments (
	id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
	order_id BIGINT NOT NULL,
	customer INT NOT NULL,
	seq BIGINT NOT NULL,
	shipped_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	KEY order_id (order_id),
	KEY customer (customer, id)
);
