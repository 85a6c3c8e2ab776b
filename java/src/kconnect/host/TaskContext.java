package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;

/** What source and sink tasks are given alike. */
class TaskContext {
    private final Upcall upcall;
    private final Map<String, String> config;
    private final PluginMetricsImpl metrics;

    TaskContext(Session session, Upcall upcall, JsonNode start) {
        this.upcall = upcall;
        this.config = Json.texts(start.get("config"));
        this.metrics = session.host().pluginMetrics(Json.texts(start.get("tags")));
    }

    /** The settings now: Python resolves references again. */
    public Map<String, String> configs() {
        JsonNode now = upcall.ask("configs", null);
        return now == null || now.isNull() ? config : Json.texts(now);
    }

    public PluginMetrics pluginMetrics() {
        return metrics;
    }

    /** Removes the task's metrics: the next run of it adds them again. */
    void close() throws IOException {
        metrics.close();
    }
}
