"""The herder of one process: configs and statuses in memory; requests run on the caller's thread."""
