"""The command line, `punctual …`: one file per command, and files for their shared parts.

Data goes to stdout, everything else to stderr. A command's modules are loaded when it runs, so that help and commands
that only ask a worker start at once.
"""
