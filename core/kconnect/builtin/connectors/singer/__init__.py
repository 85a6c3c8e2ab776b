"""SingerSource: a Singer tap, a program that writes what it reads to its standard output, as a source.

`messages.py` understands what a tap writes, schemas included, and is pure; `tap.py` runs the program, under the watch
of `guard.py`, which is a program of its own.
"""
