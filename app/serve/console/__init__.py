"""The console: pages for people on every worker's web port, from which they see what is pending and act on it.

Each page shows what its JSON twin under /api/v1 answers, and every form does what a request to the API does: a page can
nothing that a program cannot, and the same rules say who may do what.
"""
