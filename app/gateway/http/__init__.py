"""How the gateway reads bodies and writes problems."""
