"""The version of Punctual that runs here."""

VERSION = "0.2.0"
