"""What Java does to the byte, done in Python: texts, regular expressions, JSON, hash maps, serialized maps, key stores.

Imported by builtin, config, storage, herder and direct; imports api and errors only, and nothing that is slow to load.
"""
