"""The live workers of a cluster, as the broker knows them: its group, and other groups on the same brokers."""
