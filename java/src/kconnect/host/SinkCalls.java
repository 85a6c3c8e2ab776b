package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.IllegalWorkerStateException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.runtime.InternalSinkRecord;
import org.apache.kafka.connect.runtime.WorkerSinkTaskContext;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.sink.ErrantRecordReporter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.sink.SinkTaskContext;

/**
 * One sink task. Blocks bring records of numbered batches; `put` gives the task one of them, and again after a
 * RetriableException. What the task asks of its context goes back with each answer; while it has asked for something, or
 * has not put what came before, a batch is put only when Python says so again.
 * Source: o.a.k.connect.runtime.WorkerSinkTask, WorkerSinkTaskContext.
 */
final class SinkCalls implements Session.Served {
    private static final long NO_TIME = Long.MIN_VALUE;
    private static final String LOGGER = SinkCalls.class.getName();
    private final Session session;
    private final SinkTask task;
    private final Upcall upcall;
    private final AtomicBoolean isStarted = new AtomicBoolean(); // and not stopped
    private final Asks asks = new Asks();
    private final SinkPlaces places = new SinkPlaces();
    private final SinkBatches batches = new SinkBatches();
    private final String plugin;
    private Chain<SinkRecord> chain;

    /** `plugin`: its class and folder, for messages. */
    SinkCalls(Session session, SinkTask task, String plugin) {
        this.session = session;
        this.task = task;
        this.plugin = plugin;
        this.upcall = new Upcall(session);
    }

    @Override
    public Object call(String method, JsonNode a) throws Exception {
        Object result;
        try {
            result = answer(method, a);
        } catch (Exception e) {
            // With what the task asked before it threw: the time after which to put again
            return Json.map("error", Errors.describe(e), "asks", asks.take());
        }
        return Json.map("result", result, "asks", asks.take());
    }

    private Object answer(String method, JsonNode a) throws Exception {
        return switch (method) {
            case "start" -> start(a);
            case "open" -> in(() -> {
                places.open(places(a));
                task.open(places(a));
            });
            case "close" -> in(() -> {
                batches.drop(places(a));
                task.close(places(a));
                places.close(places(a));
            });
            case "drop" -> batches.drop(batches.get(a.get("batch").asLong()), places(a));
            case "go_on" -> {
                SinkBatches.Batch batch = batches.get(a.get("batch").asLong());
                yield convert(batch, a.get("part").asInt(), a.get("from").asInt());
            }
            case "put" -> put(batches.get(a.get("batch").asLong()), a.path("if_next").asBoolean(), a.path("seen").asInt());
            case "pre_commit" -> preCommit(a);
            case "stop" -> {
                places.open(places(a)); // Source: WorkerSinkTask.close, whose consumer has them until after stop()
                yield stop();
            }
            default -> throw new ConnectException("Unknown call of a sink task: " + method);
        };
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
        chain = new Chain<>(session, a);
        Map<String, String> config = Json.texts(a.get("config"));
        Context context = new Context(a);
        Consumer<byte[], byte[]> consumer = HostConsumer.of(upcall, context, places, plugin);
        isStarted.set(true);
        in(() -> {
            task.initialize(new WorkerSinkTaskContext(consumer, session.task(), context));
            task.start(config);
        });
        return null;
    }

    private Object stop() throws Exception {
        isStarted.set(false);
        return in(() -> {
            task.stop();
            if (chain != null) chain.close();
            session.meter().close();
        });
    }

    @Override
    public void leave(boolean inCall) throws Exception {
        if (!inCall && isStarted.getAndSet(false)) stop();
    }

    /** Records of one partition: bytes when the chain is Java's, else columns. */
    @Override
    public Object block(ByteBuffer body) throws Exception {
        In in = new In(body);
        JsonNode head = in.json();
        SinkBatches.Batch batch = batches.get(head.get("batch").asLong());
        SinkBatches.Part part = new SinkBatches.Part();
        batch.parts.add(part);
        if (head.has("runs")) {
            for (JsonNode run : head.get("runs")) {
                List<SinkRecord> made = Reading.sinkRecords(in, run);
                part.records.addAll(run.has("raw") ? withRaw(made, fetched(in, run.get("raw"))) : made);
                part.ends(made.get(made.size() - 1));
            }
            return Json.map("result", Json.map("records", batch.size()), "asks", asks.take());
        }
        part.unread = fetched(in, head);
        part.ends(part.unread.get(part.unread.size() - 1));
        return Json.map("result", convert(batch, batch.parts.size() - 1, 0), "asks", asks.take());
    }

