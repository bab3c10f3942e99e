"""How the gateway reads bodies, and which browsers it answers."""
