"""Connectors that run in this process: their instances, each with a thread for its plugin's calls, and runs of tasks.

Used by both herders. What starts here is decided elsewhere; no REST and no group in this room.
"""
