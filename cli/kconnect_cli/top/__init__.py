"""`connect top`: the live screen of a cluster.

`state.py` decides (events in, state and requests out) and `view.py` says what is drawn: both pure. `watches.py`
looks at the cluster on threads of its own, `run.py` does what keys ask for, and `app.py`, the only importer of
Textual in the project, carries keys in and lines out. Imported by its command alone, as late as possible.
"""
