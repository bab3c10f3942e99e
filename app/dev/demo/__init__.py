"""The demonstration that `make run` starts: a broker, a worker, and a shop whose orders need reminders.

It uses only what users have: topics, the worker's command line and `DelayClient`.
"""
