import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Answers what Java's transformations and JsonConverter make of the cases of each line; see kit/java_answers.py. */
public class RandomCases {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final Map<String, String> LOGICAL = Map.of(
        "org.apache.kafka.connect.data.Decimal", "decimal", "org.apache.kafka.connect.data.Date", "date",
        "org.apache.kafka.connect.data.Time", "date", "org.apache.kafka.connect.data.Timestamp", "date");

    public static void main(String[] args) throws Exception {
        MAPPER.getFactory().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true); // lone surrogates stay what they are
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = MAPPER.readTree(line);
            out.write(MAPPER.writeValueAsString(asked.has("class") ? transformed(asked) : converted(asked)));
            out.write('\n');
            out.flush();
        }
    }

    // --- transformations ---

    @SuppressWarnings("unchecked")
    private static JsonNode transformed(JsonNode asked) {
        ArrayNode answers = NODES.arrayNode();
        try {
            Transformation<SourceRecord> transformation = (Transformation<SourceRecord>)
                Class.forName(asked.get("class").textValue()).getDeclaredConstructor().newInstance();
            transformation.configure(config(asked.get("config")));
            Schema keySchema = schema(asked.get("keySchema")), valueSchema = schema(asked.get("valueSchema"));
            for (JsonNode given : asked.get("records")) {
                try {
                    answers.add(answer(transformation.apply(record(given, keySchema, valueSchema))));
                } catch (RuntimeException e) {
                    answers.add(error(e));
                }
            }
        } catch (RuntimeException e) {
            for (int i = 0; i < asked.get("records").size(); i++)
                answers.add(error(e));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        return answers;
    }

    private static SourceRecord record(JsonNode given, Schema keySchema, Schema valueSchema) {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : given.get("headers"))
            headers.addString(header.get(0).textValue(), header.get(1).textValue());
        JsonNode time = given.get("timestamp");
        return new SourceRecord(Map.of(), Map.of(), "topic", 1, keySchema, value(keySchema, given.get("key")), valueSchema,
            value(valueSchema, given.get("value")), time.isNull() ? null : time.longValue(), headers);
    }

    private static JsonNode answer(SourceRecord record) {
        if (record == null)
            return NODES.nullNode();
        ObjectNode made = NODES.objectNode();
        made.put("topic", record.topic());
        made.put("timestamp", record.timestamp());
        made.set("keySchema", written(record.keySchema()));
        made.set("key", written(record.keySchema(), record.key()));
        made.set("valueSchema", written(record.valueSchema()));
        made.set("value", written(record.valueSchema(), record.value()));
        ArrayNode headers = made.putArray("headers");
        for (Header header : record.headers())
            headers.addArray().add(header.key()).add(written(header.schema())).add(written(header.schema(), header.value()));
        return made;
    }

    // --- JsonConverter ---

    private static JsonNode converted(JsonNode asked) {
        ArrayNode answers = NODES.arrayNode();
        JsonConverter converter = new JsonConverter();
        try {
            converter.configure(config(asked.get("config")), asked.get("isKey").booleanValue());
        } catch (RuntimeException e) {
            return answers.add(error(e));
        }
        Schema schema = schema(asked.get("schema"));
        for (JsonNode given : asked.get("values"))
            answers.add(fromConnect(converter, schema, given));
        for (JsonNode given : asked.get("texts"))
            answers.add(toConnect(converter, given.isNull() ? null : Base64.getDecoder().decode(given.textValue())));
        return answers;
    }

    private static JsonNode fromConnect(JsonConverter converter, Schema schema, JsonNode given) {
        try {
            byte[] bytes = converter.fromConnectData("topic", schema, value(schema, given));
            ObjectNode made = NODES.objectNode();
            made.put("bytes", bytes == null ? null : new String(bytes, StandardCharsets.UTF_8));
            made.set("back", toConnect(converter, bytes));
            return made;
        } catch (RuntimeException e) {
            return error(e);
        }
    }

    private static JsonNode toConnect(JsonConverter converter, byte[] bytes) {
        try {
            SchemaAndValue made = converter.toConnectData("topic", bytes);
            return NODES.arrayNode().add(written(made.schema())).add(written(made.schema(), made.value()));
        } catch (RuntimeException e) {
            return error(e);
        }
    }

    private static JsonNode error(RuntimeException e) {
        return NODES.objectNode().put("error", e.getClass().getSimpleName()).put("message", e.getMessage());
    }

    private static Map<String, String> config(JsonNode given) {
        Map<String, String> config = new HashMap<>();
        given.fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().textValue()));
        return config;
    }

    // --- schemas and values, read ---

    private static Schema schema(JsonNode given) {
        if (given == null || given.isNull())
            return null;
        Schema.Type type = Schema.Type.valueOf(given.get("type").textValue());
        SchemaBuilder builder = switch (type) {
            case ARRAY -> SchemaBuilder.array(schema(given.get("items")));
            case MAP -> SchemaBuilder.map(schema(given.get("keys")), schema(given.get("values")));
            default -> SchemaBuilder.type(type);
        };
        if (type == Schema.Type.STRUCT)
            for (JsonNode field : given.get("fields"))
                builder.field(field.get(0).textValue(), schema(field.get(1)));
        if (given.get("optional").booleanValue())
            builder.optional();
        if (given.hasNonNull("name"))
            builder.name(given.get("name").textValue());
        if (given.hasNonNull("version"))
            builder.version(given.get("version").intValue());
        if (given.hasNonNull("doc"))
            builder.doc(given.get("doc").textValue());
        if (given.hasNonNull("parameters"))
            given.get("parameters").fields().forEachRemaining(e -> builder.parameter(e.getKey(), e.getValue().textValue()));
        if (given.hasNonNull("default"))
            builder.defaultValue(value(builder.build(), given.get("default")));
        return builder.build();
    }

    private static Object value(Schema schema, JsonNode given) {
        if (given == null || given.isNull())
            return null;
        JsonNode v = given.get(1);
        return switch (given.get(0).textValue()) {
            case "int" -> schema == null ? (Object) v.longValue() : sized(schema.type(), v.longValue());
            case "float" -> schema == null || schema.type() == Schema.Type.FLOAT64
                ? (Object) Double.longBitsToDouble(Long.parseLong(v.textValue()))
                : Float.intBitsToFloat(Integer.parseInt(v.textValue()));
            case "text" -> Double.parseDouble(v.textValue());
            case "boolean" -> v.booleanValue();
            case "string" -> v.textValue();
            case "bytes" -> Base64.getDecoder().decode(v.textValue());
            case "decimal" -> new BigDecimal(new BigInteger(v.get(0).textValue()), v.get(1).intValue());
            case "date" -> new Date(v.longValue());
            case "list" -> {
                List<Object> list = new ArrayList<>();
                for (JsonNode item : v)
                    list.add(value(schema == null ? null : schema.valueSchema(), item));
                yield list;
            }
            case "map" -> {
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode pair : v)
                    map.put(value(schema == null ? null : schema.keySchema(), pair.get(0)),
                        value(schema == null ? null : schema.valueSchema(), pair.get(1)));
                yield map;
            }
            case "struct" -> {
                Struct struct = new Struct(schema);
                int index = 0;
                for (Field field : schema.fields()) {
                    Object item = value(field.schema(), v.get(index++));
                    if (item != null)
                        struct.put(field, item);
                }
                yield struct;
            }
            default -> throw new IllegalStateException("unknown kind " + given);
        };
    }

    private static Object sized(Schema.Type type, long number) {
        return switch (type) {
            case INT8 -> (Object) (byte) number;
            case INT16 -> (short) number;
            case INT32 -> (int) number;
            default -> number;
        };
    }

    // --- schemas and values, written ---

    private static JsonNode written(Schema schema) {
        if (schema == null)
            return NODES.nullNode();
        ObjectNode made = NODES.objectNode();
        made.put("type", schema.type().name());
        made.put("optional", schema.isOptional());
        made.put("name", schema.name());
        made.put("version", schema.version());
        made.put("doc", schema.doc());
        if (schema.parameters() == null)
            made.putNull("parameters");
        else
            made.set("parameters", MAPPER.valueToTree(schema.parameters()));
        made.set("default", written(schema, schema.defaultValue()));
        if (schema.type() == Schema.Type.ARRAY)
            made.set("items", written(schema.valueSchema()));
        if (schema.type() == Schema.Type.MAP) {
            made.set("keys", written(schema.keySchema()));
            made.set("values", written(schema.valueSchema()));
        }
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = made.putArray("fields");
            for (Field field : schema.fields())
                fields.addArray().add(field.name()).add(written(field.schema()));
        }
        return made;
    }

    private static JsonNode written(Schema schema, Object value) {
        if (value == null)
            return NODES.nullNode();
        ArrayNode made = NODES.arrayNode();
        if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long)
            return made.add("int").add(((Number) value).longValue());
        if (schema == null && (value instanceof Double || value instanceof Float))
            return made.add("text").add(value.toString());
        if (value instanceof Double d)
            return made.add("float").add(Long.toString(Double.doubleToLongBits(d)));
        if (value instanceof Float f)
            return made.add("float").add(Integer.toString(Float.floatToIntBits(f)));
        if (value instanceof Boolean b)
            return made.add("boolean").add(b);
        if (value instanceof String s)
            return made.add("string").add(s);
        if (value instanceof byte[] bytes)
            return made.add("bytes").add(Base64.getEncoder().encodeToString(bytes));
        if (value instanceof ByteBuffer buffer)
            return made.add("bytes").add(Base64.getEncoder().encodeToString(buffer.array()));
        if (value instanceof BigDecimal number)
            return made.add("decimal").add(NODES.arrayNode().add(number.unscaledValue().toString()).add(number.scale()));
        if (value instanceof Date date)
            return made.add("date").add(date.getTime());
        if (value instanceof List<?> list) {
            ArrayNode items = made.add("list").addArray();
            for (Object item : list)
                items.add(written(schema == null ? null : schema.valueSchema(), item));
            return made;
        }
        if (value instanceof Map<?, ?> map) {
            ArrayNode pairs = made.add("map").addArray();
            map.forEach((key, item) -> pairs.addArray()
                .add(written(schema == null ? null : schema.keySchema(), key))
                .add(written(schema == null ? null : schema.valueSchema(), item)));
            return made;
        }
        if (value instanceof Struct struct) {
            ArrayNode items = made.add("struct").addArray();
            for (Field field : struct.schema().fields())
                items.add(written(field.schema(), struct.getWithoutDefault(field.name())));
            return made;
        }
        return made.add("object").add(value.getClass().getName());
    }
}
