"""The command line: groups, options that commands share, and how people write times, offsets and names."""
