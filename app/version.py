"""The version of Punctual that runs here."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("punctual")
except PackageNotFoundError:  # run from a tree that is not installed
    VERSION = "0"
