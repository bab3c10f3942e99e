"""Progress records: what each partition reports every second, and who reads it: workers, the console, Prometheus."""
