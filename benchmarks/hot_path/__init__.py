"""The hot path on one thread, without Kafka: CPU per message of each stage, compared with an older commit.

`python -m benchmarks.hot_path --against COMMIT` judges small costs, for which a real Kafka is too noisy: two processes,
each with the production classes of one tree, take turns at short rounds. CONTRIBUTING.md says how to read it.
"""
