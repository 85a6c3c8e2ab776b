"""Helpers for tests of connectors and of what runs them. Imported by tests only, never by production code."""

from kconnect.testing.thread_launcher import ThreadLauncher

__all__ = ["ThreadLauncher"]
