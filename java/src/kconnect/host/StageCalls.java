package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A single transformation, predicate or converter in a chain that is partly Python's: columns in, columns out. */
final class StageCalls implements Session.Served {
    private final Session session;
    private final Object plugin;
    private boolean isConfigured; // and not closed
    private final Out out = new Out();

    StageCalls(Session session, JsonNode a) throws ReflectiveOperationException {
        this.session = session;
        plugin = session.host().folders().make(a.get("class").asText(), Json.text(a.get("folder")), Object.class);
    }

    @Override
    public Object call(String method, JsonNode a) throws Exception {
        try (Swap swap = new Swap(plugin)) {
            return switch (method) {
                case "configure" -> {
                    isConfigured = true;
                    yield configure(Json.texts(a.get("config")), a.get("kind").asText(), a.path("key").asBoolean());
                }
                case "validate" -> ConfigJson.validate(
                        Calls.configOf(plugin), a.get("prefix").asText(), Json.texts(a.get("config")));
                case "monitor" -> {
                    session.meter().attach(plugin, a.get("tags"), Json.read("{}"));
                    yield null;
                }
                case "close" -> {
                    isConfigured = false;
                    session.meter().close();
                    if (plugin instanceof AutoCloseable closeable) closeable.close();
                    yield null;
                }
                default -> throw new ConnectException("Unknown call of a stage: " + method);
            };
        }
    }

    @Override
    public void leave(boolean inCall) throws Exception {
        if (!inCall && isConfigured) call("close", null);
    }

    @Override
    public Object block(ByteBuffer body) throws Exception {
        In in = new In(body);
        JsonNode head = in.json();
        try (Swap swap = new Swap(plugin)) {
            return switch (head.get("m").asText()) {
                case "apply" -> apply(in, head.get("run"));
                case "test" -> test(in, head.get("run"));
                case "to_bytes" -> toBytes(in, head);
                case "from_bytes" -> fromBytes(in, head);
                default -> throw new ConnectException("Unknown block of a stage: " + head.get("m"));
            };
        }
    }

    /** JsonConverter and others are of two kinds: the caller says which one is wanted. */
    private Object configure(Map<String, String> config, String kind, boolean isKey) {
        switch (kind) {
            case "transformation" -> ((Transformation<?>) plugin).configure(config);
            case "predicate" -> ((Predicate<?>) plugin).configure(config);
            case "header_converter" -> ((HeaderConverter) plugin).configure(config);
            default -> ((Converter) plugin).configure(config, isKey);
        }
        return Json.map("version", plugin instanceof Versioned versioned ? versioned.version() : null, "kinds", Kinds.of(plugin),
                "headers", plugin instanceof Converter && looksAtHeaders());
    }

    /** Whether the converter has a form of its own that is given headers (KIP-440). */
    private boolean looksAtHeaders() {
        try {
            Class<?> made = plugin.getClass();
            return made.getMethod("fromConnectData", String.class, Headers.class, Schema.class, Object.class).getDeclaringClass() != Converter.class
                    || made.getMethod("toConnectData", String.class, Headers.class, byte[].class).getDeclaringClass() != Converter.class;
        } catch (NoSuchMethodException e) {
            throw new AssertionError(e); // the interface has them
        }
    }

    private static List<? extends ConnectRecord<?>> records(In in, JsonNode run) {
        return run.has("original_topic") ? Reading.sinkRecords(in, run) : Reading.sourceRecords(in, run);
    }

