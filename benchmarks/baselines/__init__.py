"""Other ways to delay messages, as teams build them, measured by the same experiments in the same run.

They hold and deliver, no more: no commands, no events, no account.
"""
