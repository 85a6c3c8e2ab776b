"""Checks of connector configs before they are stored, and the settings of the plugins they name."""
