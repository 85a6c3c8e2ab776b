"""Completion: candidates for the last word of a command line."""
