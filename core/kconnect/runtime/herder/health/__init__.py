"""Whether this worker is healthy: the reasons if not, and the watch over Kafka's answers."""
