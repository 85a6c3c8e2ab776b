"""Java's plugins run here: found in plugin.path without a JVM, run in one of their own beside this process.

index.py finds names in the jars of folders.py, by manifests and by what classes extend; versions.py asks for
versions, catalogue.py gives a class of ours for each, manifests.py warns of those without manifest. host.py starts
the JVM: its process is own_jvm.py, or a worker's that shared_jvm.py lends, its sessions are jvm.py. program.py knows
its command line and its program (java/src at the top of the checkout), preparation.py fetches and compiles it
beforehand, connection.py speaks with one object in it. connectors.py, source_task.py, sink_task.py and stages.py are
Java's plugins in the form of kconnect.api, as are config providers and override policies in catalogue.py; encoded.py
is for chains that are all Java's, of which only bytes come out. blocks.py and runs.py are what crosses.
java_error.py makes errors of what Java throws, and finds the jar that needs a class.
Imported by kconnect.runtime.plugins, and by the pipeline for whole chains; imports api and the loose rooms.
"""

from kconnect.java.plugins.catalogue import JavaPlugins
from kconnect.java.plugins.connectors import JavaConnector
from kconnect.java.plugins.encoded import EncodedFailure, EncodedPoll, JavaChain, JavaPart, JavaStep
from kconnect.java.plugins.host import JavaSettings
from kconnect.java.plugins.hosting import Deferrable, Hosted, java_class
from kconnect.java.plugins.index import JavaIndex
from kconnect.java.plugins.java_error import java_error
from kconnect.java.plugins.manifests import DiscoveryCheck
from kconnect.java.plugins.preparation import Preparation
from kconnect.java.plugins.sink_task import JavaSinkTask, RawRun, SinkFailure
from kconnect.java.plugins.source_task import JavaSourceTask, Misfit, PolledRuns

__all__ = [
    "Deferrable",
    "DiscoveryCheck",
    "EncodedFailure",
    "EncodedPoll",
    "Hosted",
    "JavaChain",
    "JavaConnector",
    "JavaIndex",
    "JavaPart",
    "JavaPlugins",
    "JavaSettings",
    "JavaSinkTask",
    "JavaSourceTask",
    "JavaStep",
    "Misfit",
    "PolledRuns",
    "Preparation",
    "RawRun",
    "SinkFailure",
    "java_class",
    "java_error",
]
