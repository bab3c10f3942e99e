"""The settings of workers and gateways, read from environment variables.

settings  all settings; `gateway`, `kafka` and `web` declare some of them
declared  how one is declared and read
values    what a value may be: durations, patterns, numbers
checks    whether settings fit together
"""
