package found;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.rest.ConnectRestExtension;
import org.apache.kafka.connect.rest.ConnectRestExtensionContext;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Plugins of each kind that leave their version in what they do. */
public class Found {
    /** Replaced in the compiled classes by another of the same length. */
    static final String VERSION = "0.0.0";

    /** Writes one text a poll. */
    public static class Ticker extends SourceConnector {
        private Map<String, String> config;

        @Override
        public void start(Map<String, String> props) {
            config = props;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return TickerTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(config);
        }

        @Override
        public void stop() {}

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                    .define("topic", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT_VALUE, ConfigDef.Importance.HIGH, "Topic.")
                    .define("made.by", ConfigDef.Type.STRING, VERSION, ConfigDef.Importance.LOW, "Of " + VERSION + ".")
                    .define("secret", ConfigDef.Type.PASSWORD, "none", ConfigDef.Importance.LOW, "A secret.", "Hidden",
                            1, ConfigDef.Width.SHORT, "The secret", List.of("made.by"), new ConfigDef.Recommender() {
                                @Override
                                public List<Object> validValues(String name, Map<String, Object> given) {
                                    return List.of("from " + given.get("made.by"));
                                }

                                @Override
                                public boolean visible(String name, Map<String, Object> given) {
                                    return given.get("topic") != null;
                                }
                            })
                    .define("count", ConfigDef.Type.INT, 1, ConfigDef.Range.between(1, 9), ConfigDef.Importance.LOW, "How many.");
        }

        @Override
        public String version() {
            return VERSION;
        }
    }

    /** Says its version and the secret that it was given. */
    public static class TickerTask extends SourceTask {
        private Map<String, String> config;

        @Override
        public void start(Map<String, String> props) {
            config = props;
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(50);
            String secret = config.getOrDefault("secret", "none");
            String text = "ticker " + VERSION + " knows " + secret.length() + secret.substring(secret.length() - 1);
            return List.of(new SourceRecord(Map.of("t", "t"), Map.of("n", 1L), config.get("topic"), Schema.STRING_SCHEMA, text));
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return VERSION;
        }
    }

    /** Adds its version to a text. */
    public static class Stamp<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
        @Override
        public R apply(R record) {
            return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
                    record.valueSchema(), record.value() + " stamp " + VERSION, record.timestamp());
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef().define("ink", ConfigDef.Type.STRING, VERSION, ConfigDef.Importance.LOW, "Ink of " + VERSION + ".");
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public String version() {
            return VERSION;
        }
    }

    /** Named in no manifest. */
    public static class Unnamed<R extends ConnectRecord<R>> extends Stamp<R> {}

    /** Named in no manifest, and cannot be made. */
    public static class Moody<R extends ConnectRecord<R>> extends Stamp<R> {
        public Moody() {
            if (!Boolean.getBoolean("found.good.day")) throw new IllegalStateException("not today");
        }
    }

    /** Nobody may see it. */
    static class Shy<R extends ConnectRecord<R>> extends Stamp<R> {}

    /** Java does not find it either, for what it extends cannot be seen. */
    public static class ChildOfShy<R extends ConnectRecord<R>> extends Shy<R> {}

    /** Not complete. */
    public abstract static class Half<R extends ConnectRecord<R>> extends Stamp<R> {}

    /** True for each record. */
    public static class Always<R extends ConnectRecord<R>> implements Predicate<R>, Versioned {
        @Override
        public boolean test(R record) {
            return true;
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public String version() {
            return VERSION;
        }
    }

    /** Adds its version to a text. */
    public static class Words implements Converter, HeaderConverter, Versioned {
        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void configure(Map<String, ?> configs, boolean isKey) {}

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return value == null ? null : (value + " words " + VERSION).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public SchemaAndValue toConnectData(String topic, byte[] value) {
            return new SchemaAndValue(Schema.STRING_SCHEMA, new String(value, StandardCharsets.UTF_8));
        }

        @Override
        public byte[] fromConnectHeader(String topic, String header, Schema schema, Object value) {
            return fromConnectData(topic, schema, value);
        }

        @Override
        public SchemaAndValue toConnectHeader(String topic, String header, byte[] value) {
            return toConnectData(topic, value);
        }

        @Override
        public void close() {}

        @Override
        public String version() {
            return VERSION;
        }
    }

    /** Knows what its setting `secrets` says: `name:value` in a list. */
    public static class Vault implements ConfigProvider {
        private final Map<String, String> secrets = new HashMap<>();
        private Long ttl;

        @Override
        public void configure(Map<String, ?> configs) {
            if (configs.get("secrets") == null) throw new ConfigException("secrets", null, "the vault is empty");
            for (String pair : configs.get("secrets").toString().split(",")) {
                secrets.put(pair.split(":")[0], pair.split(":")[1]);
            }
            ttl = configs.get("ttl") == null ? null : Long.valueOf(configs.get("ttl").toString());
        }

        @Override
        public ConfigData get(String path) {
            return get(path, secrets.keySet());
        }

        @Override
        public ConfigData get(String path, Set<String> keys) {
            if (path.equals("exit")) Runtime.getRuntime().halt(5);
            if (path.equals("void")) return new ConfigData(null);
            if (path.equals("locked")) throw new ConfigException("the vault is locked");
            Map<String, String> found = keys.stream().filter(secrets::containsKey)
                    .collect(Collectors.toMap(key -> key, key -> secrets.get(key) + path));
            return ttl == null ? new ConfigData(found) : new ConfigData(found, ttl);
        }

        @Override
        public void close() {}
    }

    /** Lets a connector change `linger.ms`, up to 100. */
    public static class StrictConnectorClientConfigOverridePolicy implements ConnectorClientConfigOverridePolicy {
        private String most;

        @Override
        public void configure(Map<String, ?> configs) {
            most = String.valueOf(configs.get("strict.most"));
        }

        @Override
        public List<ConfigValue> validate(ConnectorClientConfigRequest request) {
            if (request.connectorName().equals("nobody's")) return null;
            return request.clientProps().entrySet().stream().map(entry -> {
                ConfigValue value = new ConfigValue(entry.getKey(), entry.getValue(), List.of(), new ArrayList<>());
                boolean isSmall = entry.getValue() instanceof Number number && number.longValue() <= Long.parseLong(most);
                if (!entry.getKey().equals("linger.ms") || !isSmall) {
                    value.addErrorMessage(entry.getKey().equals("client.id") ? null : request.connectorName() + " (" + request.connectorClass().getName() + ", "
                            + request.connectorType() + ") may not set " + entry.getKey() + " of its " + request.clientType());
                }
                return value;
            }).toList();
        }

        @Override
        public void close() {}
    }

    /** Adds nothing. */
    public static class Guard implements ConnectRestExtension {
        @Override
        public void register(ConnectRestExtensionContext context) {}

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public String version() {
            return VERSION;
        }
    }
}
