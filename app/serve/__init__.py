"""What people and programs see: the HTTP API, the console, who may do what, search, dead letters and actions."""
