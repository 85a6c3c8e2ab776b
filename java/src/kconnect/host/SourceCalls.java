package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.WorkerSourceTaskContext;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/**
 * One source task. What it polls goes to Python as bytes when its whole chain is Java's, else as columns.
 * Source: o.a.k.connect.runtime.AbstractWorkerSourceTask.
 */
final class SourceCalls implements Session.Served {
    private static final long NO_TIME = Long.MIN_VALUE;
    private static final long NOT_THERE = -1;
    private static final String LOGGER = SourceCalls.class.getName();
    private final Session session;
    private final SourceTask task;
    private final Upcall upcall;
    private final AtomicBoolean isStarted = new AtomicBoolean(); // and not stopped
    private volatile boolean isPolling;
    private final Offsets offsets;
    private final Transactions transactions = new Transactions();
    private final boolean wantsEach;
    private final Out out = new Out();
    private final Map<Long, SourceRecord> unacknowledged = new HashMap<>(); // by number; only of tasks that want each
    private Chain<SourceRecord> chain;
    private List<SourceRecord> polled = List.of();
    private boolean hasThrown; // the last poll: it is called again where that may be retried
    private Map<Integer, Boolean> endings = Map.of(); // rows after which a transaction ends: whether it is committed
    private long first; // the number of the first record of what was polled last

    SourceCalls(Session session, SourceTask task) {
        this.session = session;
        this.task = task;
        this.upcall = new Upcall(session);
        this.offsets = new Offsets(upcall);
        this.wantsEach = overrides("commitRecord", SourceRecord.class, RecordMetadata.class);
    }

