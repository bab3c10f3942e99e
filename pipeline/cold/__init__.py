"""The cold tier: messages due in the far future, stored in a Delta Lake table until shortly before they are due.

A worker writes messages beyond its horizon to the cold topic, and touches: commands and schedules for ids that may be
parked. The record of an id with the highest offset decides.
"""
