"""Names of settings that MirrorMaker 2 hands on from the top of its file. Source: connect-mirror (Kafka 4.3)."""

from __future__ import annotations

from typing import Final

from kconnect.runtime.config.client_security import SECURITY_KEYS

CLIENT: Final = (SECURITY_KEYS | {"bootstrap.servers", "security.protocol"}) - {"ssl.client.auth"}
"""What every client of a cluster takes. Source: MirrorClientConfig.CLIENT_CONFIG_DEF."""

_OF_CONNECTORS: Final = """
config.action.reload connector.class connector.plugin.version errors.log.enable errors.log.include.messages
errors.retry.delay.max.ms errors.retry.timeout errors.tolerance header.converter header.converter.plugin.version
key.converter key.converter.plugin.version name predicates tasks.max tasks.max.enforce transforms value.converter
value.converter.plugin.version
"""
_OF_MIRROR: Final = """
admin.timeout.ms checkpoints.topic.replication.factor config.properties.exclude config.property.filter.class
config.providers consumer.poll.timeout.ms emit.checkpoints.enabled emit.checkpoints.interval.seconds
emit.heartbeats.enabled emit.heartbeats.interval.seconds emit.offset-syncs.enabled enabled forwarding.admin.class
group.filter.class groups groups.exclude heartbeats.replication.enabled heartbeats.topic.replication.factor
metric.names.formats metric.reporters offset-syncs.topic.location offset-syncs.topic.replication.factor offset.lag.max
refresh.groups.enabled refresh.groups.interval.seconds refresh.topics.enabled refresh.topics.interval.seconds
replication.factor replication.policy.class replication.policy.internal.topic.separator.enabled
replication.policy.separator source.cluster.alias sync.group.offsets.enabled sync.group.offsets.interval.seconds
sync.topic.acls.enabled sync.topic.acls.interval.seconds sync.topic.configs.enabled
sync.topic.configs.interval.seconds target.cluster.alias topic.filter.class topics topics.exclude
"""

CONNECTOR: Final = frozenset((CLIENT - {"bootstrap.servers"}) | set(_OF_CONNECTORS.split()) | set(_OF_MIRROR.split()))
"""What the three connectors take. Source: MirrorMakerConfig#allConfigNames."""
