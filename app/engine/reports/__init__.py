"""What workers tell each other and everyone: a progress record of each partition every second, and who reads them."""
