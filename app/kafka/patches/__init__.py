"""Where aiokafka is bent, each module naming the upstream line that it answers."""
