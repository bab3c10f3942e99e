"""Bulk requests: rows of a table become delay requests, or rejects with the reason.

`inputs` reads the rows, `mapping` assigns columns to the fields of a request, `requests` applies the mapping, `repeats`
finds ids that occur twice, `overview` counts the requests, and `sending` writes them to the request topic.
"""
