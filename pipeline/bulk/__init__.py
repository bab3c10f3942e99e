"""Many messages at once: rows of a table become delay requests, or rejects with the reason.

`inputs` reads the rows, `mapping` says what of them means what, `requests` applies it row by row, `repeats` looks for
ids that occur twice; `overview` counts what comes out, `sending` brings it to the worker.
"""
