"""The report: one page, for people who look rather than read."""
