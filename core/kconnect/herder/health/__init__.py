"""Whether this worker is well: reasons why it is not, and the watch over Kafka's answers."""
