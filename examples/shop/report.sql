-- What came out, from the tables alone: "name<TAB>value" a line.
SELECT 'committed', COUNT(*) FROM orders;
-- A rolled-back INSERT has used up an id: what is missing among them was rolled back (on
-- purpose, or because the writer was killed).
SELECT 'rolled_back', COALESCE(MAX(id), 0) - COUNT(*) FROM orders;
SELECT 'rows_left', COUNT(*) FROM message_outbox;
SELECT 'effects', COUNT(*) FROM shipments;
SELECT 'lost', COUNT(*) FROM orders o LEFT JOIN shipments s ON s.order_id = o.id WHERE s.id IS NULL;
-- Shipped more often than once, or without a committed order.
SELECT 'doubled', COUNT(*) - COUNT(DISTINCT order_id) FROM shipments;
SELECT 'unfounded', COUNT(*) FROM shipments s LEFT JOIN orders o ON o.id = s.order_id WHERE o.id IS NULL;
SELECT 'out_of_order', COUNT(*) FROM (
	SELECT seq, LAG(seq) OVER (PARTITION BY customer ORDER BY id) AS before_it FROM shipments) t
WHERE before_it >= seq;
SELECT 'median_ms', COALESCE(ROUND(MAX(us) / 1000, 1), 0) FROM (
	SELECT TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at) AS us,
		PERCENT_RANK() OVER (ORDER BY TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at)) AS part
	FROM shipments s JOIN orders o ON o.id = s.order_id) t WHERE part <= 0.5;
SELECT 'p99_ms', COALESCE(ROUND(MAX(us) / 1000, 1), 0) FROM (
	SELECT TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at) AS us,
		PERCENT_RANK() OVER (ORDER BY TIMESTAMPDIFF(MICROSECOND, o.created_at, s.shipped_at)) AS part
	FROM shipments s JOIN orders o ON o.id = s.order_id) t WHERE part <= 0.99;
