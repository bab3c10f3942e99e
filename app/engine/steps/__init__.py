"""Groups changes that are committed together, and applies commands and outcomes to messages. No I/O.

`step` is one group of changes, `transitions` ends and moves messages, `outcome_handler` applies the outcomes of sends.
"""
