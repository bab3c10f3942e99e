"""The version of Punctual."""

VERSION = "0.2.0"
