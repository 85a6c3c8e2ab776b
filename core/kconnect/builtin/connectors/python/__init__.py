"""PythonSource and PythonSink: a function of the user's own as a connector.

`user_code.py` finds functions and says where they failed; `python_source.py` runs one on a thread; `made_records.py`
turns what it gives into records.
"""
