"""The audit log: a line of JSON for each change over REST, and for each attempt that was refused.

Imported by the rest of `rest`. `entry.py` says what a line has, `views.py` what was changed, `trail.py` brings lines to
`file_sink.py` or `topic_sink.py` without holding up requests.
"""
