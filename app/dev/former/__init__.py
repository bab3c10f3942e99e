"""Names that modules had until 0.2.0, for programs that still use them: `app.testing` is `testing.py` of this folder.

`app/__init__.py` adds this directory to the path of `app`. Each module warns, and names the one to use.
"""
