"""Parts of aiokafka that are replaced. Each module names the upstream line."""
