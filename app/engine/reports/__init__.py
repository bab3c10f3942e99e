"""Progress records: each partition writes one every second, for workers, the console and Prometheus."""
