"""Actions over HTTP: on one message, destination or dead letter, jobs on all that match a filter, and the audit."""
