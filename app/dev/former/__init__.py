"""Module names of versions before 0.2.0, for programs that still use them: `app.testing` is `testing.py` here.

`app/__init__.py` adds this directory to the path of `app`. Each module warns, and names its replacement.
"""
