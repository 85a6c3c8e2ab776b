"""One noun per module."""
