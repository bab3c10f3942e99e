"""The console: pages on every worker's web port, which show pending messages and act on them.

Each page shows the response of its JSON twin under /api/v1, and every form sends a request to the API. So a page can do
no more than a program, with the same permissions.
"""
