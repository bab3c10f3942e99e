"""What knows no message: the clock, errors, HTTP, a process and its tasks."""
