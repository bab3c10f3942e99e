"""The formats of other systems for requests: one module per dialect.

To add a dialect, write a module with `WORDS` and a function `decode` (`deliver_after` is the shortest), an entry of
`DIALECTS` in `dialects`, and a chapter of docs/reference/dialects.md.
"""
