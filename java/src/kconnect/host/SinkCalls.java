package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.runtime.InternalSinkRecord;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.sink.SinkTaskContext;

/**
 * One sink task. Blocks bring records; `put` gives the task all that came since the last one, and again after a
 * RetriableException. What the task asks of its context goes back with each answer.
 * Source: o.a.k.connect.runtime.WorkerSinkTask, WorkerSinkTaskContext.
 */
final class SinkCalls implements Session.Served {
    private static final long NO_TIME = Long.MIN_VALUE;
    private final Session session;
    private final SinkTask task;
    private final Upcall upcall;
    private final Asks asks = new Asks();
    private final Set<TopicPartition> assigned = new HashSet<>();
    private final List<SinkRecord> batch = new ArrayList<>();
    private List<ConsumerRecord<byte[], byte[]>> unread = List.of();
    private Chain<SinkRecord> chain;
    private Context context;

    SinkCalls(Session session, SinkTask task) {
        this.session = session;
        this.task = task;
        this.upcall = new Upcall(session);
    }

    @Override
    public Object call(String method, JsonNode a) throws Exception {
        Object result = switch (method) {
            case "start" -> start(a);
            case "open" -> in(() -> {
                assigned.addAll(places(a));
                task.open(places(a));
            });
            case "close" -> in(() -> {
                drop(places(a));
                task.close(places(a));
                assigned.removeAll(places(a));
            });
            case "drop" -> drop(places(a));
            case "go_on" -> convert(a.get("from").asInt());
            case "put" -> in(() -> {
                task.put(batch);
                batch.clear();
            });
            case "pre_commit" -> preCommit(a);
            case "stop" -> in(() -> {
                task.stop();
                if (chain != null) chain.close();
                if (context != null) context.close();
            });
            default -> throw new ConnectException("Unknown call of a sink task: " + method);
        };
        return Json.map("result", result, "asks", asks.take());
    }

    private interface Action {
        void run() throws Exception;
    }

    private Object in(Action action) throws Exception {
        try (Swap swap = new Swap(task)) {
            action.run();
        }
        return null;
    }

    private Object start(JsonNode a) throws Exception {
        chain = new Chain<>(session.host().folders(), a.path("chain"));
        Map<String, String> config = Json.texts(a.get("config"));
        context = new Context(a);
        in(() -> {
            task.initialize(context);
            task.start(config);
        });
        return Json.map("version", task.version());
    }

