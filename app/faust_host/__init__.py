"""Where Faust is bent, and aiokafka's consumer with it: each place names the upstream line that it answers."""
