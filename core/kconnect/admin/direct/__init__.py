"""Administration of a Connect cluster on its internal topics, with or without workers.

Imported by the CLI; imports `storage`, `kafka`, `config`, `herder` (protocol and rules). Decisions (doctor, edits,
history) are pure functions over what was read; `access` and what opens logs are the thin shell.
"""
