"""Settings of the JVMs that run Java's plugins."""

from __future__ import annotations

from typing import Final

from kconnect.api.config_key import Importance
from kconnect.api.configdef import ConfigDef
from kconnect.runtime.config.key_table import Rows

_T, _LOW = ConfigDef.Type, Importance.LOW

OF_WORKER: Final[Rows] = (
    (
        "kconnect.java.home",
        _T.STRING,
        None,
        None,
        _LOW,
        "Home of the Java that runs Java's plugins, 17 or newer; JAVA_HOME, or java on the PATH, if it is not set.",
    ),
    (
        "kconnect.java.opts",
        _T.STRING,
        None,
        None,
        _LOW,
        "Options of the JVMs that run Java's plugins, as on a command line.",
    ),
    (
        "kconnect.java.host",
        _T.STRING,
        "slot",
        ConfigDef.ValidString.in_("slot", "connector"),
        _LOW,
        "How many of these JVMs there are: slot, one beside the worker and beside each slot as soon as it has a Java "
        "plugin; or connector, there one for each connector, so that one which runs out of memory, or ends its JVM, "
        "takes no other along. A JVM takes 45 MB and more.",
    ),
    (
        "kconnect.java.timeout.ms",
        _T.LONG,
        30_000,
        ConfigDef.Range.at_least(1000),
        _LOW,
        "A JVM of Java's plugins that has not answered for so long is killed; its tasks fail and are restarted. One "
        "that starts has twice as long.",
    ),
    (
        "kconnect.java.heap",
        _T.STRING,
        "512m",
        ConfigDef.NonEmptyString(),
        _LOW,
        "Largest heap of each of these JVMs: what follows -Xmx.",
    ),
)