    /** Records of one partition: bytes when the chain is Java's, else columns. */
    @Override
    public Object block(ByteBuffer body) throws Exception {
        In in = new In(body);
        JsonNode head = in.json();
        if (!head.has("bytes")) {
            Object counted = columns(in, head);
            return Json.map("result", counted, "asks", asks.take());
        }
        int count = head.get("rows").asInt();
        String topic = head.get("topic").asText();
        int partition = head.get("partition").asInt();
        TimestampType kind = TimestampType.forName(head.get("time").asText());
        long[] offsets = in.longs(count);
        long[] times = in.longs(count);
        byte[][] keys = in.binary(count);
        byte[][] values = in.binary(count);
        Map<Integer, RecordHeaders> headers = new HashMap<>();
        for (JsonNode row : head.path("headers")) headers.put(row.get(0).asInt(), headers(row));
        List<ConsumerRecord<byte[], byte[]>> made = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            RecordHeaders own = headers.getOrDefault(i, new RecordHeaders());
            made.add(new ConsumerRecord<>(topic, partition, offsets[i], times[i] == NO_TIME ? -1 : times[i], kind, -1, -1,
                    keys[i], values[i], own, java.util.Optional.empty()));
        }
        unread = made;
        return Json.map("result", convert(0), "asks", asks.take());
    }

    private static RecordHeaders headers(JsonNode row) {
        RecordHeaders made = new RecordHeaders();
        for (int i = 1; i < row.size(); i += 2) {
            byte[] value = row.get(i + 1).isNull() ? null : Base64.getDecoder().decode(row.get(i + 1).asText());
            made.add(row.get(i).asText(), value);
        }
        return made;
    }

    /** Converts what came, up to a record that fails. */
    private Object convert(int from) {
        for (int at = from; at < unread.size(); at++) {
            try {
                SinkRecord record = read(unread.get(at));
                if (record != null) batch.add(record);
            } catch (StageFailure e) {
                return Json.map("records", batch.size(), "failure", e.describe(at));
            }
        }
        unread = List.of();
        return Json.map("records", batch.size());
    }

    private SinkRecord read(ConsumerRecord<byte[], byte[]> given) {
        RecordHeaders raw = (RecordHeaders) given.headers();
        SchemaAndValue key = chain.readKey(given.topic(), raw, given.key());
        SchemaAndValue value = chain.readValue(given.topic(), raw, given.value());
        ConnectHeaders headers = new ConnectHeaders();
        chain.readHeaders(given.topic(), raw, headers);
        Long time = given.timestamp() < 0 ? null : given.timestamp();
        SinkRecord plain = new SinkRecord(given.topic(), given.partition(), key.schema(), key.value(), value.schema(),
                value.value(), given.offset(), time, given.timestampType(), headers);
        SinkRecord made = chain.apply(plain);
        return made == null ? null : new InternalSinkRecord(new ProcessingContext<>(given), made);
    }

    /** Runs of records that Python converted and transformed. */
    private Object columns(In in, JsonNode head) {
        for (JsonNode run : head.get("runs")) batch.addAll(Reading.sinkRecords(in, run));
        return Json.map("records", batch.size());
    }

    private static String base64(byte[] value) {
        return value == null ? null : Base64.getEncoder().encodeToString(value);
    }

    private Object preCommit(JsonNode a) {
        Map<TopicPartition, OffsetAndMetadata> given = new HashMap<>();
        for (JsonNode one : a.get("offsets")) given.put(place(one), new OffsetAndMetadata(one.get(2).asLong()));
        List<Object> made = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> found;
        try (Swap swap = new Swap(task)) {
            found = task.preCommit(given);
        }
        if (found == null) return made;
        found.forEach((place, offset) -> made.add(new Object[] {place.topic(), place.partition(), offset.offset()}));
        return made;
    }

    private int drop(List<TopicPartition> gone) {
        batch.removeIf(record -> gone.contains(
                new TopicPartition(record.originalTopic(), record.originalKafkaPartition())));
        return batch.size();
    }

    private static List<TopicPartition> places(JsonNode a) {
        List<TopicPartition> made = new ArrayList<>();
        a.get("partitions").forEach(one -> made.add(place(one)));
        return made;
    }

    private static TopicPartition place(JsonNode one) {
        return new TopicPartition(one.get(0).asText(), one.get(1).asInt());
    }

    /** What the task asked since the last answer. Threads: any. */
    private static final class Asks {
        private final Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
        private final List<Object> pauses = new ArrayList<>();
        private Long timeout;
        private boolean commit;

        synchronized Map<String, Object> take() {
            if (offsets.isEmpty() && pauses.isEmpty() && timeout == null && !commit) return null;
            List<Object> rewinds = new ArrayList<>();
            offsets.forEach((place, offset) -> rewinds.add(new Object[] {place.topic(), place.partition(), offset}));
            Map<String, Object> made = Json.map(
                    "offsets", rewinds, "pauses", List.copyOf(pauses), "timeout", timeout, "commit", commit);
            offsets.clear();
            pauses.clear();
            timeout = null;
            commit = false;
            return made;
        }
    }

    private final class Context extends TaskContext implements SinkTaskContext {
        private final boolean reports;

        Context(JsonNode start) {
            super(session, upcall, start);
            reports = start.path("reports").asBoolean();
        }

        @Override
        public void offset(Map<TopicPartition, Long> wanted) {
            synchronized (asks) {
                asks.offsets.putAll(wanted);
            }
        }

        @Override
        public void offset(TopicPartition place, long offset) {
            offset(Map.of(place, offset));
        }

        @Override
        public void timeout(long timeoutMs) {
            synchronized (asks) {
                asks.timeout = timeoutMs;
            }
        }

        @Override
        public Set<TopicPartition> assignment() {
            return Set.copyOf(assigned);
        }

        @Override
        public void pause(TopicPartition... places) {
            change("pause", places);
        }

        @Override
        public void resume(TopicPartition... places) {
            change("resume", places);
        }

        @Override
        public void requestCommit() {
            synchronized (asks) {
                asks.commit = true;
            }
        }

        @Override
        public ErrantRecordReporter errantRecordReporter() {
            return reports ? this::report : null;
        }

        private void change(String what, TopicPartition... places) {
            synchronized (asks) {
                for (TopicPartition one : places) asks.pauses.add(new Object[] {what, one.topic(), one.partition()});
            }
        }

        /** Python has the record's bytes by its original place. It writes the letter before it commits past it. */
        private Future<Void> report(SinkRecord record, Throwable error) {
            Map<String, Object> told = Json.map(
                    "topic", record.originalTopic(),
                    "partition", record.originalKafkaPartition(),
                    "offset", record.originalKafkaOffset(),
                    "error", Errors.describe(error));
            if (record instanceof InternalSinkRecord known) {
                ConsumerRecord<byte[], byte[]> raw = known.context().original();
                told.put("key", base64(raw.key()));
                told.put("value", base64(raw.value()));
                told.put("timestamp", raw.timestamp() < 0 ? null : raw.timestamp());
                told.put("time", raw.timestampType().name);
                told.put("headers", SourceCalls.headerRow(0, (RecordHeaders) raw.headers()));
            }
            upcall.ask("report", told);
            return CompletableFuture.completedFuture(null);
        }
    }
}
