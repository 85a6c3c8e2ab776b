"""Kafka clients: the only room that imports confluent_kafka.

Imported by `pipeline`, `storage`, `herder` and `worker`; imports `errors` and `model` only.
What librdkafka raises is turned into our errors here (see clients.kafka_errors).
"""

from kconnect.kafka.admin import KafkaAdmin, TopicInfo, cluster_id
from kconnect.kafka.bulk_producer import BulkProducer
from kconnect.kafka.byte_column import ByteColumn, as_bytes
from kconnect.kafka.client_statistics import ClientUsage
from kconnect.kafka.consumer import Behind, ConsumedRun, RebalanceListener, RecordConsumer
from kconnect.kafka.delivery import (
    AnyDelivery,
    Delivery,
    DeliveryFailure,
    RecordDelivery,
    ReportedDelivery,
    WrittenRecord,
)
from kconnect.kafka.exclusive_writer import KafkaExclusiveWriter
from kconnect.kafka.fenced_offsets import CommittedOffset, FencedOffsets, MarkedProducer
from kconnect.kafka.internal_topics import InternalTopicSpec, ensure_internal_topic
from kconnect.kafka.log import CompactedLog, LogSpec
from kconnect.kafka.producer import RecordProducer
from kconnect.kafka.range_consumer import RangeConsumer
from kconnect.kafka.scan import ScanSpec, scan
from kconnect.kafka.topic_pattern import topic_pattern
from kconnect.kafka.transactional_producer import TransactionalProducer, TransactionExpiredError, fence_producers

__all__ = [
    "AnyDelivery",
    "Behind",
    "BulkProducer",
    "ByteColumn",
    "ClientUsage",
    "CommittedOffset",
    "CompactedLog",
    "ConsumedRun",
    "Delivery",
    "DeliveryFailure",
    "FencedOffsets",
    "InternalTopicSpec",
    "KafkaAdmin",
    "KafkaExclusiveWriter",
    "LogSpec",
    "MarkedProducer",
    "RangeConsumer",
    "RebalanceListener",
    "RecordConsumer",
    "RecordDelivery",
    "RecordProducer",
    "ReportedDelivery",
    "ScanSpec",
    "TopicInfo",
    "TransactionExpiredError",
    "TransactionalProducer",
    "WrittenRecord",
    "as_bytes",
    "cluster_id",
    "ensure_internal_topic",
    "fence_producers",
    "scan",
    "topic_pattern",
]
