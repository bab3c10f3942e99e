"""The formats of other systems that are read as requests: one module for each dialect.

To add a dialect, write a module with `WORDS` and a function `decode` (`deliver_after` is the shortest), an entry of
`DIALECTS` in `dialects`, and a chapter of docs/reference/dialects.md.
"""
