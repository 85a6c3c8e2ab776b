"""SingerSource: a Singer tap, a program that writes what it reads to its standard output, as a source.

`messages.py` and `json_types.py` understand what a tap writes and are pure; `tap.py` runs the program, under the watch
of `guard.py`, which is a program of its own.
"""
