"""Who runs what: the herders, and the seams around them (`interface`)."""

from kconnect.runtime.herder.interface import Herder, Launcher, LauncherEvents, PluginDescription, ServerInfo, SlotInfo

__all__ = ["Herder", "Launcher", "LauncherEvents", "PluginDescription", "ServerInfo", "SlotInfo"]
