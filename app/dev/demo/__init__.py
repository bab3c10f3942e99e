"""The demonstration that `make run` starts: a broker, a worker, and a shop whose orders need reminders.

Everything in it uses the product as anyone would: topics, the worker's command line and `DelayClient`.
"""
