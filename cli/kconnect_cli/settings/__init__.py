"""Settings of connectors: what changes, what looks misspelt, and what must not be shown."""
