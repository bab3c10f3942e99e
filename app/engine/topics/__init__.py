"""The topics of an installation: their names, settings and numbers of partitions."""
