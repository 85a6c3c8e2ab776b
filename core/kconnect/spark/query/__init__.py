"""Connectors that run as queries of Spark: SparkSink and SparkSource, and where they run.

A query task runs in the driver's process, beside the slots: spark/worker_launcher.py hosts it, loop.py is its life,
topic_sink.py is what a sink does. Spark's tasks of a sink read topics through topic_source.py and topic_reader.py.

Imported by `spark` for its launcher, and by name through the plugin registry for the connectors; importing this package
alone loads nothing.
"""