    @Override
    public Object call(String method, JsonNode a) throws Exception {
        return switch (method) {
            case "wants" -> Json.map("each", wantsEach);
            case "start" -> start(a);
            case "poll" -> poll();
            case "go_on" -> encode(a.get("from").asInt());
            case "record" -> {
                int row = a.get("row").asInt();
                yield new Runs(polled.subList(row, row + 1), offsets, Map.of()).block(out, Json.map());
            }
            case "commit" -> in(task::commit);
            case "commit_records" -> in(() -> {
                a.get("forgotten").forEach(number -> unacknowledged.remove(number.asLong()));
                commitRecords(a.get("records"));
            });
            case "stop" -> stop();
            default -> throw new ConnectException("Unknown call of a source task: " + method);
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
        WorkerSourceTaskContext context = new WorkerSourceTaskContext(session.task(), new Context(a));
        isStarted.set(true);
        in(() -> {
            task.initialize(context);
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

    /** A poll of a task that was given up is stopped by another thread: it may be what wakes it. */
    @Override
    public void leave(boolean inCall) throws Exception {
        if ((!inCall || isPolling) && isStarted.getAndSet(false)) stop();
    }

    private ByteBuffer poll() throws Exception {
        first += polled.size();
        List<SourceRecord> found;
        if (hasThrown) { // what it asked for before it threw is before the next records. Source: AbstractWorkerSourceTask.poll
            hasThrown = false;
            polled = List.of();
            ByteBuffer ending = nothing();
            if (ending.hasRemaining()) return ending;
        }
        try (Swap swap = new Swap(task)) {
            isPolling = true;
            hasThrown = true;
            found = task.poll();
            hasThrown = false;
        } finally {
            isPolling = false;
        }
        polled = found == null ? List.of() : withoutNulls(found);
        if (polled.isEmpty()) return nothing();
        endings = transactions.take(polled);
        if (wantsEach) for (int i = 0; i < polled.size(); i++) unacknowledged.put(first + i, polled.get(i));
        return encode(0);
    }

    /** A poll without records ends the transaction too. Source: AbstractWorkerSourceTask.execute (Kafka 4.3). */
    private ByteBuffer nothing() {
        Boolean ending = transactions.takeBatch();
        if (ending == null) return ByteBuffer.allocate(0);
        out.restart().json(Json.map("polled", 0, "commits", ending));
        return out.done();
    }

    /** Java's worker drops a null among the records, too. Source: AbstractWorkerSourceTask.sendRecords. */
    private static List<SourceRecord> withoutNulls(List<SourceRecord> found) {
        for (SourceRecord record : found) {
            if (record == null) return found.stream().filter(Objects::nonNull).toList();
        }
        return found;
    }

    private ByteBuffer encode(int from) throws Exception {
        return chain.hasConverters() ? bytes(from) : new Runs(polled, offsets, endings).block(out, head(from, polled.size()));
    }

    private Map<String, Object> head(int from, int to) {
        return Json.map("polled", polled.size(), "first", first, "from", from, "to", to);
    }

    /** The records from an index on, as bytes, up to one that fails or that ends a transaction: the head says so. */
    private ByteBuffer bytes(int from) {
        int size = polled.size() - from;
        int count = 0;
        int at = from;
        byte[][] keys = new byte[size][];
        byte[][] values = new byte[size][];
        int[] places = new int[size];
        int[] rows = new int[size];
        long[] times = new long[size];
        List<Object> headers = new ArrayList<>();
        Map<TopicAndPartition, Integer> topics = new LinkedHashMap<>();
        Map<String, Object> failure = null;
        TopicAndPartition last = null;
        int place = 0;
        Boolean ending = endings.remove(from - 1); // of a record that failed and is skipped
        while (at < polled.size() && ending == null) {
            try {
                SourceRecord record = chain.apply(polled.get(at));
                if (record == null) {
                    ending = endings.remove(at++);
                    continue;
                }
                RecordHeaders made = chain.headers(record);
                keys[count] = chain.keyBytes(record, made);
                values[count] = chain.valueBytes(record, made);
                if (last == null || !last.is(record)) {
                    last = new TopicAndPartition(record.topic(), record.kafkaPartition());
                    place = topics.computeIfAbsent(last, unknown -> topics.size());
                }
                places[count] = place;
                times[count] = record.timestamp() == null ? NO_TIME : record.timestamp();
                rows[count] = at;
                if (made.toArray().length > 0) headers.add(RowHeaders.written(count, made));
                count++;
                ending = endings.remove(at++);
            } catch (StageFailure e) {
                failure = e.describe(at);
                break;
            }
        }
        Map<String, Object> meta = head(from, at);
        List<Object> named = new ArrayList<>();
        topics.keySet().forEach(one -> named.add(new Object[] {one.topic, one.partition}));
        meta.put("topics", named);
        if (ending != null) meta.put("commits", ending);
        meta.put("positions", positions(Math.max(0, from - 1), at)); // with the record before, which may be skipped
        if (!headers.isEmpty()) meta.put("headers", headers);
        if (failure != null) meta.put("failure", failure);
        out.restart().json(meta);
        out.integer(count);
        out.integers(places, count);
        out.integers(rows, count);
        out.longs(times, count);
        out.binary(keys, count);
        out.binary(values, count);
        return out.done();
    }

    /** The last offset of each source partition, in the order in which partitions come first. */
    private List<Object> positions(int from, int to) {
        Map<Map<String, ?>, Map<String, ?>> found = new LinkedHashMap<>();
        for (SourceRecord record : polled.subList(from, to)) {
            if (record.sourcePartition() != null) found.put(record.sourcePartition(), record.sourceOffset());
        }
        List<Object> made = new ArrayList<>();
        found.forEach((partition, offset) -> made.add(new Object[] {offsets.json(partition), offsets.json(offset)}));
        return made;
    }

    /** Records that Kafka has, by number: [number, topic, partition, offset, time, size of key and value], or [number] for a dropped one. */
    private void commitRecords(JsonNode acknowledged) {
        for (JsonNode one : acknowledged) {
            SourceRecord record = unacknowledged.remove(one.get(0).asLong());
            if (record == null) continue;
            RecordMetadata metadata = null;
            if (one.size() > 1) {
                TopicPartition place = new TopicPartition(one.get(1).asText(), one.get(2).asInt());
                long time = one.get(4).isNull() ? NOT_THERE : one.get(4).asLong();
                metadata = new RecordMetadata(place, one.get(3).asLong(), 0, time, one.get(5).asInt(), one.get(6).asInt());
            }
            commitRecord(record, metadata);
        }
    }

    /** What the task throws is logged, and the next record has its turn. Source: AbstractWorkerSourceTask. */
    private void commitRecord(SourceRecord record, RecordMetadata metadata) {
        try {
            task.commitRecord(record, metadata);
        } catch (Throwable e) {
            String place = record.sourcePartition() + " at " + record.sourceOffset();
            Log.write(LOGGER, Log.ERROR, "Exception thrown while calling task.commitRecord() for " + place, e);
        }
    }

    private boolean overrides(String method, Class<?>... arguments) {
        try {
            return task.getClass().getMethod(method, arguments).getDeclaringClass() != SourceTask.class;
        } catch (NoSuchMethodException e) {
            return false;
        }
    }

    private record TopicAndPartition(String topic, Integer partition) {
        boolean is(SourceRecord record) {
            return Objects.equals(record.topic(), topic) && Objects.equals(record.kafkaPartition(), partition);
        }
    }

    /** Ends of transactions that the task asked for. Source: WorkerTransactionContext. */
    private static final class Transactions implements TransactionContext {
        private static final String NO_RECORD = "Source record used to define transaction boundaries may not be null";
        private final Map<SourceRecord, Boolean> records = new HashMap<>(); // an equal one will do, as in Java's worker
        private Boolean batch;
        private String contradiction; // fails the poll, so that the task cannot swallow it

        @Override
        public synchronized void commitTransaction() {
            ask(true);
        }

        @Override
        public synchronized void commitTransaction(SourceRecord record) {
            ask(record, true);
        }

        @Override
        public synchronized void abortTransaction() {
            ask(false);
        }

        @Override
        public synchronized void abortTransaction(SourceRecord record) {
            ask(record, false);
        }

        private void ask(boolean commits) {
            if (batch != null && batch != commits) {
                contradiction = "Connector requested both commit and abort of same transaction";
            }
            batch = commits;
        }

        private void ask(SourceRecord record, boolean commits) {
            Boolean before = records.put(Objects.requireNonNull(record, NO_RECORD), commits);
            if (before != null && before != commits) {
                contradiction = "Connector requested both commit and abort of same record against topic/partition "
                        + record.topic() + "/" + record.kafkaPartition();
            }
        }

        /** Rows of what was polled after which a transaction ends, and whether it is committed. */
        synchronized Map<Integer, Boolean> take(List<SourceRecord> polled) {
            Boolean ending = takeBatch();
            Map<Integer, Boolean> made = new HashMap<>();
            for (int i = 0; i < polled.size() && !records.isEmpty(); i++) {
                Boolean commits = records.remove(polled.get(i));
                if (commits != null) made.put(i, commits);
            }
            if (ending != null) made.putIfAbsent(polled.size() - 1, ending);
            return made;
        }

        /** Whether the whole is committed; null if the task asked for nothing. Given once. */
        synchronized Boolean takeBatch() {
            if (contradiction != null) throw new ConnectException(contradiction);
            Boolean ending = batch;
            batch = null;
            return ending;
        }
    }

    private final class Context extends TaskContext implements SourceTaskContext {
        private final boolean hasTransactions;

        Context(JsonNode start) {
            super(session, upcall, start);
            hasTransactions = start.path("transactions").asBoolean();
        }

        @Override
        public OffsetStorageReader offsetStorageReader() {
            return offsets;
        }

        @Override
        public TransactionContext transactionContext() {
            return hasTransactions ? transactions : null;
        }
    }
}
