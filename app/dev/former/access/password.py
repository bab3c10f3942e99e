"""`python -m app.access.password`, the name of `punctual password` before 0.2.0."""

import runpy
import sys

if __name__ == "__main__":
    sys.stderr.write("`python -m app.access.password` will be removed: use `punctual password`.\n")
    sys.argv.insert(1, "password")
    runpy.run_module("app.ops.access", run_name="__main__")
