package org.apache.kafka.connect.runtime;

import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * A source task's context under the name that it has in Java's worker, in place of that worker's own class, with the
 * private fields of that one that can be had here: `reader`, `id`, `transactionContext`.
 */
public final class WorkerSourceTaskContext implements SourceTaskContext {
    private final OffsetStorageReader reader;
    private final ConnectorTaskId id;
    private final TransactionContext transactionContext;
    private final SourceTaskContext host;

    public WorkerSourceTaskContext(ConnectorTaskId id, SourceTaskContext host) {
        this.reader = host.offsetStorageReader();
        this.id = id;
        this.transactionContext = host.transactionContext();
        this.host = host;
    }

    @Override
    public Map<String, String> configs() {
        return host.configs();
    }

    @Override
    public OffsetStorageReader offsetStorageReader() {
        return reader;
    }

    @Override
    public TransactionContext transactionContext() {
        return transactionContext;
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return host.pluginMetrics();
    }

    @Override
    public String toString() {
        return "WorkerSourceTaskContext{id=" + id + "}";
    }
}
