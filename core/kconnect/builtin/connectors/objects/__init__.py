"""ObjectSource and ObjectSink: files and objects, on a disk or in any store that fsspec reaches.

Imported by name, when a config names them. `object_progress.py`, `object_names.py` and `object_units.py` decide and
are pure.
"""
