package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.health.ConnectorType;

/** A config provider, or a policy for client overrides: one for the worker's life, which several sessions may ask at once. */
final class WorkerCalls implements Session.Served {
    private final Host host;
    private final String key;
    private final Object plugin;
    private volatile boolean isConfigured; // and not closed

    WorkerCalls(Host host, String key, Object plugin) {
        this.host = host;
        this.key = key;
        this.plugin = plugin;
        host.ofWorker().put(key, this);
    }

    @Override
    public Object call(String method, JsonNode a) throws Exception {
        try (Swap swap = new Swap(plugin)) {
            return switch (method) {
                case "configure" -> {
                    isConfigured = true;
                    Map<String, String> config = Json.texts(a.get("config"));
                    if (plugin instanceof ConfigProvider provider) provider.configure(config);
                    else policy().configure(config);
                    yield null;
                }
                case "get" -> get(a);
                case "validate" -> validate(a);
                case "close" -> {
                    isConfigured = false;
                    ((AutoCloseable) plugin).close();
                    yield null;
                }
                default -> throw new ConnectException("Unknown call: " + method);
            };
        }
    }

    @Override
    public void leave(boolean inCall) throws Exception {
        host.ofWorker().remove(key);
        if (!inCall && isConfigured) call("close", null);
    }

    private Object get(JsonNode a) {
        Set<String> keys = new HashSet<>();
        a.get("keys").forEach(key -> keys.add(key.asText()));
        ConfigData found = ((ConfigProvider) plugin).get(a.get("path").asText(), keys);
        return Json.map("data", found.data(), "ttl", found.ttl());
    }

    /** Source: AbstractHerder.validateClientOverrides. */
    private Object validate(JsonNode a) throws ReflectiveOperationException {
        ConfigDef table = switch (a.get("client").asText()) {
            case "producer" -> ProducerConfig.configDef();
            case "consumer" -> ConsumerConfig.configDef();
            default -> AdminClientConfig.configDef();
        };
        Map<String, Object> given = new HashMap<>();
        Json.texts(a.get("props")).forEach((name, text) -> {
            ConfigDef.ConfigKey key = table.configKeys().get(name);
            given.put(name, key == null ? text : ConfigDef.parseType(name, text, key.type));
        });
        List<ConfigValue> values = policy().validate(new ConnectorClientConfigRequest(
                a.get("name").asText(),
                ConnectorType.valueOf(upper(a.get("type"))),
                connector(a),
                given,
                ConnectorClientConfigRequest.ClientType.valueOf(upper(a.get("client")))));
        return values == null ? null : ConfigJson.values(new Config(values), table);
    }

    /** The class of the connector; of one of Python's the interface that it would have here. */
    private Class<? extends Connector> connector(JsonNode a) throws ReflectiveOperationException {
        return Class.forName(a.get("class").asText(), false, host.folders().loader(Json.text(a.get("folder"))))
                .asSubclass(Connector.class);
    }

    private ConnectorClientConfigOverridePolicy policy() {
        return (ConnectorClientConfigOverridePolicy) plugin;
    }

    private static String upper(JsonNode text) {
        return text.asText().toUpperCase(Locale.ROOT);
    }
}
