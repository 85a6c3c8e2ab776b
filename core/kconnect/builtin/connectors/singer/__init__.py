"""SingerSource: a Singer tap, a program that writes what it reads to its standard output, as a source.

`tap.py` runs the program, under the watch of `guard.py`, which is a program of its own, and understands what a tap
writes; `shapes.py` are its schemas, and pure.
"""
