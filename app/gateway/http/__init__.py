"""How the gateway reads bodies, which browsers it answers, and where its former addresses are."""
