-- What came out, from the tables alone: a line "name<TAB>value" each.

SELECT 'committed', COUNT(*) FROM orders;
-- An INSERT uses up an id also when it is rolled back: the ids that are missing are the
-- orders that were rolled back, on purpose or because the shop was killed.
SELECT 'rolled_back', COALESCE(MAX(id), 0) - COUNT(*) FROM orders;
SELECT 'rows_left', COUNT(*) FROM message_outbox;
SELECT 'effects', COUNT(*) FROM shipments;
-- Messages that came back from a killed consumer, or from the broker's restart, before
-- they had their effect: the inbox counts such a start.
SELECT 'resumed', COUNT(*) FROM message_inbox WHERE attempts > 0;

SELECT 'lost', COUNT(*) FROM orders o LEFT JOIN shipments s ON s.order_id = o.id WHERE s.id IS NULL;
SELECT 'doubled', COUNT(*) - COUNT(DISTINCT order_id) FROM shipments;
-- Effects of orders that were never committed.
SELECT 'unfounded', COUNT(*) FROM shipments s LEFT JOIN orders o ON o.id = s.order_id WHERE o.id IS NULL;
-- Effects that came after the effect of a later order of the same customer.
SELECT 'out_of_order', COUNT(*) FROM (
	SELECT seq, MAX(seq) OVER (PARTITION BY customer ORDER BY id
		ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest_before
	FROM shipments) t
WHERE seq < highest_before;

-- Both ends by the clock of the database: from the INSERT of the order, a moment before its
-- COMMIT, to the INSERT of the shipment.
SELECT 'median_ms', COALESCE(ROUND(MAX(us) / 1000, 1), 0) FROM (
	SELECT TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at) AS us,
		PERCENT_RANK() OVER (ORDER BY TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at)) AS part
	FROM shipments s JOIN orders o ON o.id = s.order_id) t
WHERE part <= 0.5;
SELECT 'p99_ms', COALESCE(ROUND(MAX(us) / 1000, 1), 0) FROM (
	SELECT TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at) AS us,
		PERCENT_RANK() OVER (ORDER BY TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at)) AS part
	FROM shipments s JOIN orders o ON o.id = s.order_id) t
WHERE part <= 0.99;

-- The same when nothing was hit any more: the last thousand orders.
SELECT 'calm_ms', COALESCE(ROUND(MAX(us) / 1000, 1), 0) FROM (
	SELECT TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at) AS us,
		PERCENT_RANK() OVER (ORDER BY TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at)) AS part
	FROM (SELECT id, created_at FROM orders ORDER BY id DESC LIMIT 1000) o
	JOIN shipments s ON s.order_id = o.id) t
WHERE part <= 0.5;