    private static List<SinkRecord> withRaw(List<SinkRecord> records, List<ConsumerRecord<byte[], byte[]>> raw) {
        List<SinkRecord> made = new ArrayList<>(records.size());
        for (int i = 0; i < records.size(); i++) {
            made.add(new InternalSinkRecord(new ProcessingContext<>(raw.get(i)), records.get(i)));
        }
        return made;
    }

    private static List<ConsumerRecord<byte[], byte[]>> fetched(In in, JsonNode head) {
        int count = head.get("rows").asInt();
        String topic = head.get("topic").asText();
        int partition = head.get("partition").asInt();
        TimestampType kind = TimestampType.forName(head.get("time").asText());
        long[] offsets = in.longs(count);
        long[] times = in.longs(count);
        byte[][] keys = in.binary(count);
        byte[][] values = in.binary(count);
        RowHeaders headers = new RowHeaders(head);
        List<ConsumerRecord<byte[], byte[]>> made = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            made.add(new ConsumerRecord<>(topic, partition, offsets[i], times[i] == NO_TIME ? -1 : times[i], kind, -1, -1,
                    keys[i], values[i], headers.of(i), java.util.Optional.empty()));
        }
        return made;
    }

    /** Gives the task a batch; `ifNext`: unless something must happen before. `seen`: how many asks Python knew of. */
    private Object put(SinkBatches.Batch batch, boolean ifNext, int seen) {
        if (ifNext && (!batches.isNext(batch) || asks.hasMoreThan(seen))) return Json.map("put", false, "records", batch.size());
        long began = System.nanoTime();
        int count = batch.size();
        for (SinkBatches.Part part : batch.parts) if (places.has(part.place)) places.moved(part.place, part.next);
        try (Swap swap = new Swap(task)) {
            task.put(batch.records());
        }
        batches.put(batch);
        return Json.map("put", true, "records", count, "ms", (System.nanoTime() - began) / 1e6);
    }

    /** Converts a part from a row on, up to a record that fails. */
    private Object convert(SinkBatches.Batch batch, int number, int from) {
        SinkBatches.Part part = batch.parts.get(number);
        int size = part.unread.size();
        for (part.done = from; part.done < size; part.done++) {
            ConsumerRecord<byte[], byte[]> raw = part.unread.get(part.done);
            try {
                SinkRecord record = read(raw);
                if (record != null) part.records.add(record);
            } catch (StageFailure e) {
                Map<String, Object> failure = e.describe(part.done);
                failure.put("raw", described(raw));
                return Json.map("records", batch.size(), "part", number, "failure", failure);
            }
        }
        part.unread = List.of();
        part.done = 0;
        return Json.map("records", batch.size());
    }

    /** A record as it was read, for its report. */
    private static Map<String, Object> described(ConsumerRecord<byte[], byte[]> raw) {
        return Json.map(
                "topic", raw.topic(), "partition", raw.partition(), "offset", raw.offset(),
                "key", base64(raw.key()), "value", base64(raw.value()),
                "timestamp", raw.timestamp() < 0 ? null : raw.timestamp(), "time", raw.timestampType().name,
                "headers", RowHeaders.written(0, (RecordHeaders) raw.headers()));
    }

    /**
     * A record that the task made or changed, as its converters write it; as columns if they are Python's.
     * Source: o.a.k.connect.runtime.errors.WorkerErrantRecordReporter.
     */
    private Map<String, Object> described(SinkRecord made) {
        if (!chain.hasConverters()) {
            byte[] columns = bytes(new Runs(List.of(made), null, Map.of()).block(new Out(), Json.map()));
            return Json.map("block", base64(columns), "offset", made.kafkaOffset(), "time", made.timestampType().name,
                    "original", new Object[] {made.originalTopic(), made.originalKafkaPartition(), made.originalKafkaOffset()});
        }
        try {
            RecordHeaders headers = chain.headers(made);
            byte[] key = chain.keyBytes(made, headers);
            byte[] value = chain.valueBytes(made, headers);
            return described(new ConsumerRecord<>(made.topic(), made.kafkaPartition(), made.kafkaOffset(),
                    made.timestamp() == null ? -1 : made.timestamp(), made.timestampType(), -1, -1, key, value, headers,
                    java.util.Optional.empty()));
        } catch (StageFailure e) {
            throw SinkCalls.<RuntimeException>asIs(e.getCause()); // the converter's, which the task sees
        }
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E asIs(Throwable thrown) throws E {
        throw (E) thrown;
    }

    private static byte[] bytes(ByteBuffer given) {
        byte[] made = new byte[given.remaining()];
        given.get(made);
        return made;
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

    private static String base64(byte[] value) {
        return value == null ? null : Base64.getEncoder().encodeToString(value);
    }

    private Object preCommit(JsonNode a) {
        Map<TopicPartition, OffsetAndMetadata> given = new HashMap<>();
        for (JsonNode one : a.get("offsets")) given.put(SinkPlaces.place(one), new OffsetAndMetadata(one.get(2).asLong()));
        List<Object> made = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> found;
        try (Swap swap = new Swap(task)) {
            found = task.preCommit(given);
        }
        if (found == null) return made;
        found.forEach((place, offset) -> {
            if (place == null) { // Source: WorkerSinkTask.commitOffsets, to which it is one that is not assigned
                Log.write(LOGGER, Log.WARN, "Ignoring invalid task provided offset null/" + offset + " -- partition not assigned", null);
                return;
            }
            if (offset == null) throw new ConnectException("preCommit() gives null as the offset of " + place);
            made.add(new Object[] {place.topic(), place.partition(), offset.offset(), offset.metadata()});
        });
        return made;
    }

    private static List<TopicPartition> places(JsonNode a) {
        List<TopicPartition> made = new ArrayList<>();
        a.get("partitions").forEach(one -> made.add(SinkPlaces.place(one)));
        return made;
    }

    /** What the task asked since the last answer. Threads: any. */
    private static final class Asks {
        private final Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
        private final List<Object> pauses = new ArrayList<>();
        private Long timeout;
        private boolean commit;
        private int reported;

        private boolean hasAny() {
            return !offsets.isEmpty() || !pauses.isEmpty() || timeout != null || commit;
        }

        synchronized boolean hasMoreThan(int seen) {
            return reported > seen || hasAny();
        }

        synchronized Map<String, Object> take() {
            if (!hasAny()) return null;
            reported++;
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
            wanted.forEach((place, offset) -> {
                if (offset == null) { // Source: WorkerSinkTask.rewind
                    Log.write(LOGGER, Log.WARN, "Cannot rewind " + place + " to null offset", null);
                    return;
                }
                synchronized (asks) {
                    asks.offsets.put(place, offset);
                }
                places.moved(place, offset);
            });
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
            return places.assigned();
        }

        @Override
        public void pause(TopicPartition... places) {
            change(true, places);
        }

        @Override
        public void resume(TopicPartition... places) {
            change(false, places);
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

        private void change(boolean isPause, TopicPartition... changed) {
            String what = isPause ? "pause" : "resume";
            for (TopicPartition one : changed) if (!places.has(one)) throw notAssigned(what, one);
            synchronized (asks) {
                for (TopicPartition one : changed) asks.pauses.add(new Object[] {what, one.topic(), one.partition()});
            }
            places.change(isPause, changed);
        }

        /** Source: WorkerSinkTaskContext, with the message of its consumer. */
        private IllegalWorkerStateException notAssigned(String what, TopicPartition place) {
            return new IllegalWorkerStateException(
                    "SinkTasks may not " + what + " partitions that are not currently assigned to them.",
                    new IllegalStateException("No current assignment for partition " + place));
        }

        /** Tells Python, which writes the letter before it commits past the record. */
        private Future<Void> report(SinkRecord record, Throwable error) {
            Map<String, Object> reported = record instanceof InternalSinkRecord known
                    ? described(known.context().original()) : described(record);
            reported.put("error", Errors.describe(error != null ? error : new ConnectException("The task gave no reason")));
            upcall.ask("report", reported);
            return CompletableFuture.completedFuture(null);
        }
    }
}
