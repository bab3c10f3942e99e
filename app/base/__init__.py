"""Parts that do not depend on messages: the clock, errors, HTTP clients and servers, the process and its tasks."""
