"""Files that are there completely or not at all, in a folder or in any store that fsspec reaches.

Imported by ObjectSource, ObjectSink and TableSink. `file_store.py` has the store, and is the only importer of fsspec;
`flush_plan.py` decides when what waits is written, and `store_errors.py` what a failure is called and whether it
passes: both are pure.
"""
