package kconnect.host;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;

/** JSON of calls and answers. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {}

    /** A JsonConverter for our own use, whose settings are no news: each one logs them at INFO. */
    static JsonConverter converter(boolean withSchemas) {
        JsonConverter made = new JsonConverter();
        Log.quietly(() -> made.configure(Map.of("schemas.enable", withSchemas), false));
        return made;
    }

    static byte[] bytes(Object value) {
        try {
            return MAPPER.writeValueAsBytes(value);
        } catch (JsonProcessingException e) {
            throw new ConnectException("What a plugin has given cannot be passed on: " + e.getOriginalMessage(), e);
        }
    }

    static JsonNode read(ByteBuffer body) throws IOException {
        return MAPPER.readTree(body.array(), body.arrayOffset() + body.position(), body.remaining());
    }

    static JsonNode read(String text) throws IOException {
        return MAPPER.readTree(text);
    }

    static JsonNode tree(byte[] text) {
        try {
            return MAPPER.readTree(text);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A map of texts, nulls kept. */
    static Map<String, String> texts(JsonNode node) {
        Map<String, String> found = new LinkedHashMap<>();
        node.fields().forEachRemaining(field -> found.put(field.getKey(), text(field.getValue())));
        return found;
    }

    /** A list of texts; empty where there is none. */
    static List<String> list(JsonNode node) {
        List<String> found = new ArrayList<>();
        node.forEach(one -> found.add(one.asText()));
        return found;
    }

    static String text(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText();
    }

    /** A map in the order of its arguments: name, value, name, value .. */
    static Map<String, Object> map(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) made.put((String) pairs[i], pairs[i + 1]);
        return made;
    }
}
