"""Finds due messages, holds them back while a command for them may be unread, and measures lateness."""
