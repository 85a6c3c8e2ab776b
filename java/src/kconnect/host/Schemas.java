package kconnect.host;

import java.io.IOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;

/** Schemas as the JSON of Connect's JsonConverter, each written and read once. */
final class Schemas {
    private static final int MOST = 500;
    private static final JsonConverter CONVERTER = Json.converter(false);
    private static final Map<Schema, String> TEXTS = recent();
    private static final Map<String, Schema> READ = recent();

    private Schemas() {}

    static String text(Schema schema) {
        if (schema == null) return null;
        String found = TEXTS.get(schema);
        if (found == null) {
            found = CONVERTER.asJsonSchema(schema).toString();
            TEXTS.put(schema, found);
        }
        return found;
    }

    static Schema read(String text) {
        if (text == null) return null;
        Schema found = READ.get(text);
        if (found == null) {
            try {
                found = CONVERTER.asConnectSchema(Json.read(text));
            } catch (IOException e) {
                throw new DataException("This is no schema: " + text, e);
            }
            READ.put(text, found);
        }
        return found;
    }

    private static <K, V> Map<K, V> recent() {
        return Collections.synchronizedMap(new LinkedHashMap<>(16, 0.75f, true) {
            private static final long serialVersionUID = 1;

            @Override
            protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
                return size() > MOST;
            }
        });
    }
}
