"""`app.access`, until 0.2.0 the name of `app.serve.access`: only its command is left."""
