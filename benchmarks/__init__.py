"""Measures Punctual on a real Kafka, from outside: lateness, speed, recovery and footprint.

`python -m benchmarks` is the short form; docs/how-to/measure.md lists the measurements, and how to compare results. A
worker and its load are processes of their own. Deliveries are read back, and a run in which any message was lost,
early, changed or doubled fails: a fast wrong answer is no result.
"""
