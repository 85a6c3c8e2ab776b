"""Connectors that run in this process: their instances, each with a thread for its plugin's calls, and runs of tasks.

Used by both herders. Other rooms decide what starts here; this one knows neither REST nor the group.
"""
