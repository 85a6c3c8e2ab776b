"""The `connect` command: thin, owns no logic."""
