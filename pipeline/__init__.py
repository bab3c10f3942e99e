"""The data pipeline: what is handled in bulk, by Spark, through the topics of the contract alone."""
