import java.util.*;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints the settings of Java's clients as JSON: by client and name their type, importance and, if any, default; true: internal. */
public class ClientSettings {
    public static void main(String[] args) {
        System.out.println("{");
        print("producer", ProducerConfig.configDef(), ",");
        print("consumer", ConsumerConfig.configDef(), ",");
        print("admin", AdminClientConfig.configDef(), "");
        System.out.println("}");
    }

    private static void print(String client, ConfigDef table, String end) {
        List<String> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : new TreeMap<>(table.configKeys()).values()) {
            if (key.group != null && !key.internalConfig || key.width != ConfigDef.Width.NONE || !key.displayName.equals(key.name)
                    || !key.dependents.isEmpty())
                throw new IllegalStateException(key.name + " has more to it than a row of this file can say");
            String row = quoted(key.type.name()) + ", " + quoted(key.importance.name());
            if (key.hasDefault()) row += ", " + quoted(ConfigDef.convertToString(key.defaultValue, key.type));
            if (key.internalConfig) row += ", true";
            rows.add("    " + quoted(key.name) + ": [" + row + "]");
        }
        System.out.println("  " + quoted(client) + ": {\n" + String.join(",\n", rows) + "\n  }" + end);
    }

    private static String quoted(String text) {
        return text == null ? "null" : '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
