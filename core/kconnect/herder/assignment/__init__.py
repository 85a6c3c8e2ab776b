"""Who of a group gets which connectors and tasks: pure functions, round by round what Java's classes give.

`eager` and `incremental` share work out; `protocol` is what members write to each other, byte for byte.
"""
