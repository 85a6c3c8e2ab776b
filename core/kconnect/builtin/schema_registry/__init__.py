"""Converters that keep their schemas in a schema registry, one room each, and `registry/`, the client that they share.

The converters are plugins, found by name through `plugins`.
"""
