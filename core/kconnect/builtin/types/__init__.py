"""Types: values and columns made to fit a column's type, and the schemas that Connect has for Arrow's types.

Imported by connectors, SqlTransform and Spark's rooms: of builtin's rooms the one that others may import. Pure.
Begin with `fitting.py`: `fit` takes columns, `build` takes values of JSON or Python, and both have one set of rules.
"""
