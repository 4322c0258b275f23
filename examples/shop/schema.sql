-- The shop's own tables, in the database that also holds relmq's: an order and its message
-- must fit into one transaction.

CREATE TABLE customers (
	id INT NOT NULL PRIMARY KEY,
	next_seq BIGINT NOT NULL DEFAULT 1
) ENGINE=InnoDB;
INSERT INTO customers (id)
WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 100)
SELECT id FROM n;

-- seq is the order's number among those of its customer: 1, 2, 3 without a gap.
CREATE TABLE orders (
	id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
	customer INT NOT NULL,
	seq BIGINT NOT NULL,
	created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	UNIQUE KEY customer (customer, seq)
) ENGINE=InnoDB;

-- The effects. On purpose nothing here is unique but the row itself: an order that is
-- shipped twice must show. The ids tell in which order the effects came.
CREATE TABLE shipments (
	id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
	order_id BIGINT NOT NULL,
	customer INT NOT NULL,
	seq BIGINT NOT NULL,
	shipped_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	KEY order_id (order_id),
	KEY customer (customer, id)
) ENGINE=InnoDB;
