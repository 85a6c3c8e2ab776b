package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;

/** Records as columns: runs of neighbours that share topic, partition and schemas. */
final class Runs {
    private static final long NO_TIME = Long.MIN_VALUE;
    private final List<? extends ConnectRecord<?>> records;
    private final Offsets offsets;
    private final Map<Integer, Boolean> endings; // rows after which a transaction ends; each ends its run

    Runs(List<? extends ConnectRecord<?>> records, Offsets offsets, Map<Integer, Boolean> endings) {
        this.records = records;
        this.offsets = offsets;
        this.endings = endings;
    }

    /** A head with `runs`, then the columns of each: times, keys, values. */
    ByteBuffer block(Out out, Map<String, Object> head) {
        List<List<? extends ConnectRecord<?>>> runs = split();
        List<Object> reported = new ArrayList<>();
        List<Columns> columns = new ArrayList<>();
        int row = 0;
        for (List<? extends ConnectRecord<?>> run : runs) {
            row += run.size();
            ConnectRecord<?> one = run.get(0);
            Columns keys = Columns.of(one.keySchema(), values(run, true));
            Columns values = Columns.of(one.valueSchema(), values(run, false));
            columns.add(keys);
            columns.add(values);
            Map<String, Object> made = Json.map("topic", one.topic(), "partition", one.kafkaPartition(),
                    "rows", run.size(), "key", keys.head(), "value", values.head());
            if (one instanceof SourceRecord) addPositions(made, run);
            addHeaders(made, run);
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
        SourceRecord one = (SourceRecord) run.get(0);
        made.put("source_partition", offsets.json(one.sourcePartition()));
        List<JsonNode> found = new ArrayList<>();
        for (ConnectRecord<?> record : run) found.add(offsets.json(((SourceRecord) record).sourceOffset()));
        made.put("source_offsets", found);
    }

    private static void addHeaders(Map<String, Object> made, List<? extends ConnectRecord<?>> run) {
        List<Object> rows = new ArrayList<>();
        for (int i = 0; i < run.size(); i++) {
            for (Header header : run.get(i).headers()) rows.add(Headers.row(i, header));
        }
        if (!rows.isEmpty()) made.put("headers", rows);
    }

    private List<List<? extends ConnectRecord<?>>> split() {
        List<List<? extends ConnectRecord<?>>> made = new ArrayList<>();
        int start = 0;
        for (int i = 1; i <= records.size(); i++) {
            if (i == records.size() || endings.containsKey(i - 1) || !alike(records.get(start), records.get(i))) {
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
