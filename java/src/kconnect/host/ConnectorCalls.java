package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkConnectorContext;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceConnectorContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** One connector. Source: o.a.k.connect.runtime.WorkerConnector. */
final class ConnectorCalls implements Session.Served {
    private final Session session;
    private final Upcall upcall;
    private final Connector connector;
    private final Offsets offsets;
    private Context context;

    ConnectorCalls(Session session, Connector connector) {
        this.session = session;
        this.connector = connector;
        this.upcall = new Upcall(session);
        this.offsets = new Offsets(upcall);
    }

    @Override
    public Object call(String method, JsonNode a) throws Exception {
        try (Swap swap = new Swap(connector)) {
            return switch (method) {
                case "initialize" -> {
                    context = connector instanceof SourceConnector ? new Source(a) : new Sink(a);
                    if (a.hasNonNull("task_configs")) connector.initialize(context, configs(a.get("task_configs")));
                    else connector.initialize(context);
                    yield null;
                }
                case "start" -> {
                    connector.start(Json.texts(a.get("config")));
                    yield null;
                }
                case "stop" -> {
                    connector.stop();
                    session.meter().close();
                    yield null;
                }
                case "task_class" -> connector.taskClass().getName();
                case "task_configs" -> connector.taskConfigs(a.get("most").asInt());
                case "validate" -> {
                    Config found = connector.validate(Json.texts(a.get("config")));
                    yield found == null ? null : ConfigJson.values(found, connector.config()); // who asks says so
                }
                case "exactly_once" -> name(source().exactlyOnceSupport(Json.texts(a.get("config"))));
                case "boundaries" -> name(source().canDefineTransactionBoundaries(Json.texts(a.get("config"))));
                case "alter_offsets" -> alter(a);
                default -> throw new ConnectException("Unknown call of a connector: " + method);
            };
        }
    }

    private SourceConnector source() {
        return (SourceConnector) connector;
    }

    private static String name(Enum<?> value) {
        return value == null ? null : value.name();
    }

    private static List<Map<String, String>> configs(JsonNode given) {
        List<Map<String, String>> made = new ArrayList<>();
        given.forEach(config -> made.add(Json.texts(config)));
        return made;
    }

    private boolean alter(JsonNode a) {
        Map<String, String> config = Json.texts(a.get("config"));
        if (connector instanceof SinkConnector sink) {
            Map<TopicPartition, Long> wanted = new HashMap<>();
            for (JsonNode one : a.get("offsets")) {
                JsonNode offset = one.get(2);
                wanted.put(new TopicPartition(one.get(0).asText(), one.get(1).asInt()),
                        offset.isNull() ? null : offset.asLong());
            }
            return sink.alterOffsets(config, wanted);
        }
        Map<Map<String, ?>, Map<String, ?>> wanted = new HashMap<>();
        for (JsonNode one : a.get("offsets")) wanted.put(offsets.map(one.get(0)), offsets.map(one.get(1)));
        return source().alterOffsets(config, wanted);
    }

    private class Context implements ConnectorContext {
        private final Map<String, String> tags;
        private PluginMetrics metrics;

        Context(JsonNode a) {
            tags = Json.texts(a.get("tags"));
        }

        @Override
        public void requestTaskReconfiguration() {
            upcall.tell("reconfigure", null);
        }

        @Override
        public void raiseError(Exception error) {
            upcall.tellInTurn("raise", Errors.describe(error));
        }

        @Override
        public synchronized PluginMetrics pluginMetrics() {
            if (metrics == null) metrics = session.meter().of(tags);
            return metrics;
        }
    }

    private final class Source extends Context implements SourceConnectorContext {
        Source(JsonNode a) {
            super(a);
        }

        @Override
        public OffsetStorageReader offsetStorageReader() {
            return offsets;
        }
    }

    private final class Sink extends Context implements SinkConnectorContext {
        Sink(JsonNode a) {
            super(a);
        }
    }
}
