package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Transformations and converters of one task that all run in Java. What one throws comes out as a StageFailure.
 * Source: o.a.k.connect.runtime.TransformationChain, AbstractWorkerSourceTask.convertTransformedRecord.
 */
final class Chain<R extends ConnectRecord<R>> implements AutoCloseable {
    private record Step<R extends ConnectRecord<R>>(Transformation<R> transformation, Predicate<R> predicate, boolean negate) {}

    private final List<Step<R>> steps = new ArrayList<>();
    private final Converter key;
    private final Converter value;
    private final HeaderConverter header;

    /** Of the parts that Python named; converters may be missing. */
    Chain(Folders folders, JsonNode parts) throws ReflectiveOperationException {
        for (JsonNode step : parts.path("steps")) steps.add(step(folders, step));
        key = converter(folders, parts.get("key"), true);
        value = converter(folders, parts.get("value"), false);
        header = parts.hasNonNull("header") ? headerConverter(folders, parts.get("header")) : null;
    }

    boolean hasConverters() {
        return value != null;
    }

    /** The record after all transformations; null when one dropped it. */
    R apply(R record) {
        R current = record;
        for (Step<R> step : steps) {
            if (current == null) return null;
            try (Swap swap = new Swap(step.transformation)) {
                if (step.predicate == null || step.predicate.test(current) != step.negate) {
                    current = step.transformation.apply(current);
                }
            } catch (RuntimeException e) {
                throw new StageFailure("TRANSFORMATION", step.transformation, e);
            }
        }
        return current;
    }

    /** Headers for Kafka; the converters of key and value may add more. */
    RecordHeaders headers(R record) {
        RecordHeaders made = new RecordHeaders();
        if (record.headers().isEmpty()) return made;
        try (Swap swap = new Swap(header)) {
            for (Header one : record.headers()) {
                made.add(one.key(), header.fromConnectHeader(record.topic(), one.key(), one.schema(), one.value()));
            }
        } catch (RuntimeException e) {
            throw new StageFailure("HEADER_CONVERTER", header, e);
        }
        return made;
    }

    byte[] keyBytes(R record, RecordHeaders headers) {
        try (Swap swap = new Swap(key)) {
            return key.fromConnectData(record.topic(), headers, record.keySchema(), record.key());
        } catch (RuntimeException e) {
            throw new StageFailure("KEY_CONVERTER", key, e);
        }
    }

    byte[] valueBytes(R record, RecordHeaders headers) {
        try (Swap swap = new Swap(value)) {
            return value.fromConnectData(record.topic(), headers, record.valueSchema(), record.value());
        } catch (RuntimeException e) {
            throw new StageFailure("VALUE_CONVERTER", value, e);
        }
    }

    SchemaAndValue readKey(String topic, RecordHeaders headers, byte[] bytes) {
        try (Swap swap = new Swap(key)) {
            return key.toConnectData(topic, headers, bytes);
        } catch (RuntimeException e) {
            throw new StageFailure("KEY_CONVERTER", key, e);
        }
    }

    SchemaAndValue readValue(String topic, RecordHeaders headers, byte[] bytes) {
        try (Swap swap = new Swap(value)) {
            return value.toConnectData(topic, headers, bytes);
        } catch (RuntimeException e) {
            throw new StageFailure("VALUE_CONVERTER", value, e);
        }
    }

    void readHeaders(String topic, RecordHeaders given, org.apache.kafka.connect.header.Headers target) {
        try (Swap swap = new Swap(header)) {
            for (org.apache.kafka.common.header.Header one : given) {
                target.add(one.key(), header.toConnectHeader(topic, one.key(), one.value()));
            }
        } catch (RuntimeException e) {
            throw new StageFailure("HEADER_CONVERTER", header, e);
        }
    }

    @Override
    public void close() throws Exception {
        for (Step<R> step : steps) {
            try (Swap swap = new Swap(step.transformation)) {
                step.transformation.close();
            }
            if (step.predicate != null) step.predicate.close();
        }
        if (key != null) key.close();
        if (value != null) value.close();
        if (header != null) header.close();
    }

    @SuppressWarnings("unchecked")
    private static <R extends ConnectRecord<R>> Step<R> step(Folders folders, JsonNode given)
            throws ReflectiveOperationException {
        Transformation<R> made = make(folders, given, Transformation.class);
        try (Swap swap = new Swap(made)) {
            made.configure(Json.texts(given.get("config")));
        }
        JsonNode wanted = given.get("predicate");
        Predicate<R> predicate = null;
        if (wanted != null && !wanted.isNull()) {
            predicate = make(folders, wanted, Predicate.class);
            try (Swap swap = new Swap(predicate)) {
                predicate.configure(Json.texts(wanted.get("config")));
            }
        }
        return new Step<>(made, predicate, given.path("negate").asBoolean());
    }

    private static Converter converter(Folders folders, JsonNode given, boolean isKey)
            throws ReflectiveOperationException {
        if (given == null || given.isNull()) return null;
        Converter made = make(folders, given, Converter.class);
        try (Swap swap = new Swap(made)) {
            made.configure(Json.texts(given.get("config")), isKey);
        }
        return made;
    }

    private static HeaderConverter headerConverter(Folders folders, JsonNode given)
            throws ReflectiveOperationException {
        HeaderConverter made = make(folders, given, HeaderConverter.class);
        Map<String, String> config = new HashMap<>(Json.texts(given.get("config")));
        config.put("converter.type", "header");
        try (Swap swap = new Swap(made)) {
            made.configure(config);
        }
        return made;
    }

    private static <T> T make(Folders folders, JsonNode given, Class<T> kind) throws ReflectiveOperationException {
        return folders.make(given.get("class").asText(), Json.text(given.get("folder")), kind);
    }
}
