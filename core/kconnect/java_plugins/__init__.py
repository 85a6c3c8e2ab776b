"""Java's plugins run here: found in plugin.path without a JVM, run in one of their own beside this process.

index.py finds names in jars; catalogue.py gives a class of ours for each. host.py starts the JVM, program.py knows its
command line and its program (java/src at the top of the checkout), connection.py speaks with one object in it.
connectors.py, source_task.py, sink_task.py and stages.py are Java's plugins in the form of kconnect.api; encoded.py is
for chains that are all Java's, of which only bytes come out. blocks.py, runs.py and texts.py are what crosses.
Imported by kconnect.plugins, and by kconnect.pipeline for whole chains; imports api and the loose rooms.
"""

from kconnect.java_plugins.catalogue import JavaPlugins
from kconnect.java_plugins.encoded import EncodedFailure, EncodedPoll, JavaChain, JavaPart, JavaStep
from kconnect.java_plugins.host import JavaSettings
from kconnect.java_plugins.hosting import Hosted, java_class
from kconnect.java_plugins.index import JavaIndex
from kconnect.java_plugins.java_error import java_error
from kconnect.java_plugins.sink_task import JavaSinkTask, RawRun
from kconnect.java_plugins.source_task import JavaSourceTask

__all__ = [
    "EncodedFailure",
    "EncodedPoll",
    "Hosted",
    "JavaChain",
    "JavaIndex",
    "JavaPart",
    "JavaPlugins",
    "JavaSettings",
    "JavaSinkTask",
    "JavaSourceTask",
    "JavaStep",
    "RawRun",
    "java_class",
    "java_error",
]
