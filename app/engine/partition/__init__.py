"""One partition at work: a single writer that gathers records and outcomes into steps, and commits one after the other.

`partition` is the task, `step_builder` fills a step, `step_writer` commits it, exactly once `transactional_step_writer`
together with its deliveries; `in_flight` knows the rows that are being sent.
"""
