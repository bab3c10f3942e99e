"""The topics of an installation: their names, their settings, and how many partitions each has."""
