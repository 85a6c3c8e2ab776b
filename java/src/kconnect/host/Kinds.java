package kconnect.host;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.rest.ConnectRestExtension;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** The kinds of plugins, with Connect's names. */
final class Kinds {
    private static final Map<Class<?>, String> NAMES = new LinkedHashMap<>();

    static {
        NAMES.put(SinkConnector.class, "sink");
        NAMES.put(SourceConnector.class, "source");
        NAMES.put(Transformation.class, "transformation");
        NAMES.put(Predicate.class, "predicate");
        NAMES.put(Converter.class, "converter");
        NAMES.put(HeaderConverter.class, "header_converter");
        NAMES.put(ConfigProvider.class, "configprovider");
        NAMES.put(ConnectorClientConfigOverridePolicy.class, "connector_client_config_override_policy");
        NAMES.put(ConnectRestExtension.class, "rest_extension");
    }

    private Kinds() {}

    /** The kinds by the interfaces or classes that plugins of them have. */
    static Map<Class<?>, String> interfaces() {
        return Collections.unmodifiableMap(NAMES);
    }

    /** The end of a class's name that its short name lacks. Source: PluginType.simpleName. */
    static String suffix(String kind) {
        if (kind.equals("sink") || kind.equals("source")) return "Connector";
        for (Map.Entry<Class<?>, String> one : NAMES.entrySet()) {
            if (one.getValue().equals(kind)) return one.getKey().getSimpleName();
        }
        throw new IllegalArgumentException(kind + " is no kind of plugins");
    }

    static List<String> of(Object plugin) {
        List<String> found = new ArrayList<>();
        NAMES.forEach((kind, name) -> {
            if (kind.isInstance(plugin)) found.add(name);
        });
        return found;
    }
}
