"""The clients, their options and their errors; `punctual` has the names that programs import."""
