"""`python -m app.access.password`, until 0.2.0 the name of `punctual password`."""

import sys

from app.serve.access.password import main

if __name__ == "__main__":
    sys.stderr.write("`python -m app.access.password` will be removed: use `punctual password`.\n")
    main()
