"""Files that commands read, write and watch: connectors, offsets, JSON."""
