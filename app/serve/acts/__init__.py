"""Acts on messages for people and programs over HTTP: ordinary records on the requests topic, and what came of them."""
