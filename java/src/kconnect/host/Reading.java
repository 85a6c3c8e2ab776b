package kconnect.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;

/** Records out of the columns that Python wrote. */
final class Reading {
    private static final long NO_TIME = Long.MIN_VALUE;

    private Reading() {}

    static List<SinkRecord> sinkRecords(In in, JsonNode run) {
        int count = run.get("rows").asInt();
        Schema keySchema = Schemas.read(Json.text(run.get("key").get("schema")));
        Schema valueSchema = Schemas.read(Json.text(run.get("value").get("schema")));
        long[] times = in.longs(count);
        long[] offsets = in.longs(count);
        Object[] keys = Columns.read(in, run.get("key"), count);
        Object[] values = Columns.read(in, run.get("value"), count);
        TimestampType kind = TimestampType.forName(run.get("time").asText());
        List<SinkRecord> made = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            made.add(new SinkRecord(run.get("topic").asText(), run.get("partition").asInt(), keySchema, keys[i], valueSchema,
                    values[i], offsets[i], time(times[i]), kind, null, run.get("original_topic").asText(),
                    run.get("original_partition").asInt(), offsets[i]));
        }
        for (JsonNode header : run.path("headers")) Headers.read(header, made.get(header.get(0).asInt()).headers());
        return made;
    }

    /** Source records; their partition holds their row, so that Python knows them again. */
    static List<SourceRecord> sourceRecords(In in, JsonNode run) {
        int count = run.get("rows").asInt();
        Schema keySchema = Schemas.read(Json.text(run.get("key").get("schema")));
        Schema valueSchema = Schemas.read(Json.text(run.get("value").get("schema")));
        long[] times = in.longs(count);
        Object[] keys = Columns.read(in, run.get("key"), count);
        Object[] values = Columns.read(in, run.get("value"), count);
        Integer partition = run.hasNonNull("partition") ? run.get("partition").asInt() : null;
        List<SourceRecord> made = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            made.add(new SourceRecord(Map.of(), Map.of(), run.get("topic").asText(), partition, keySchema, keys[i],
                    valueSchema, values[i], time(times[i])));
        }
        for (JsonNode header : run.path("headers")) Headers.read(header, made.get(header.get(0).asInt()).headers());
        return made;
    }

    private static Long time(long given) {
        return given == NO_TIME ? null : given;
    }
}
