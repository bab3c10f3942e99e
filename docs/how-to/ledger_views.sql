-- Views of a ledger. To have them in Spark SQL: spark-sql --define ledger=/var/lib/punctual/ledger -i ledger_views.sql

-- A row for each message, or occurrence of a recurring message. `ending` is null while it is pending or missing.
CREATE OR REPLACE TEMPORARY VIEW messages AS
WITH changes AS (
  SELECT *, CASE kind WHEN 'outcomes' THEN event WHEN 'rescued' THEN 'rescued' END AS end
  FROM delta.`${ledger}`
  WHERE kind IN ('accepted', 'outcomes', 'rescued')
)
SELECT
  source_topic, source_partition, source_offset, occurrence,
  min_by(id, at) AS id,
  min_by(to, at) AS to,
  min(at) FILTER (WHERE kind = 'accepted') AS accepted_at,
  -- After a crash, a message can have several endings: the first in this list counts.
  min_by(end, array_position(array('delivered', 'cancelled', 'replaced', 'dropped', 'rejected', 'parked', 'rescued'), end))
    FILTER (WHERE end IS NOT NULL) AS ending,
  count(DISTINCT delivered) AS deliveries,
  min(late_ms) AS late_ms
FROM changes
GROUP BY source_topic, source_partition, source_offset, occurrence;

-- The account by UTC day of acceptance and destination: accepted = the endings + unended.
CREATE OR REPLACE TEMPORARY VIEW account AS
SELECT
  to_date(accepted_at) AS day, to,
  count(*) AS accepted,
  count_if(ending = 'delivered') AS delivered,
  count_if(ending = 'cancelled') AS cancelled,
  count_if(ending = 'replaced') AS replaced,
  count_if(ending = 'dropped') AS dropped,
  count_if(ending = 'rejected') AS rejected,
  count_if(ending = 'parked') AS parked,
  count_if(ending = 'rescued') AS rescued,
  count_if(ending IS NULL) AS unended,
  sum(greatest(deliveries - 1, 0)) AS duplicates
FROM messages
WHERE accepted_at IS NOT NULL
GROUP BY ALL;

-- Lateness in milliseconds by UTC day of delivery and destination.
CREATE OR REPLACE TEMPORARY VIEW lateness AS
SELECT
  day, to,
  count(*) AS deliveries,
  percentile(late_ms, 0.5) AS p50,
  percentile(late_ms, 0.99) AS p99,
  max(late_ms) AS largest
FROM delta.`${ledger}`
WHERE kind = 'outcomes' AND event = 'delivered'
GROUP BY ALL;
