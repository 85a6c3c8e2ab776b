"""Offsets of connectors: how they are read, altered, reset and moved between files and topics."""
