package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
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
 * Transformations and converters of one task that all run in Java. What one throws comes out as a StageFailure: checked
 * exceptions as well, which code in Kotlin or Scala throws undeclared, and errors, which our policy never tolerates.
 * Source: o.a.k.connect.runtime.TransformationChain, AbstractWorkerSourceTask.convertTransformedRecord.
 */
final class Chain<R extends ConnectRecord<R>> implements AutoCloseable {
    /** `place`: the settings that name the transformation; `predicatePlace`: and those of its predicate. */
    private record Step<R extends ConnectRecord<R>>(
            Transformation<R> transformation, Predicate<R> predicate, boolean negate, String place, String predicatePlace) {
        boolean takes(R record) {
            if (predicate == null) return true;
            try (Swap swap = new Swap(predicate)) {
                return predicate.test(record) != negate;
            } catch (Throwable e) {
                throw new StageFailure("TRANSFORMATION", transformation, e, predicatePlace);
            }
        }
    }

    private final List<Step<R>> steps = new ArrayList<>();
    private final Converter key;
    private final Converter value;
    private final HeaderConverter header;

    /** Of the parts that Python named in the start of a task; converters may be missing. */
    Chain(Session session, JsonNode start) {
        JsonNode parts = start.path("chain");
        Maker maker = new Maker(session, start.get("tags"));
        for (JsonNode step : parts.path("steps")) steps.add(step(maker, step));
        key = converter(maker, parts.get("key"), true);
        value = converter(maker, parts.get("value"), false);
        header = parts.hasNonNull("header") ? headerConverter(maker, parts.get("header")) : null;
    }

    boolean hasConverters() {
        return value != null;
    }

    /** The record after all transformations; null when one dropped it. */
    R apply(R record) {
        R current = record;
        for (Step<R> step : steps) {
            if (current == null) return null;
            if (!step.takes(current)) continue;
            try {
                current = transformed(step, current);
            } catch (Throwable e) {
                throw new StageFailure("TRANSFORMATION", step.transformation, e, step.place);
            }
        }
        return current;
    }

    private static <R extends ConnectRecord<R>> R transformed(Step<R> step, R record) {
        try (Swap swap = new Swap(step.transformation)) {
            return step.transformation.apply(record);
        }
    }

    /** Headers for Kafka; the converters of key and value may add more. */
    RecordHeaders headers(R record) {
        RecordHeaders made = new RecordHeaders();
        if (record.headers().isEmpty()) return made;
        try (Swap swap = new Swap(header)) {
            for (Header one : record.headers()) {
                made.add(one.key(), header.fromConnectHeader(record.topic(), one.key(), one.schema(), one.value()));
            }
        } catch (Throwable e) {
            throw new StageFailure("HEADER_CONVERTER", header, e);
        }
        return made;
    }

    byte[] keyBytes(R record, RecordHeaders headers) {
        try (Swap swap = new Swap(key)) {
            return key.fromConnectData(record.topic(), headers, record.keySchema(), record.key());
        } catch (Throwable e) {
            throw new StageFailure("KEY_CONVERTER", key, e);
        }
    }

    byte[] valueBytes(R record, RecordHeaders headers) {
        try (Swap swap = new Swap(value)) {
            return value.fromConnectData(record.topic(), headers, record.valueSchema(), record.value());
        } catch (Throwable e) {
            throw new StageFailure("VALUE_CONVERTER", value, e);
        }
    }

    SchemaAndValue readKey(String topic, RecordHeaders headers, byte[] bytes) {
        try (Swap swap = new Swap(key)) {
            return key.toConnectData(topic, headers, bytes);
        } catch (Throwable e) {
            throw new StageFailure("KEY_CONVERTER", key, e);
        }
    }

    SchemaAndValue readValue(String topic, RecordHeaders headers, byte[] bytes) {
        try (Swap swap = new Swap(value)) {
            return value.toConnectData(topic, headers, bytes);
        } catch (Throwable e) {
            throw new StageFailure("VALUE_CONVERTER", value, e);
        }
    }

    void readHeaders(String topic, RecordHeaders given, org.apache.kafka.connect.header.Headers target) {
        try (Swap swap = new Swap(header)) {
            for (org.apache.kafka.common.header.Header one : given) {
                target.add(one.key(), header.toConnectHeader(topic, one.key(), one.value()));
            }
        } catch (Throwable e) {
            throw new StageFailure("HEADER_CONVERTER", header, e);
        }
    }

    @Override
    public void close() throws Exception {
        for (Step<R> step : steps) {
            close(step.transformation);
            close(step.predicate);
        }
        close(key);
        close(value);
        close(header);
    }

    private static void close(AutoCloseable part) throws Exception {
        if (part == null) return;
        try (Swap swap = new Swap(part)) {
            part.close();
        }
    }

    /** Makes and configures the parts of one task, and gives them what they add metrics to. */
    private record Maker(Session session, JsonNode tags) {
        interface Configuring<T> {
            void configure(T plugin, Map<String, String> config);
        }

        <T> T make(JsonNode given, Class<T> kind, Configuring<T> configuring) {
            String method = "__init__"; // as Python has it
            try {
                T made = session.host().folders().make(given.get("class").asText(), Json.text(given.get("folder")), kind);
                method = "configure";
                try (Swap swap = new Swap(made)) {
                    configuring.configure(made, Json.texts(given.get("config")));
                    session.meter().attach(made, tags, given.get("tags"));
                }
                return made;
            } catch (Throwable e) {
                throw new StartFailure(given.get("class").asText(), method, Json.text(given.get("place")), e);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static <R extends ConnectRecord<R>> Step<R> step(Maker maker, JsonNode given) {
        Transformation<R> made = maker.make(given, Transformation.class, Transformation::configure);
        Predicate<R> predicate = given.hasNonNull("predicate")
                ? maker.make(given.get("predicate"), Predicate.class, Predicate::configure) : null;
        String place = Json.text(given.get("place"));
        String predicatePlace = predicate == null ? null : place + ", in its predicate "
                + predicate.getClass().getName().substring(predicate.getClass().getName().lastIndexOf('.') + 1) + ", " + Json.text(given.get("predicate").get("place"));
        return new Step<>(made, predicate, given.path("negate").asBoolean(), place, predicatePlace);
    }

    private static Converter converter(Maker maker, JsonNode given, boolean isKey) {
        if (given == null || given.isNull()) return null;
        return maker.make(given, Converter.class, (made, config) -> made.configure(config, isKey));
    }

    private static HeaderConverter headerConverter(Maker maker, JsonNode given) {
        return maker.make(given, HeaderConverter.class, (made, config) -> {
            config.put("converter.type", "header");
            made.configure(config);
        });
    }
}