    /** Rows after a transformation, with `rows` that say which ones are left; up to one that fails. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private ByteBuffer apply(In in, JsonNode run) {
        Transformation transformation = (Transformation) plugin;
        List<ConnectRecord<?>> made = new ArrayList<>();
        List<Integer> rows = new ArrayList<>();
        Map<String, Object> head = Json.map();
        List<? extends ConnectRecord<?>> given = records(in, run);
        for (int i = 0; i < given.size(); i++) {
            try {
                ConnectRecord<?> after = transformation.apply((ConnectRecord) given.get(i));
                if (after == null) continue;
                made.add(after);
                rows.add(i);
            } catch (RuntimeException e) {
                head.put("failure", new StageFailure("TRANSFORMATION", plugin, e).describe(i));
                break;
            }
        }
        List<ConnectRecord<?>> bare = new ArrayList<>();
        for (ConnectRecord<?> one : made) bare.add(one instanceof SourceRecord record ? withoutPosition(record) : one);
        head.put("rows", rows);
        return upToMisfit(bare, head, "TRANSFORMATION", rows);
    }

    /** What was made, up to the first record whose values are not of its schemas: that one has failed. */
    private ByteBuffer upToMisfit(List<? extends ConnectRecord<?>> made, Map<String, Object> head, String stage, List<Integer> rows) {
        Runs runs = new Runs(made, null, Map.of());
        try {
            return runs.written(out, head);
        } catch (RuntimeException e) {
            Map<Integer, RuntimeException> misfits = runs.misfits();
            if (misfits.isEmpty()) throw e;
            int first = misfits.keySet().iterator().next();
            head.put("failure", new StageFailure(stage, plugin, misfits.get(first)).describe(rows.get(first)));
            head.put("rows", head.get("rows") instanceof List ? rows.subList(0, first) : (Object) first);
            return new Runs(made.subList(0, first), null, Map.of()).written(out, head);
        }
    }

    private static ConnectRecord<?> withoutPosition(SourceRecord record) {
        return new SinkRecord(record.topic(), record.kafkaPartition() == null ? Runs.NO_PARTITION : record.kafkaPartition(), record.keySchema(),
                record.key(), record.valueSchema(), record.value(), 0, record.timestamp(),
                org.apache.kafka.common.record.TimestampType.NO_TIMESTAMP_TYPE, record.headers());
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Object test(In in, JsonNode run) {
        List<Boolean> made = new ArrayList<>();
        for (ConnectRecord<?> record : records(in, run)) made.add(((Predicate) plugin).test((ConnectRecord) record));
        return made;
    }

    private Object toBytes(In in, JsonNode head) {
        int count = head.get("rows").asInt();
        String topic = head.get("topic").asText();
        Schema schema = Schemas.read(Json.text(head.get("column").get("schema")));
        Object[] values = Columns.read(in, head.get("column"), count);
        byte[][] made = new byte[count][];
        Map<String, Object> answer = Json.map();
        RowHeaders headers = new RowHeaders(head);
        int at = 0;
        for (; at < count; at++) {
            try {
                made[at] = head.hasNonNull("header")
                        ? ((HeaderConverter) plugin).fromConnectHeader(topic, head.get("header").asText(), schema, values[at])
                        : ((Converter) plugin).fromConnectData(topic, headers.toChange(at), schema, values[at]);
            } catch (RuntimeException e) {
                answer.put("failure", new StageFailure("CONVERTER", plugin, e).describe(at));
                break;
            }
        }
        answer.put("rows", at);
        answer.put("headers", headers.changed());
        out.restart().json(answer);
        out.binary(made, at);
        return out.done();
    }

    private Object fromBytes(In in, JsonNode head) {
        int count = head.get("rows").asInt();
        String topic = head.get("topic").asText();
        byte[][] given = in.binary(count);
        List<SinkRecord> made = new ArrayList<>();
        Map<String, Object> answer = Json.map();
        RowHeaders headers = new RowHeaders(head);
        for (int i = 0; i < count; i++) {
            try {
                SchemaAndValue one = head.hasNonNull("header")
                        ? ((HeaderConverter) plugin).toConnectHeader(topic, head.get("header").asText(), given[i])
                        : ((Converter) plugin).toConnectData(topic, headers.toChange(i), given[i]);
                if (one == null && head.hasNonNull("header")) one = SchemaAndValue.NULL; // as ConnectHeaders.add takes it
                made.add(new SinkRecord(topic, 0, null, null, one.schema(), one.value(), i));
            } catch (RuntimeException e) {
                answer.put("failure", new StageFailure("CONVERTER", plugin, e).describe(i));
                break;
            }
        }
        answer.put("rows", made.size());
        answer.put("headers", headers.changed());
        return upToMisfit(made, answer, "CONVERTER", IntStream.range(0, made.size()).boxed().toList());
    }
}
