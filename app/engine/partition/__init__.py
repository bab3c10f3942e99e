"""A partition at work: a single writer gathers records and outcomes into steps, and commits them one after the other.

`partition` holds the state, `step_builder` fills a step, `step_writer` commits it (exactly once:
`transactional_step_writer`, together with its deliveries), and `in_flight` has the rows that are being sent.
"""
