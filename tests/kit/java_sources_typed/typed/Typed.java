package typed;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Plugins of each kind with settings of each type, whose validators and recommenders tell what they are given. */
public class Typed {
    /** A class of the plugin's own, for settings that name one. */
    public static class Own {}

    private static String shown(Object value) {
        if (value == null) return "nothing";
        String text = value instanceof Password secret ? "of " + secret.value().length() + " characters" : value.toString();
        return value.getClass().getName() + " " + text;
    }

    /** Refuses every value but the default, and says what it was. */
    private record Tells(Object defaultValue) implements ConfigDef.Validator {
        @Override
        public void ensureValid(String name, Object value) {
            if (value != null && !value.equals(defaultValue)) throw new ConfigException(name + " is " + shown(value));
        }
    }

    private static ConfigDef.Recommender recommends(String other, ConfigDef.Type type) {
        return new ConfigDef.Recommender() {
            @Override
            public List<Object> validValues(String name, Map<String, Object> given) {
                // Java's REST casts those of these types
                if (type == ConfigDef.Type.CLASS) return List.of(Own.class);
                if (type == ConfigDef.Type.PASSWORD) return List.of(new Password("p"));
                return List.of(name + " beside " + shown(given.get(other)));
            }

            @Override
            public boolean visible(String name, Map<String, Object> given) {
                return given.get(other) != null;
            }
        };
    }

    /** Of each type: reported; with a default, and reported; with null as its default and label; required. */
    static ConfigDef table() {
        ConfigDef made = new ConfigDef();
        Map<ConfigDef.Type, Object> defaults = Map.of(
                ConfigDef.Type.BOOLEAN, true, ConfigDef.Type.STRING, "x", ConfigDef.Type.INT, -3,
                ConfigDef.Type.SHORT, (short) 3, ConfigDef.Type.LONG, 1L << 40, ConfigDef.Type.DOUBLE, 1e-7,
                ConfigDef.Type.LIST, Arrays.asList("a", "b,c"), ConfigDef.Type.CLASS, Own.class,
                ConfigDef.Type.PASSWORD, new Password("of five"));
        for (ConfigDef.Type type : ConfigDef.Type.values()) {
            String name = type.name().toLowerCase();
            Object given = defaults.get(type);
            made.define(name, type, given, null, ConfigDef.Importance.LOW, "", name, 1, ConfigDef.Width.SHORT, name,
                    List.of(name + ".null"), recommends(name, type));
            made.define(name + ".reported", type, given, new Tells(given), ConfigDef.Importance.LOW, "");
            made.define(name + ".null", type, null, new Tells(null), ConfigDef.Importance.LOW, "", "nulls", 2,
                    ConfigDef.Width.LONG, null);
            made.define(name + ".needed", type, ConfigDef.Importance.HIGH, "");
        }
        return made;
    }

    public static class Step<R extends ConnectRecord<R>> implements Transformation<R> {
        @Override
        public R apply(R record) {
            return record;
        }

        @Override
        public ConfigDef config() {
            return table();
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    public static class Test<R extends ConnectRecord<R>> implements Predicate<R> {
        @Override
        public boolean test(R record) {
            return true;
        }

        @Override
        public ConfigDef config() {
            return table();
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    public static class Form implements Converter {
        @Override
        public void configure(Map<String, ?> configs, boolean isKey) {}

        @Override
        public ConfigDef config() {
            return table();
        }

        @Override
        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return new byte[0];
        }

        @Override
        public SchemaAndValue toConnectData(String topic, byte[] value) {
            return SchemaAndValue.NULL;
        }
    }

    public static class Heads implements HeaderConverter {
        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public ConfigDef config() {
            return table();
        }

        @Override
        public byte[] fromConnectHeader(String topic, String key, Schema schema, Object value) {
            return new byte[0];
        }

        @Override
        public SchemaAndValue toConnectHeader(String topic, String key, byte[] value) {
            return SchemaAndValue.NULL;
        }

        @Override
        public void close() {}
    }

    /** Its table has names that kconnect's own settings have, too. */
    public static class Source extends SourceConnector {
        @Override
        public void start(Map<String, String> props) {}

        @Override
        public Class<? extends Task> taskClass() {
            return null;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of();
        }

        @Override
        public void stop() {}

        @Override
        public ConfigDef config() {
            return table()
                    .define("value.schema", ConfigDef.Type.LIST, "", ConfigDef.Importance.LOW, "")
                    .define("value.schema.fields", ConfigDef.Type.INT, 1, ConfigDef.Importance.LOW, "");
        }

        @Override
        public String version() {
            return "1.0.0";
        }
    }

    /** Its check gives nothing, or adds what an exception without a message says. */
    public static class Sloppy extends Source {
        @Override
        public Config validate(Map<String, String> given) {
            Config found = super.validate(given);
            found.configValues().forEach(value -> value.addErrorMessage(new NullPointerException().getMessage()));
            return given.containsKey("string") ? found : null;
        }
    }

    /** Has no table of settings. */
    public static class Bare extends Source {
        @Override
        public ConfigDef config() {
            return null;
        }
    }

    /** Cannot be made. */
    public static class Unmade extends Source {
        public Unmade() {
            throw new IllegalStateException("no licence");
        }
    }

    /** Cannot be made. */
    public static class UnmadeStep<R extends ConnectRecord<R>> extends Step<R> {
        public UnmadeStep() {
            throw new IllegalStateException("no licence");
        }
    }
}
