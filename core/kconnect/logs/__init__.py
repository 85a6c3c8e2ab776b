"""What is said in logs, and in what form: context of a line, its format, what must never appear in it, wording.

May be imported by every room; imports `errors`, `model` and `clock` only. Begin with `log_context.py`: the origin of a
line (connector, task, stage) and the handler that writes it. `log_tail.py` keeps the last lines, `redaction.py` hides
secrets, `java_messages.py` and `traces.py` put Java's messages and traces in words for people.
"""
