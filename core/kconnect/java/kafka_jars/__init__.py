"""Kafka's and Java Connect's own jars, locked; for the development broker and for Java's plugins."""

from kconnect.java.kafka_jars.jars import KAFKA_VERSION, JarSet

__all__ = ["KAFKA_VERSION", "JarSet"]
