package kit;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.slf4j.LoggerFactory;

/**
 * A source and a sink that do what the setting `does` says as soon as there is a file `when`, in the method `in`: hang,
 * or use up the memory of the heap or of direct buffers, or exit. They take no offset below zero.
 */
public final class Faulty {
    private Faulty() {}

    private static ConfigDef settings() {
        return new ConfigDef()
                .define("does", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "What goes wrong.")
                .define("in", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "In which method.")
                .define("when", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "The file that makes it go wrong.");
    }

    private static void in(String method, Map<String, String> config) {
        if (!method.equals(config.get("in")) || !Files.exists(Path.of(config.getOrDefault("when", "none")))) return;
        LoggerFactory.getLogger(Faulty.class).info("now {} fails", method);
        List<Object> kept = new ArrayList<>();
        switch (config.getOrDefault("does", "")) {
            case "hang": hang();
            case "heap": while (true) kept.add(new long[1_000_000]);
            case "direct": while (true) kept.add(ByteBuffer.allocateDirect(1 << 24));
            case "exit": System.exit(3);
            default: throw new ConnectException("It does not do " + config.get("does"));
        }
    }

    private static void hang() {
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException e) {
                continue; // as plugins that do not listen
            }
        }
    }

    private static void altered(Object offset) {
        if (offset instanceof Number number && number.longValue() < 0) {
            throw new ConnectException("Numbers begin at 0, not at " + offset);
        }
    }

    /** Numbers, one a poll. */
    public static class Source extends SourceConnector {
        private Map<String, String> config;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> given) {
            in("begin", given);
            config = given;
            long raised = Long.parseLong(given.getOrDefault("raises", "0"));
            for (long i = 0; i < raised; i++) context.raiseError(new ConnectException("raised " + i));
        }

        @Override
        public Class<? extends Task> taskClass() {
            return Numbers.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(config);
        }

        @Override
        public boolean alterOffsets(Map<String, String> given, Map<Map<String, ?>, Map<String, ?>> offsets) {
            offsets.forEach((partition, offset) -> altered(offset == null ? null : offset.get("next")));
            return true;
        }

        @Override
        public void stop() {}

        @Override
        public ConfigDef config() {
            return settings().define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where they go.");
        }
    }

    public static class Numbers extends SourceTask {
        private Map<String, String> config;
        private long next;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> given) {
            config = given;
            Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("of", "numbers"));
            next = offset == null ? 0 : (Long) offset.get("next");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            in("poll", config);
            Thread.sleep(20);
            long number = next++;
            return List.of(new SourceRecord(Map.of("of", "numbers"), Map.of("next", next), config.get("topic"),
                    Schema.STRING_SCHEMA, String.valueOf(number)));
        }

        @Override
        public void stop() {
            in("stop", config);
        }
    }

    /** Writes each record and its places to the file `journal`. */
    public static class Sink extends SinkConnector {
        private Map<String, String> config;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> given) {
            config = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return Places.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(config);
        }

        @Override
        public boolean alterOffsets(Map<String, String> given, Map<TopicPartition, Long> offsets) {
            if (offsets.containsValue(1L)) throw new ConnectException("The first record belongs to the second");
            return true;
        }

        @Override
        public void stop() {}

        @Override
        public ConfigDef config() {
            return settings().define("journal", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where it writes.");
        }
    }

    public static class Places extends SinkTask {
        private Map<String, String> config;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> given) {
            config = given;
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (records.isEmpty()) return;
            in("put", config);
            List<String> lines = new ArrayList<>();
            for (SinkRecord record : records) {
                lines.add(String.join(" ", String.valueOf(record.value()), record.topic(),
                        String.valueOf(record.kafkaPartition()), String.valueOf(record.kafkaOffset()), record.originalTopic(),
                        String.valueOf(record.originalKafkaPartition()), String.valueOf(record.originalKafkaOffset())));
            }
            try {
                Files.write(Path.of(config.get("journal")), lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (java.io.IOException e) {
                throw new ConnectException(e);
            }
            in("put after it wrote", config);
        }

        @Override
        public void stop() {
            in("stop", config);
        }
    }
}
