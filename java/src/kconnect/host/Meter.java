package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;

/**
 * What the plugins of one session add their metrics to (KIP-877), with the tags that Python gives. Python is informed of
 * those that changed, once a second while there are any. Source: o.a.k.connect.runtime.ConnectMetrics.
 */
final class Meter implements AutoCloseable {
    private static final String GROUP = "plugins"; // of PluginMetricsImpl; Metrics has one of its own
    private final Session session;
    private final List<PluginMetricsImpl> given = new ArrayList<>();
    private Metrics metrics; // made for the first plugin that wants one
    private List<Object> reported = List.of();

    Meter(Session session) {
        this.session = session;
    }

    synchronized PluginMetrics of(Map<String, String> tags) {
        if (metrics == null) {
            metrics = new Metrics();
            session.host().meters().add(this);
        }
        PluginMetricsImpl made = new PluginMetricsImpl(metrics, tags);
        given.add(made);
        return made;
    }

    /** Gives a plugin its metrics, if it wants them: the tags of the task and its own. */
    void attach(Object plugin, JsonNode task, JsonNode own) {
        if (!(plugin instanceof Monitorable monitorable)) return;
        Map<String, String> tags = new LinkedHashMap<>(Json.texts(task));
        tags.putAll(Json.texts(own));
        monitorable.withPluginMetrics(of(tags));
    }

    synchronized void tell() {
        if (metrics == null) return;
        List<Object> now = new ArrayList<>();
        for (KafkaMetric metric : metrics.metrics().values()) {
            if (metric.metricName().group().equals(GROUP)) add(now, metric);
        }
        if (now.equals(reported)) return;
        reported = now;
        session.control().tell(Json.map("e", "metrics", "session", session.id(), "arguments", now));
    }

    private static void add(List<Object> rows, KafkaMetric metric) {
        Object value;
        try {
            value = reported(metric.metricValue());
        } catch (Throwable e) {
            return; // the plugin's, an Error too where a class is missing; this time there is none
        }
        List<Object> tags = new ArrayList<>();
        metric.metricName().tags().forEach((name, text) -> tags.add(List.of(name, text)));
        rows.add(List.of(metric.metricName().name(), metric.metricName().description(), tags, value));
    }

    private static Object reported(Object value) {
        if (value instanceof Boolean is) return is ? 1 : 0;
        if (value instanceof Double given && !Double.isFinite(given)) return Map.of("float", given.toString());
        return value instanceof Number ? value : String.valueOf(value);
    }

    /** Removes them all: the next run of the task adds them again. */
    @Override
    public synchronized void close() {
        if (metrics == null) return;
        session.host().meters().remove(this);
        try {
            for (PluginMetricsImpl each : given) each.close(); // Metrics.close() would log, and has nothing else to end
        } catch (IOException e) {
            throw new UncheckedIOException(e); // by its signature alone
        }
        given.clear();
        metrics = null;
    }
}
