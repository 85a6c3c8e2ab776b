package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.security.MessageDigest;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;

/** What all sessions of the process share. */
final class Host {
    private final Folders folders;
    private final Control control = new Control();
    private final Metrics metrics = new Metrics();
    private final byte[] token;

    Host(JsonNode start) {
        folders = new Folders(Json.texts(start.get("index")));
        token = start.get("token").asText().getBytes(StandardCharsets.UTF_8);
    }

    Folders folders() {
        return folders;
    }

    Control control() {
        return control;
    }

    Metrics metrics() {
        return metrics;
    }

    PluginMetricsImpl pluginMetrics(Map<String, String> tags) {
        return new PluginMetricsImpl(metrics, tags);
    }

    boolean knows(String given) {
        return MessageDigest.isEqual(token, given.getBytes(StandardCharsets.UTF_8));
    }
}
