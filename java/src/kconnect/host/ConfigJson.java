package kconnect.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;

/** Tables of settings and validated settings as JSON. */
final class ConfigJson {
    private ConfigJson() {}

    static List<Object> keys(ConfigDef table) {
        if (table == null) return null;
        List<Object> made = new ArrayList<>();
        for (ConfigDef.ConfigKey key : table.configKeys().values()) {
            made.add(Json.map(
                    "name", key.name,
                    "type", key.type.name(),
                    "required", !key.hasDefault(),
                    "default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null,
                    "importance", key.importance.name(),
                    "doc", key.documentation,
                    "group", key.group,
                    "order", key.orderInGroup,
                    "width", key.width.name(),
                    "display", key.displayName,
                    "dependents", key.dependents,
                    "internal", key.internalConfig,
                    "validated", key.validator != null,
                    "recommends", key.recommender != null,
                    "validator", key.validator == null ? null : key.validator.toString()));
        }
        return made;
    }

    static List<Object> values(Config config, ConfigDef table) {
        List<Object> made = new ArrayList<>();
        for (ConfigValue value : config.configValues()) {
            ConfigDef.ConfigKey key = table == null ? null : table.configKeys().get(value.name());
            List<String> recommended = new ArrayList<>();
            for (Object one : value.recommendedValues()) recommended.add(text(one, key));
            made.add(Json.map(
                    "name", value.name(),
                    "value", text(value.value(), key),
                    "recommended", recommended,
                    "errors", value.errorMessages(),
                    "visible", value.visible()));
        }
        return made;
    }

    /**
     * What validate() of ConfigDef says of a step's settings, which are given with their prefix: values are parsed here,
     * so that validators and recommenders get what they get in Java's worker. Source: ConnectorConfig.enrich.
     */
    static List<Object> validate(ConfigDef own, String prefix, Map<String, String> given) {
        ConfigDef table = new ConfigDef();
        table.embed(prefix, "", 0, own);
        return values(new Config(table.validate(given)), table);
    }

    private static String text(Object value, ConfigDef.ConfigKey key) {
        if (value == null) return null;
        try {
            return ConfigDef.convertToString(value, key == null ? null : key.type);
        } catch (ClassCastException | ConfigException e) {
            return value.toString();
        }
    }
}
