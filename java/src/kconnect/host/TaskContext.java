package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;

/** What source and sink tasks are given alike. */
class TaskContext {
    private final Session session;
    private final Upcall upcall;
    private final Map<String, String> config;
    private final Map<String, String> tags;
    private PluginMetrics metrics;

    TaskContext(Session session, Upcall upcall, JsonNode start) {
        this.session = session;
        this.upcall = upcall;
        this.config = Json.texts(start.get("config"));
        this.tags = Json.texts(start.get("tags"));
    }

    /** The settings now: Python resolves references again. */
    public Map<String, String> configs() {
        JsonNode now = upcall.ask("configs", null);
        return now == null || now.isNull() ? config : Json.texts(now);
    }

    public synchronized PluginMetrics pluginMetrics() {
        if (metrics == null) metrics = session.meter().of(tags);
        return metrics;
    }
}
