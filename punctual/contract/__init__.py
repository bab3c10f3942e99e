"""The message contract: what headers of requests, commands and deliveries mean, and which partition an id belongs to.

`native` reads Punctual's own headers, `dialects` the formats of other systems. `request` and `message` are what both
make of them. docs/reference/records.md is the contract for readers.
"""
