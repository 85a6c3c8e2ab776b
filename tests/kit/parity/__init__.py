"""Java's plugins in Java Connect and here, side by side on one broker, compared: `make java-parity`.

`sides.py` has the two workers and what is seen of them, `table.py` what is reported, the other modules the cases;
`run.py` runs all of them, `system/java/plugins/test_java_parity.py` those that take no server.
"""
