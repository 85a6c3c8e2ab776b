"""Types: values and columns made to fit a column's type, and the schemas that Connect has for Arrow's types.

Imported by connectors, SqlTransform and Spark's rooms: of builtin's rooms the one that others may import. Pure.
Begin with `fitting.py`: `fit` takes columns, `build` takes values of JSON or Python, and both have one set of rules.
Types are declared (`declared.py`), or seen in values without schema (`seen.py`, `seen_columns.py`); what
becomes of values that no column takes, `contracts.py` says and `settling.py` does.
"""
