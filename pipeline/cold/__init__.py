"""The cold tier: what is due in the far future, in Parquet until shortly before it is due.

The worker writes what it doesn't keep to the cold topic, and touches: commands and schedules that concern an id which
may be parked. Of all records of an id the one with the highest offset decides.
"""
