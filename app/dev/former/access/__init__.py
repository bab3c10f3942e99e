"""`app.access`, the name of `app.serve.access` before 0.2.0, with its only remaining command."""
