"""Kafka clients: the only room that imports confluent_kafka.

Imported by `pipeline`, `storage`, `herder` and `worker`; imports `errors` and `model` only.
What librdkafka raises is turned into our errors here (see clients.kafka_errors).
"""

from kconnect.runtime.kafka.admin import KafkaAdmin, TopicInfo, cluster_id
from kconnect.runtime.kafka.atomic_writers import KafkaExclusiveWriter
from kconnect.runtime.kafka.bulk_producer import BulkProducer
from kconnect.runtime.kafka.byte_column import ByteColumn, as_bytes
from kconnect.runtime.kafka.client_statistics import ClientUsage
from kconnect.runtime.kafka.consumed_run import ConsumedRun
from kconnect.runtime.kafka.consumer import Behind, RebalanceListener, RecordConsumer
from kconnect.runtime.kafka.delivery import (
    AnyDelivery,
    Delivery,
    DeliveryFailure,
    RecordDelivery,
    ReportedDelivery,
    WrittenRecord,
)
from kconnect.runtime.kafka.fenced_offsets import CommittedOffset, FencedOffsets, MarkedProducer
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec, ensure_internal_topic
from kconnect.runtime.kafka.log import CompactedLog, LogSpec
from kconnect.runtime.kafka.produced_records import KafkaBatch, KafkaHeaders, KafkaRecord
from kconnect.runtime.kafka.producer import RecordProducer
from kconnect.runtime.kafka.range_consumer import RangeConsumer
from kconnect.runtime.kafka.refusals import RefusedRecord, refusal_of
from kconnect.runtime.kafka.scan import ScanSpec, scan
from kconnect.runtime.kafka.transactional_producer import (
    TransactionalProducer,
    TransactionExpiredError,
    fence_producers,
)

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
    "KafkaBatch",
    "KafkaExclusiveWriter",
    "KafkaHeaders",
    "KafkaRecord",
    "LogSpec",
    "MarkedProducer",
    "RangeConsumer",
    "RebalanceListener",
    "RecordConsumer",
    "RecordDelivery",
    "RecordProducer",
    "RefusedRecord",
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
    "refusal_of",
    "scan",
]
