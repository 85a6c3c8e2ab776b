"""Commands on the offsets of connectors (KIP-875): a source's in the store, a sink's in its consumer group."""
