"""Class archives of the JVMs we start: cached_archive.py finds, checks and keeps them, maker.py makes one.

Imported by kconnect.spark, kconnect.devbroker and kconnect.java_plugins, which know how their JVM is started; imports
kconnect.errors alone.
"""

from kconnect.class_archive.cached_archive import ClassArchive
from kconnect.class_archive.maker import Making, arguments, has_started_makers, make_in_background, run_maker

__all__ = ["ClassArchive", "Making", "arguments", "has_started_makers", "make_in_background", "run_maker"]
