from app.dev.testing import Delayed, Options, Pending, Post, Record

__all__ = ["Delayed", "Options", "Pending", "Post", "Record"]
