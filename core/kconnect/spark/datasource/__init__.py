"""`format("kconnect")`: any Python connector as a format of Spark, to read, to stream and to write.

`kconnect.spark.register(spark)` makes it known. format.py is what Spark calls; behind it everything but format.py,
stream_reader.py, batch_reader.py and writers.py knows nothing of pyspark. A stream: planner.py has its tasks polled
(poller.py) into Arrow files (spool.py), whose names and source offsets are Spark's offset. Reading start at planner.py.
"""
