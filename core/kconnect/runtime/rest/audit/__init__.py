"""The audit log: a line of JSON for each change over REST, and for each attempt that was refused.

Imported by the rest of `rest`. `entry.py` says what a line has and makes it of a request, `changes.py` is the log
that the cluster shares, `trail.py` brings lines to a file or a topic without holding up requests.
"""
