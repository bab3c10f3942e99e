"""Measures Punctual on a real Kafka, from outside: lateness, speed, recovery and footprint.

`python -m benchmarks` is the short form; docs/how-to/measure.md says what is measured, and how to compare results.
A worker and its load are processes of their own. What comes out is read back, and a run in which anything was lost,
early, changed or doubled fails: a fast wrong answer is no result.
"""
