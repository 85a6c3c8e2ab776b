"""Java behaviour reproduced byte for byte: toString, regular expressions, JSON, hash maps, serialized maps, JKS.

Imported by builtin, config, storage, herder and direct; imports api and errors only, nothing that is slow to load.
"""
