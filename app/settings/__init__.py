"""The settings of workers and gateways, read from environment variables.

settings  reads and checks all settings; `worker`, `gateway`, `kafka` and `web` declare them
declared  how one is declared and read
values    what a value may be: durations, patterns, numbers
checks    whether settings fit together
"""
