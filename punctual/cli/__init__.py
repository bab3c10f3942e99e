"""The command line, `punctual …`: one file for each command, and what they share in files beside them.

Data goes to stdout, everything else to stderr. What a command needs is loaded when it runs, so that help and the
commands that only ask a worker start at once.
"""
