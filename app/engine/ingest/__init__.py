"""Ingest of records: requests become rows, commands change or cancel pending messages, the rest becomes dead letters.

`ingest` decodes records and looks up their ids, `schedules` handles requests, `commands` cancel, reschedule and
deliver-now, `refusals` refused records. All add to a step of the partition, which is committed later.
"""
