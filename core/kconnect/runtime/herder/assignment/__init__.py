"""Assignment of connectors and tasks to group members: pure functions, each round with the result of Java's classes.

`eager` and `incremental` distribute the work; `protocol` encodes what members exchange, byte for byte.
"""
