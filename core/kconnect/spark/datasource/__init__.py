"""`format("kconnect")`: any Python connector as a format of Spark, to read, to stream and to write.

`kconnect.spark.register(spark)` makes it known. Spark calls format.py and stream_reader.py; what is behind them knows
nothing of pyspark. A stream: stream_reader.py has its tasks polled (poller.py) into Arrow files (spool.py), whose names
and source offsets are Spark's offset.
"""
