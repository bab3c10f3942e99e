"""Finds due messages, holds them back while commands may be unread, and measures lateness."""
