package org.apache.kafka.connect.runtime;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkTaskContext;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * A sink task's context under the name that it has in Java's worker, in place of that worker's own class: sinks look for
 * the name, and read the private field `consumer` by reflection, as Iceberg's and Delta's do.
 */
public final class WorkerSinkTaskContext implements SinkTaskContext {
    private final Consumer<byte[], byte[]> consumer;
    private final ConnectorTaskId id;
    private final SinkTaskContext host;

    public WorkerSinkTaskContext(Consumer<byte[], byte[]> consumer, ConnectorTaskId id, SinkTaskContext host) {
        this.consumer = consumer;
        this.id = id;
        this.host = host;
    }

    @Override
    public Map<String, String> configs() {
        return host.configs();
    }

    @Override
    public void offset(Map<TopicPartition, Long> offsets) {
        host.offset(offsets);
    }

    @Override
    public void offset(TopicPartition place, long offset) {
        host.offset(place, offset);
    }

    @Override
    public void timeout(long timeoutMs) {
        host.timeout(timeoutMs);
    }

    @Override
    public Set<TopicPartition> assignment() {
        return host.assignment();
    }

    @Override
    public void pause(TopicPartition... places) {
        host.pause(places);
    }

    @Override
    public void resume(TopicPartition... places) {
        host.resume(places);
    }

    @Override
    public void requestCommit() {
        host.requestCommit();
    }

    @Override
    public ErrantRecordReporter errantRecordReporter() {
        return host.errantRecordReporter();
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return host.pluginMetrics();
    }

    /** A method of Java's class, for plugins that cast to it. */
    public Set<TopicPartition> pausedPartitions() {
        return consumer.paused();
    }

    @Override
    public String toString() {
        return "WorkerSinkTaskContext{id=" + id + "}";
    }
}
