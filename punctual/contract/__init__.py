"""The message contract: the headers of requests, commands and deliveries, and the home partition of an id.

`native` reads Punctual's own headers, `dialects` the formats of other systems. `request` and `message` are their common
result. docs/reference/records.md is the contract for users.
"""
