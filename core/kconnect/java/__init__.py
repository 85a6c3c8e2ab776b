"""All that is Java here: its plugins in a JVM beside this process, what imitates it to the byte, its jars and programs.

May be imported by every floor above: `builtin` takes `compat` alone. Imports `api`, `client`, `files` and `logs`. Begin
with `plugins/`, which runs Java's plugins; `compat/` imitates Java (Jackson, hash order, key stores, properties),
`devbroker/` runs a broker and a schema registry for development, `maven.py`, `installed.py`, `archives/` and
`kafka_jars.py` find, fetch and start what they need.
"""
