package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;

/** Records as columns: runs of neighbours that share topic, partition and schemas. */
final class Runs {
    static final int NO_PARTITION = Integer.MIN_VALUE; // of a source record that is written as a sink's
    private static final long NO_TIME = Long.MIN_VALUE;
    private final List<? extends ConnectRecord<?>> records;
    private final Offsets offsets;
    private final Map<Integer, Boolean> endings; // rows after which a transaction ends; each ends its run

    Runs(List<? extends ConnectRecord<?>> records, Offsets offsets, Map<Integer, Boolean> endings) {
        this.records = records;
        this.offsets = offsets;
        this.endings = endings;
    }

    /**
     * A head with `runs`, then the columns of each: times, keys, values. A record with a value that is not of its schema is
     * a run of its own, whose head says what is wrong. They are looked for when one has been met: it costs nothing before.
     */
    ByteBuffer block(Out out, Map<String, Object> head) {
        try {
            return written(out, head);
        } catch (RuntimeException e) {
            Map<Integer, RuntimeException> misfits = misfits();
            if (misfits.isEmpty()) throw e;
            return written(out, head, misfits);
        }
    }

    /** Rows of records that cannot cross, and why. */
    Map<Integer, RuntimeException> misfits() {
        Map<Integer, RuntimeException> found = new TreeMap<>();
        Out scratch = new Out();
        for (int i = 0; i < records.size(); i++) {
            try {
                new Runs(records.subList(i, i + 1), offsets, Map.of()).written(scratch, Json.map());
            } catch (RuntimeException e) {
                found.put(i, Misfit.of(records.get(i), e));
            }
        }
        return found;
    }

    /** As `block`, if all records fit. Errors: what a record throws that does not. */
    ByteBuffer written(Out out, Map<String, Object> head) {
        return written(out, head, Map.of());
    }

    private ByteBuffer written(Out out, Map<String, Object> head, Map<Integer, RuntimeException> misfits) {
        try {
            return written(out, head, misfits, false);
        } catch (Columns.HalfSurrogate e) {
            return written(out, head, misfits, true);
        }
    }

    private ByteBuffer written(Out out, Map<String, Object> head, Map<Integer, RuntimeException> misfits, boolean asTexts) {
        List<List<? extends ConnectRecord<?>>> runs = split(misfits);
        List<Object> reported = new ArrayList<>();
        List<Columns> columns = new ArrayList<>();
        int row = 0;
        for (List<? extends ConnectRecord<?>> run : runs) {
            row += run.size();
            ConnectRecord<?> one = run.get(0);
            RuntimeException misfit = misfits.get(row - 1);
            boolean fits = misfit == null;
            Columns keys = fits ? Columns.of(one.keySchema(), values(run, true), asTexts) : Columns.shown(one.keySchema(), one.key());
            Columns values = fits ? Columns.of(one.valueSchema(), values(run, false), asTexts) : Columns.shown(one.valueSchema(), one.value());
            columns.add(keys);
            columns.add(values);
            Map<String, Object> made = Json.map("topic", one.topic(), "partition", one.kafkaPartition(),
                    "rows", run.size(), "key", keys.head(), "value", values.head());
            if (one instanceof SourceRecord) addPositions(made, run);
            addHeaders(made, run, fits);
            if (!fits) made.put("misfit", Errors.describe(misfit));
            if (endings.containsKey(row - 1)) made.put("commits", endings.get(row - 1));
            reported.add(made);
        }
        head.put("runs", reported);
        out.restart().json(head);
        for (int i = 0; i < runs.size(); i++) {
            out.longs(times(runs.get(i)), runs.get(i).size());
            columns.get(2 * i).write(out);
            columns.get(2 * i + 1).write(out);
        }
        return out.done();
    }

    private void addPositions(Map<String, Object> made, List<? extends ConnectRecord<?>> run) {
        JsonNode partition = offsets.json(((SourceRecord) run.get(0)).sourcePartition());
        List<JsonNode> found = new ArrayList<>();
        boolean areStorable = partition == null || Offsets.isStorable(partition);
        for (ConnectRecord<?> record : run) {
            JsonNode offset = offsets.json(((SourceRecord) record).sourceOffset());
            found.add(offset);
            areStorable &= offset == null || Offsets.isStorable(offset);
        }
        made.put("source_partition", partition);
        made.put("source_offsets", found);
        if (!areStorable) made.put("unstorable", true);
    }

    private static void addHeaders(Map<String, Object> made, List<? extends ConnectRecord<?>> run, boolean fits) {
        List<Object> rows = new ArrayList<>();
        for (int i = 0; i < run.size(); i++) {
            for (Header header : run.get(i).headers()) rows.add(fits ? Headers.row(i, header) : Headers.shown(i, header));
        }
        if (!rows.isEmpty()) made.put("headers", rows);
    }

    private List<List<? extends ConnectRecord<?>>> split(Map<Integer, RuntimeException> misfits) {
        List<List<? extends ConnectRecord<?>>> made = new ArrayList<>();
        int start = 0;
        for (int i = 1; i <= records.size(); i++) {
            if (i == records.size() || endings.containsKey(i - 1) || misfits.containsKey(i - 1) || misfits.containsKey(i)
                    || !alike(records.get(start), records.get(i))) {
                made.add(records.subList(start, i));
                start = i;
            }
        }
        return made;
    }

    private static boolean alike(ConnectRecord<?> a, ConnectRecord<?> b) {
        if (!Objects.equals(a.topic(), b.topic()) || !Objects.equals(a.kafkaPartition(), b.kafkaPartition())) return false;
        if (!same(a.keySchema(), b.keySchema()) || !same(a.valueSchema(), b.valueSchema())) return false;
        return !(a instanceof SourceRecord x && b instanceof SourceRecord y)
                || Objects.equals(x.sourcePartition(), y.sourcePartition());
    }

    private static boolean same(Schema a, Schema b) {
        return a == b || (a != null && a.equals(b));
    }

    private static Object[] values(List<? extends ConnectRecord<?>> run, boolean keys) {
        Object[] made = new Object[run.size()];
        for (int i = 0; i < made.length; i++) made[i] = keys ? run.get(i).key() : run.get(i).value();
        return made;
    }

    private static long[] times(List<? extends ConnectRecord<?>> run) {
        long[] made = new long[run.size()];
        for (int i = 0; i < made.length; i++) made[i] = run.get(i).timestamp() == null ? NO_TIME : run.get(i).timestamp();
        return made;
    }
}
