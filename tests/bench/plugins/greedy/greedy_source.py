"""A function for PythonSource that takes a core, and holds Python's lock for as long as Python lets it."""

import time


def eat():
    while True:
        end_s = time.monotonic() + 1.0
        while time.monotonic() < end_s:
            sum(range(100_000))
        yield "still hungry"
