package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Values as texts of JSON. What JSON has no form for is an object with one field: {"$bytes": base64}, {"$date": ms},
 * {"$decimal": text}, {"$integer": text} of more than 64 bits, {"$double": text}, {"$map": [[key, value] ..]}.
 */
final class PlainJson {
    private static final JsonNodeFactory NODES = JsonNodeFactory.withExactBigDecimals(true);
    private static final JsonConverter CONVERTER = Json.converter(false);

    private PlainJson() {}

    static byte[][] texts(Object[] values) {
        byte[][] made = new byte[values.length][];
        for (int i = 0; i < made.length; i++) if (values[i] != null) made[i] = Json.bytes(node(values[i]));
        return made;
    }

    /** Values of a schema, as Connect's JsonConverter writes them. */
    static byte[][] texts(Schema schema, Object[] values) {
        byte[][] made = new byte[values.length][];
        for (int i = 0; i < made.length; i++) {
            if (values[i] != null) made[i] = CONVERTER.fromConnectData("values", schema, values[i]);
        }
        return made;
    }

    static Object[] read(byte[][] texts) {
        Object[] made = new Object[texts.length];
        for (int i = 0; i < made.length; i++) if (texts[i] != null) made[i] = value(Json.tree(texts[i]));
        return made;
    }

    static Object[] read(Schema schema, byte[][] texts) {
        JsonConverter reader = Json.converter(true);
        JsonNode reported;
        try {
            reported = Json.read(Schemas.text(schema));
        } catch (IOException e) {
            throw new DataException("This is no schema: " + schema, e);
        }
        Object[] made = new Object[texts.length];
        for (int i = 0; i < made.length; i++) {
            if (texts[i] == null) continue;
            ObjectNode envelope = NODES.objectNode();
            envelope.set("schema", reported);
            envelope.set("payload", Json.tree(texts[i]));
            made[i] = reader.toConnectData("values", Json.bytes(envelope)).value();
        }
        return made;
    }

    private static JsonNode node(Object value) {
        if (value == null) return NODES.nullNode();
        if (value instanceof String one) return NODES.textNode(one);
        if (value instanceof Boolean one) return NODES.booleanNode(one);
        if (value instanceof Double one) {
            return Double.isFinite(one) ? NODES.numberNode(one) : odd("$double", NODES.textNode(one.toString()));
        }
        if (value instanceof Float one) return node((double) one);
        if (value instanceof BigDecimal one) return odd("$decimal", NODES.textNode(one.toString()));
        if (value instanceof BigInteger one) {
            return one.bitLength() < Long.SIZE ? NODES.numberNode(one) : odd("$integer", NODES.textNode(one.toString()));
        }
        if (value instanceof Number one) return NODES.numberNode(one.longValue());
        if (value instanceof byte[] one) return odd("$bytes", NODES.textNode(Base64.getEncoder().encodeToString(one)));
        if (value instanceof ByteBuffer one) {
            byte[] bytes = new byte[one.remaining()];
            one.duplicate().get(bytes);
            return node(bytes);
        }
        if (value instanceof java.util.Date one) return odd("$date", NODES.numberNode(one.getTime()));
        if (value instanceof Iterable<?> many) {
            ArrayNode made = NODES.arrayNode();
            many.forEach(one -> made.add(node(one)));
            return made;
        }
        if (value instanceof Map<?, ?> map) return map(map);
        throw new DataException("A value of " + value.getClass().getName() + " has no schema and cannot leave Java");
    }

    private static JsonNode map(Map<?, ?> map) {
        boolean hasTexts = true;
        for (Object key : map.keySet()) hasTexts &= key instanceof String text && !text.startsWith("$");
        if (!hasTexts) {
            ArrayNode pairs = NODES.arrayNode();
            map.forEach((key, value) -> pairs.add(NODES.arrayNode().add(node(key)).add(node(value))));
            return odd("$map", pairs);
        }
        ObjectNode made = NODES.objectNode();
        map.forEach((key, value) -> made.set((String) key, node(value)));
        return made;
    }

    private static JsonNode odd(String name, JsonNode value) {
        ObjectNode made = NODES.objectNode();
        made.set(name, value);
        return made;
    }

    private static Object value(JsonNode node) {
        return switch (node.getNodeType()) {
            case STRING -> node.asText();
            case BOOLEAN -> node.asBoolean();
            case NUMBER -> node.isIntegralNumber()
                    ? (node.canConvertToLong() ? (Object) node.asLong() : node.bigIntegerValue()) : (Object) node.asDouble();
            case ARRAY -> {
                List<Object> made = new ArrayList<>();
                node.forEach(one -> made.add(value(one)));
                yield made;
            }
            case OBJECT -> object(node);
            default -> null;
        };
    }

    private static Object object(JsonNode node) {
        if (node.size() == 1) {
            String name = node.fieldNames().next();
            JsonNode inner = node.get(name);
            switch (name) {
                case "$bytes": return Base64.getDecoder().decode(inner.asText());
                case "$date": return new java.util.Date(inner.asLong());
                case "$decimal": return new BigDecimal(inner.asText());
                case "$integer": return new BigInteger(inner.asText());
                case "$double": return Double.valueOf(inner.asText());
                case "$map":
                    Map<Object, Object> pairs = new LinkedHashMap<>();
                    inner.forEach(pair -> pairs.put(value(pair.get(0)), value(pair.get(1))));
                    return pairs;
                default: break;
            }
        }
        Map<String, Object> made = new LinkedHashMap<>();
        node.fields().forEachRemaining(field -> made.put(field.getKey(), value(field.getValue())));
        return made;
    }
}
