"""The formats of other systems that are read as requests: one module for each dialect."""
