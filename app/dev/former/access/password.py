"""`python -m app.access.password`, until 0.2.0 the name of `punctual password`."""

import runpy
import sys

if __name__ == "__main__":
    sys.stderr.write("`python -m app.access.password` will be removed: use `punctual password`.\n")
    runpy.run_module("app.serve.access.password", run_name="__main__")
