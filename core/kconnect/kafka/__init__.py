"""Kafka clients: the only room that imports confluent_kafka.

Imported by `pipeline`, `storage`, `herder` and `worker`; imports `errors` and `model` only.
What librdkafka raises is turned into our errors here (see clients.kafka_errors).
"""

from kconnect.kafka.admin import KafkaAdmin, TopicInfo, cluster_id
from kconnect.kafka.consumer import ConsumedRun, RebalanceListener, RecordConsumer
from kconnect.kafka.producer import Delivery, DeliveryFailure, RecordDelivery, RecordProducer, WrittenRecord
from kconnect.kafka.topic_pattern import topic_pattern

__all__ = [
    "ConsumedRun",
    "Delivery",
    "DeliveryFailure",
    "KafkaAdmin",
    "RebalanceListener",
    "RecordConsumer",
    "RecordDelivery",
    "RecordProducer",
    "TopicInfo",
    "WrittenRecord",
    "cluster_id",
    "topic_pattern",
]
